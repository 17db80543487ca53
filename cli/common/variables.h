// The environment variables that attndb reads: `attndb doctor` shows them, the manual page lists
// them.
//
// Threads: SetPathVariables changes the environment: before there are threads. The rest is
//          stateless.
#ifndef ATTNDB_CLI_COMMON_VARIABLES_H_
#define ATTNDB_CLI_COMMON_VARIABLES_H_

#include <span>
#include <string>

namespace attndb::cli {

struct Variable {
  const char* name;
  const char* meaning;
  bool is_secret = false;  // Whether it is set is all that is told.
  bool is_path = false;
};

std::span<const Variable> Variables();

// The user's home folder: $HOME, else from the system's list of users; empty: unknown.
std::string HomeFolder();

// The path with the home folder for a leading "~/". A shell leaves the sign as it is in quotes and
// behind "=", and no other program knows it.
std::string WithHome(const std::string& path);

// Sets HOME if it is not set, and replaces "~/" in all variables that are paths: all code behind
// this, and the programs that it starts, see the same paths.
void SetPathVariables();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_VARIABLES_H_
