// One command of a program: its flags and its work. Each command is in its own file; those of
// `attndb` are in commands/.
//
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMAND_H_
#define ATTNDB_CLI_COMMAND_H_

#include <memory>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "cli/common/exit_code.h"
#include "cli/environment.h"
#include "cli/flags.h"

namespace attndb::cli {

class Command {
 public:
  virtual ~Command() = default;

  // Names this command's flags and arguments; their variables live in this object.
  virtual void AddFlags(Flags* flags) = 0;

  // Runs the command. A failure is a Status; an outcome that is no failure but not 0 is an
  // ExitCode.
  virtual Result<ExitCode> Run(Environment* env) = 0;
  // Whether it runs although variables are unreadable (VariableFaults): doctor, which reports them.
  virtual bool bears_faults() const { return false; }
};

struct CommandEntry {
  const char* name;
  const char* summary;   // One line.
  const char* examples;  // Lines of the help's end, without indent.
  std::unique_ptr<Command> (*make)();
};

// All commands of `attndb`, in the order of its help.
const std::vector<CommandEntry>& AllCommands();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMAND_H_
