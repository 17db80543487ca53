// Scripts that let a shell complete a program's command line: its commands, their flags, files, and
// the names of stored contexts.
//
// Names come from `PROGRAM ls` with the line's own --db, --tenant and --server: it only reads,
// makes no store and takes no lock. What takes longer than two seconds is not waited for.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_COMPLETION_H_
#define ATTNDB_CLI_COMMON_COMPLETION_H_

#include <string>
#include <string_view>

#include "cli/command_tree.h"

namespace attndb::cli {

std::string BashCompletion(const CommandTree& program);
std::string ZshCompletion(const CommandTree& program);
std::string FishCompletion(const CommandTree& program);

// The completion of a value, by its placeholder in the help.
enum class ValueKind {
  kNone,     // There is no value.
  kContext,  // CONTEXT, PATTERN
  kFile,     // FILE, MODEL
  kFolder,   // PATH
  kChoice,   // bash|zsh|fish
  kOther,    // One that is not guessed.
};
ValueKind KindOf(const std::string& value);

// "bash|zsh|fish" -> "bash zsh fish".
std::string ChoicesOf(std::string value);

// Whether all commands have the flag, as the program itself does.
bool IsCommon(const CommandTree& program, const OptionEntry& option);

// `text` with the program's name for each PROGRAM; behind an underscore, in names of functions, it
// has no dash.
std::string WithProgram(std::string_view text, const std::string& program);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_COMPLETION_H_
