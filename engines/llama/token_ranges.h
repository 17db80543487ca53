// Tokens of a context as people name them: "0-800,1200-1500".
//
// Errors:  kInvalidArgument naming the text and what is expected.
// Threads: stateless.
#ifndef ATTNDB_ENGINES_LLAMA_TOKEN_RANGES_H_
#define ATTNDB_ENGINES_LLAMA_TOKEN_RANGES_H_

#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::llama {

// Ranges BEGIN-END without END, ascending and disjoint. An empty text has none.
Result<std::vector<TokenRange>> ParseTokenRanges(std::string_view text);

// Adds the first 4 tokens, on which models lean whatever the text says, to `ranges`, unless they
// are empty.
std::vector<TokenRange> WithFirstTokens(std::vector<TokenRange> ranges);

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TOKEN_RANGES_H_
