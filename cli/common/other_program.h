// Starts another program of attndb for a command: `attndb serve` becomes attndb-server.
// A build that does not need such a program compiles none of it.
//
// Place:   beside this program's own file, symbolic links followed. This holds in a build, in an
//          installation and in a Python package.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_OTHER_PROGRAM_H_
#define ATTNDB_CLI_COMMON_OTHER_PROGRAM_H_

#include <optional>
#include <string>
#include <vector>

#include "attndb/status.h"
#include "cli/environment.h"

namespace attndb::cli {

inline constexpr char kServerProgram[] = "attndb-server";
inline constexpr char kSimulateProgram[] = "attndb-simulate";

// The path of a program beside this one; none if it does not exist or is not executable.
std::optional<std::string> ProgramBeside(const std::string& name);

// Replaces this process by the program beside this one, with the same process and streams, and with
// the arguments `words`. Exit codes and signals are then those of the other program. Returns only
// after a failure.
// Errors: kUnsupported (no such file; `env` then has `advice`); kIoError (the system can't run it).
Status BecomeProgram(Environment* env, const std::string& name, std::vector<std::string> words,
                     const std::string& advice);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_OTHER_PROGRAM_H_
