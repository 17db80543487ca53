// A program of commands: parses its command line, runs the named command, and reports the result.
// `attndb` and `attndb-bench` are two.
//
// Output:  help and version on stdout; errors as in environment.h.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_PROGRAM_H_
#define ATTNDB_CLI_PROGRAM_H_

#include <span>
#include <string>

#include "cli/command.h"
#include "cli/common/guesses.h"

namespace attndb::cli {

// A command that a program had in an earlier version.
struct MovedCommand {
  const char* name;
  const char* advice;  // The command to run instead.
};

struct Program {
  const char* name;
  const char* about;      // One sentence.
  const char* examples;   // Lines of the help's end, with indent.
  bool has_store = true;  // Whether commands use a store of the user: --db, --tenant, --wait.
  std::span<const CommandEntry> commands;
  std::span<const MovedCommand> moved;
  std::span<const Guess> guesses = {};  // Words of other programs, for "did you mean".
  // Guesses which name the user meant, if a wrong name led to this failure: "did you mean
  // 'contract'?". Empty: nothing is near. May be null.
  std::string (*guess)(Environment*, const Status&) = nullptr;
};

// Returns the exit code. No exception leaves it.
int RunProgram(const Program& program, int argc, char** argv);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_PROGRAM_H_
