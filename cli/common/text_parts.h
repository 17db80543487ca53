// Cuts a text into parts of a limited number of tokens each: at headings, else between paragraphs,
// else at a line's end, a sentence's, a word's.
//
// The parts follow each other without a gap: concatenated, they are the text.
//
// Errors:  kInvalidArgument (a single character has more tokens than a part may have; more parts
//          than kMostParts); those of the count.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_TEXT_PARTS_H_
#define ATTNDB_CLI_COMMON_TEXT_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "attndb/result.h"

namespace attndb::cli {

inline constexpr size_t kMostParts = 9999;

// The tokens that a piece of the text has by itself.
using CountTokens = std::function<Result<uint64_t>(std::string_view piece)>;

// REQUIRES: most_tokens > 0; the text is UTF-8.
Result<std::vector<std::string_view>> PartsOf(std::string_view text, uint64_t most_tokens,
                                              const CountTokens& count);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TEXT_PARTS_H_
