#include "cli/command_tree.h"

#include <CLI/CLI.hpp>

namespace attndb::cli {
namespace {

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

}  // namespace

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

}  // namespace attndb::cli
