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

// The names that `word` may mean, the shortest first, at most `most`: those that differ only in
// case; else those that begin with it; else those that are similar; else those that contain it.
std::vector<std::string> NamesLike(std::string_view word, std::span<const std::string> names,
                                   size_t most);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_NEAREST_H_
