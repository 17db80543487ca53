// A program's commands and their flags as plain values. Completion and the manual page are made
// from these, so that they never differ from --help.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMAND_TREE_H_
#define ATTNDB_CLI_COMMAND_TREE_H_

#include <string>
#include <vector>

namespace attndb::cli {

// A flag, or an argument.
struct OptionEntry {
  std::vector<std::string> names;  // "-c", "--context"; empty: an argument.
  std::string value;               // The placeholder of its value: "CONTEXT"; empty: it has none.
  std::string help;
  std::string group;  // The title of its group in the help.
  bool required = false;
  bool repeats = false;  // An argument that takes all that follow.
};

struct CommandTree {
  std::string name;
  std::string summary;
  std::string footer;  // The end of its help: examples.
  std::vector<OptionEntry> options;
  std::vector<CommandTree> commands;
};

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMAND_TREE_H_
