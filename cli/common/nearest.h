// "Did you mean": the name that a mistyped word is most like.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_NEAREST_H_
#define ATTNDB_CLI_COMMON_NEAREST_H_

#include <span>
#include <string>
#include <string_view>

namespace attndb::cli {

// The first of the names that is fewest letters from `word`, inserted, left out or changed: at most
// two, and fewer than half of the word's. Empty: none is so near.
std::string Nearest(std::string_view word, std::span<const std::string> names);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_NEAREST_H_
