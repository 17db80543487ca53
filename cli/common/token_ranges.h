// Tokens of a context as people name them: "0-800,1200-1500".
//
// Errors:  kInvalidArgument naming the text and what is expected.
// Threads: stateless.
#ifndef ATTNDB_CLI_COMMON_TOKEN_RANGES_H_
#define ATTNDB_CLI_COMMON_TOKEN_RANGES_H_

#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::cli {

// Ranges BEGIN-END, END not among them, in order and apart from one another. None of an empty text.
Result<std::vector<TokenRange>> ParseTokenRanges(std::string_view text);

// The same with the first 4 tokens, on which models lean whatever the text says. None of none.
std::vector<TokenRange> WithFirstTokens(std::vector<TokenRange> ranges);

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_COMMON_TOKEN_RANGES_H_
