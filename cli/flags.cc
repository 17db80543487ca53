#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <iomanip>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace attndb::cli {
namespace {

void Describe(CLI::Option* option, const FlagText& text, const std::string& group) {
  option->type_name(text.value)->group(group)->required(text.required);
}

std::string Expected(const std::string& what, const std::string& found) {
  return "expected " + what + ", found '" + found + "'";
}

// Without digits that say nothing: "0.5", "86400".
std::string ToText(double number) {
  std::ostringstream text;
  text << std::setprecision(15) << number;
  return text.str();
}

template <typename Number>
std::string RangeText(Number low, Number high) {
  if constexpr (std::is_integral_v<Number>) {
    return "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  } else {
    return "a number from " + ToText(double{low}) + " to " + ToText(double{high});
  }
}

}  // namespace

void Flags::Add(const FlagText& text, bool* flag) {
  app_->add_flag(text.names, *flag, text.help)->group(group_);
}

void Flags::Add(const FlagText& text, std::string* value) {
  Describe(app_->add_option(text.names, *value, text.help), text, group_);
}

void Flags::Add(const FlagText& text, std::vector<std::string>* values) {
  CLI::Option* const option = app_->add_option(text.names, *values, text.help);
  // One value each time it is given: what follows is the command's argument.
  if (text.names[0] == '-') option->allow_extra_args(false);
  Describe(option, text, group_);
}

void Flags::Add(const FlagText& text, DType* dtype) {
  const std::vector<std::pair<std::string, DType>> dtypes = {
      {"f16", DType::kFloat16}, {"bf16", DType::kBFloat16}, {"f32", DType::kFloat32}};
  CLI::Option* const option = app_->add_option(text.names, *dtype, text.help);
  const auto to_number = [dtypes](std::string& value) {
    for (const auto& [name, type] : dtypes) {
      if (name != value) continue;
      value = std::to_string(static_cast<int>(type));  // As the parser reads it.
      return std::string();
    }
    return Expected("f16, bf16 or f32", value);
  };
  option->transform(CLI::Validator(to_number, /*validator_desc=*/""));
  Describe(option, text, group_);
}

template <typename Number>
void Flags::Add(const FlagText& text, Number* number, Number low, Number high) {
  CLI::Option* const option = app_->add_option(text.names, *number, text.help);
  const auto is_within = [low, high](std::string& value) {
    Number parsed = 0;
    const bool is_number = CLI::detail::lexical_cast(value, parsed);
    return is_number && parsed >= low && parsed <= high ? std::string()
                                                        : Expected(RangeText(low, high), value);
  };
  option->check(CLI::Validator(is_within, /*validator_desc=*/""));
  Describe(option, text, group_);
}

template void Flags::Add(const FlagText&, int32_t*, int32_t, int32_t);
template void Flags::Add(const FlagText&, uint32_t*, uint32_t, uint32_t);
template void Flags::Add(const FlagText&, uint64_t*, uint64_t, uint64_t);
template void Flags::Add(const FlagText&, float*, float, float);
template void Flags::Add(const FlagText&, double*, double, double);

Flags Flags::Subcommand(const std::string& name, const std::string& summary, bool* chosen) {
  app_->require_subcommand(1);
  CLI::App* const sub = app_->add_subcommand(name, summary);
  sub->callback([chosen] { *chosen = true; });
  sub->fallthrough();  // The options of every command may follow.
  return Flags(sub);
}

void Flags::AcceptAnything() { app_->allow_extras(); }

}  // namespace attndb::cli
