// The key that `attndb serve` asks clients for: --api-key, or the variable ATTNDB_API_KEY.
//
// Method:  lists of processes show command lines to everybody, and environments to their owner
//          alone. So attndb starts attndb-server without the flag, and with the variable.
// Errors:  kInvalidArgument, naming the flag or the variable. No message holds a key.
// Threads: HandOverApiKey changes the environment: before there are threads. The rest is stateless.
#ifndef ATTNDB_CLI_COMMON_API_KEY_H_
#define ATTNDB_CLI_COMMON_API_KEY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "attndb/result.h"

namespace attndb::cli {

inline constexpr char kApiKeyFlag[] = "--api-key";
inline constexpr char kApiKeyVariable[] = "ATTNDB_API_KEY";
inline constexpr size_t kMaxApiKeyBytes = 1024;

// Returns the flag's key, or else the variable's; empty if there is neither. A variable that is set
// and empty is refused: a server that somebody meant to close must not be open. A value of the flag
// that looks like another option is refused, too.
// `flag`: none if it was not given.
Result<std::string> ApiKeyOf(const std::optional<std::string>& flag);

// The words of a command line without the flag and its value.
std::vector<std::string> WithoutApiKey(const std::vector<std::string>& words);

// Sets the variable for the program that this one becomes.
void HandOverApiKey(const std::string& key);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_API_KEY_H_
