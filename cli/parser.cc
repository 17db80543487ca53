#include "cli/parser.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cli/common/nearest.h"

namespace attndb::cli {
namespace {

void Describe(CLI::Option* option, const FlagText& text, const std::string& group) {
  option->type_name(text.value)->group(group)->required(text.required);
}

std::string Expected(const std::string& what, const std::string& found) {
  return "expected " + what + ", found '" + found + "'";
}

// Writes a number without trailing zeros: "0.5", "86400".
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

// CLI11's help with our words, and one empty line where it leaves two.
class HelpFormatter : public CLI::Formatter {
 public:
  HelpFormatter() {
    label("SUBCOMMAND", "COMMAND");
    label("Positionals", "Arguments");
    label("REQUIRED", "(required)");
    column_width(26);
  }

  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string text = CLI::Formatter::make_help(app, std::move(name), mode);
    for (size_t at = text.find("\n\n\n"); at != std::string::npos; at = text.find("\n\n\n", at)) {
      text.erase(at, 1);
    }
    while (text.ends_with("\n\n")) text.pop_back();
    return text;
  }
};

template <typename Kind>
bool Is(const CLI::ParseError& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

// Returns the innermost command on the command line, or the program if there is none.
const CLI::App* CommandOf(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

// Returns the first unknown word of the command line; empty if there is none.
std::string FirstUnknown(const CLI::App& app, const std::vector<std::string>& args) {
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  const auto found = std::ranges::find_first_of(args, unknown);
  return found == args.end() ? "" : *found;
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// The first of a word's meanings that the command has. A meaning with a space, as "attndb
// --version" or "pin --off", names a whole command line, and fits every command.
std::string GuessOf(const CLI::App& command, const std::string& word,
                    std::span<const Guess> guesses) {
  const std::vector<std::string> commands = CommandNames(command);
  const auto has = [&](const std::string& meant) {
    if (meant.find(' ') != std::string::npos) return true;
    if (meant.starts_with('-')) return command.get_option_no_throw(meant) != nullptr;
    return std::ranges::find(commands, meant) != commands.end();
  };
  for (const Guess& guess : guesses) {
    if (word == guess.word && has(guess.meant)) return guess.meant;
  }
  return "";
}

// Guesses which word the user meant by one that the command does not have. Empty: nothing is near.
std::string MeantBy(const CLI::App& command, const std::string& word,
                    const std::vector<std::string>& names, std::span<const Guess> guesses) {
  if (std::string guess = GuessOf(command, word, guesses); !guess.empty()) return guess;
  if (std::string nearest = Nearest(word, names); !nearest.empty()) return nearest;
  return BegunBy(word, names);
}

std::string UnknownText(const CLI::App& command, const std::string& word,
                        std::span<const Guess> guesses) {
  const std::string name = word.substr(0, word.find('='));
  const bool is_option = name.starts_with("-");
  const bool is_command = !is_option && !CommandNames(command).empty();
  std::string text = is_option    ? "unknown option " + name
                     : is_command ? "unknown command '" + word + "'"
                                  : "unexpected argument '" + word + "'";
  std::string meant;
  if (is_option) meant = MeantBy(command, name, OptionNames(command), guesses);
  if (is_command) meant = MeantBy(command, word, CommandNames(command), guesses);
  if (meant.empty()) return text;
  return text + "; did you mean " + (meant.starts_with('-') ? meant : "'" + meant + "'") + "?";
}

// An option as the help shows it: "CONTEXT" of an argument, "--index KIND" of a flag.
std::string LabelOf(const CLI::App& command, const std::string& name) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr) return name;
  const std::string value = option->get_type_name();
  if (option->get_positional()) return value.empty() ? name : value;
  return value.empty() ? name : name + " " + value;
}

// The mistake in the words of the project: "CONTEXT is missing".
std::string UsageText(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& args, std::span<const Guess> guesses) {
  const CLI::App* const command = CommandOf(app);
  const std::string what = error.what();
  const std::string word = FirstUnknown(app, args);
  const bool is_extra = Is<CLI::ExtrasError>(error);
  const bool lacks_command = Is<CLI::RequiredError>(error) && !CommandNames(*command).empty();
  if (!word.empty() && (is_extra || lacks_command)) return UnknownText(*command, word, guesses);
  if (lacks_command) return "no command";
  if (Is<CLI::RequiredError>(error)) {
    return LabelOf(*command, what.substr(0, what.find(' '))) + " is missing";
  }
  if (Is<CLI::ArgumentMismatch>(error) && what.find(':') != std::string::npos) {
    const std::string name = what.substr(0, what.find(':'));
    if (what.ends_with("missing")) return LabelOf(*command, name) + ": the value is missing";
    if (what.find("At Most") != std::string::npos) return name + " is given more than once";
  }
  return what;
}

std::string CommandText(const CLI::App& app) {
  const CLI::App* command = CommandOf(app);
  std::string text = command->get_name();
  while ((command = command->get_parent()) != nullptr) text = command->get_name() + " " + text;
  return text;
}

OptionEntry EntryOf(const CLI::Option& option) {
  OptionEntry entry;
  for (const std::string& name : option.get_snames()) entry.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) entry.names.push_back("--" + name);
  entry.value = option.get_type_name();
  entry.help = option.get_description();
  entry.group = option.get_group();
  entry.required = option.get_required();
  entry.repeats = option.get_positional() && option.get_items_expected_max() > 1;
  return entry;
}

CommandTree TreeOf(const CLI::App& app) {
  CommandTree tree = {.name = app.get_name(),
                      .summary = app.get_description(),
                      .footer = app.get_footer(),
                      .options = {},
                      .commands = {}};
  for (const CLI::Option* option : app.get_options()) tree.options.push_back(EntryOf(*option));
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    tree.commands.push_back(TreeOf(*command));
  }
  return tree;
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
  // The option takes one value each time. The next word is the command's argument.
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
      value = std::to_string(static_cast<int>(type));  // In the parser's own form.
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

Parser::Parser(const ParserTexts& texts)
    : guesses_(texts.guesses), app_(std::make_unique<CLI::App>(texts.about)) {
  app_->name(texts.name);
  app_->set_help_flag("-h,--help",
                      "Show this help; '" + texts.name + " COMMAND --help' shows a command's");
  app_->set_version_flag("--version", texts.version);
  app_->require_subcommand(1);
  app_->formatter(std::make_shared<HelpFormatter>());  // Commands inherit it.
  app_->footer(texts.footer);
}

Parser::~Parser() = default;

Flags Parser::MainFlags() { return Flags(app_.get()); }

Flags Parser::AddCommand(const std::string& name, const std::string& summary,
                         const std::string& footer) {
  CLI::App* const command = app_->add_subcommand(name, summary)->group("Commands");
  command->set_help_flag("-h,--help", "Show this help");
  command->footer(footer);
  commands_.push_back(command);
  return Flags(command);
}

ParsedLine Parser::Parse(const std::vector<std::string>& args) {
  const auto refuse = [&](const CLI::ParseError& error) {
    ParsedLine line = {.kind = ParsedLine::Kind::kWrong};
    line.mistake = UsageText(*app_, error, args, guesses_);
    line.where = CommandText(*app_);
    if (const auto unknown = app_->remaining(); !unknown.empty()) line.unknown = unknown.front();
    return line;
  };
  try {
    std::vector<std::string> last_first(args.rbegin(), args.rend());
    app_->parse(std::move(last_first));
  } catch (const CLI::Success& success) {  // --help, --version.
    const std::string& first = args.front();
    if (!first.starts_with('-') && app_->get_subcommands().empty()) {  // `attndb lst --help`.
      return refuse(CLI::ExtrasError(app_->get_name(), {first}));
    }
    app_->exit(success);
    return {.kind = ParsedLine::Kind::kShown};
  } catch (const CLI::ParseError& error) {
    return refuse(error);
  }
  ParsedLine line = {.kind = ParsedLine::Kind::kCommand};
  const auto is_parsed = [](const CLI::App* command) { return command->parsed(); };
  const auto found = std::ranges::find_if(commands_, is_parsed);
  line.command_idx = static_cast<size_t>(found - commands_.begin());
  for (const CLI::Option* given : (*found)->parse_order()) line.given.push_back(given->get_name());
  return line;
}

CommandTree Parser::Tree() const { return TreeOf(*app_); }

}  // namespace attndb::cli
