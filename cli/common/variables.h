// The environment variables that attndb reads: `attndb doctor` shows them, the manual page lists
// them.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_VARIABLES_H_
#define ATTNDB_CLI_COMMON_VARIABLES_H_

#include <span>

namespace attndb::cli {

struct Variable {
  const char* name;
  const char* meaning;
  bool is_secret = false;  // Whether it is set is all that is told.
};

std::span<const Variable> Variables();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_VARIABLES_H_
