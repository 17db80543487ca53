#include "cli/usage_text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "cli/common/nearest.h"

namespace attndb::cli {
namespace {

template <typename Kind>
bool Is(const CLI::ParseError& error) {
  return dynamic_cast<const Kind*>(&error) != nullptr;
}

// The innermost command that was found; the program, if none was.
const CLI::App* CommandOf(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return command;
}

// The first word of the command line that nothing takes; empty: there is none.
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

std::string UnknownText(const CLI::App& command, const std::string& word) {
  const std::string name = word.substr(0, word.find('='));
  const bool is_option = name.starts_with("-");
  const bool is_command = !is_option && !CommandNames(command).empty();
  std::string text = is_option    ? "unknown option " + name
                     : is_command ? "unknown command '" + word + "'"
                                  : "unexpected argument '" + word + "'";
  std::string nearest;
  if (is_option) nearest = Nearest(name, OptionNames(command));
  if (is_command) nearest = Nearest(word, CommandNames(command));
  if (!nearest.empty())
    text += "; did you mean " + (is_option ? nearest : "'" + nearest + "'") + "?";
  return text;
}

// An option as the help shows it: "CONTEXT" of an argument, "--index KIND" of a flag.
std::string LabelOf(const CLI::App& command, const std::string& name) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr) return name;
  const std::string value = option->get_type_name();
  if (option->get_positional()) return value.empty() ? name : value;
  return value.empty() ? name : name + " " + value;
}

}  // namespace

std::string UsageText(const CLI::App& app, const CLI::ParseError& error,
                      const std::vector<std::string>& args) {
  const CLI::App* const command = CommandOf(app);
  const std::string what = error.what();
  const std::string word = FirstUnknown(app, args);
  const bool is_extra = Is<CLI::ExtrasError>(error);
  const bool lacks_command = Is<CLI::RequiredError>(error) && !CommandNames(*command).empty();
  if (!word.empty() && (is_extra || lacks_command)) return UnknownText(*command, word);
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

}  // namespace attndb::cli
