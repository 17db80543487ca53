#include "cli/flags.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace attndb::cli {
namespace {

void Describe(CLI::Option* option, const FlagText& text, const std::string& group) {
  option->type_name(text.value)->group(group)->required(text.required);
}

// Without the clutter that CLI11 would put behind the option's name in the help.
CLI::Validator Quiet(CLI::Validator validator) {
  validator.description("");
  return validator;
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
  option->transform(Quiet(CLI::CheckedTransformer(dtypes)));
  Describe(option, text, group_);
}

template <typename Number>
void Flags::Add(const FlagText& text, Number* number, Number low, Number high) {
  CLI::Option* const option = app_->add_option(text.names, *number, text.help);
  option->check(Quiet(CLI::Range(low, high)));
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
