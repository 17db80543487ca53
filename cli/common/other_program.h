// Commands whose work is done by another program of attndb: `attndb serve` starts attndb-server.
// A program of its own is built when it is wanted, and what does not need it is built without.
//
// Place:   beside this program's own file, symbolic links followed: in a build, in an installation
//          and in a Python package alike.
// Threads: one thread at a time.
#ifndef ATTNDB_CLI_COMMON_OTHER_PROGRAM_H_
#define ATTNDB_CLI_COMMON_OTHER_PROGRAM_H_

#include <optional>
#include <string>

#include "attndb/status.h"
#include "cli/environment.h"

namespace attndb::cli {

inline constexpr char kServerProgram[] = "attndb-server";
inline constexpr char kSimulateProgram[] = "attndb-simulate";

// The path of a program beside this one; none if it is not there or can't be run.
std::optional<std::string> ProgramBeside(const std::string& name);

// Becomes the program beside this one: the same process, its command line and its streams. So exit
// codes and signals are the other program's. Returns only if that failed; `env` then has the
// advice.
// Errors: kUnsupported (it is not there); kIoError (the system can't start it).
Status BecomeProgram(Environment* env, const std::string& name, const std::string& advice);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_OTHER_PROGRAM_H_
