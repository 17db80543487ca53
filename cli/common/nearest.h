// "Did you mean": the name that a mistyped word is most like.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_NEAREST_H_
#define ATTNDB_CLI_COMMON_NEAREST_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace attndb::cli {

// The first of the names that is fewest letters from `word`, inserted, left out or changed: at most
// two, and fewer than half of the word's. Empty: none is so near.
std::string Nearest(std::string_view word, std::span<const std::string> names);

// The one name that begins with `word`, of two letters or more; empty: there is none, or several.
std::string BegunBy(std::string_view word, std::span<const std::string> names);

// The names that `word` may stand for, the shortest first, `most` at most: those that differ in
// case alone; else those that begin with it; else those that are near it; else those that hold it.
std::vector<std::string> NamesLike(std::string_view word, std::span<const std::string> names,
                                   size_t most);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_NEAREST_H_
