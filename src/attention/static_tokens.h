// The tokens of a row's middle that a plan's `static=prefill:n` always attends to, for one kv head:
// those that the last queries of the prompt weighed most (index/prefill/).
//
// Rule:    the runs with a ranking share n by their numbers of tokens in the middle, because
//          queries of its own prompt weighed each run. Of each run the heaviest tokens of the
//          middle are taken. Tokens that a prefix, a filter, sinks or the window leave out are
//          skipped, and the next lighter ones replace them.
// Memory:  nothing is allocated.
// Threads: pure functions.
// Source:  the static set W of RetrievalAttention Alg. 1 (3.3), by SnapKV's prediction.
#ifndef ATTNDB_ATTENTION_STATIC_TOKENS_H_
#define ATTNDB_ATTENTION_STATIC_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "attention/head_run.h"
#include "attndb/types.h"

namespace attndb::attention {

// Number of 64-bit words that hold one bit for each token.
constexpr size_t NumStaticWords(uint64_t num_tokens) { return (num_tokens + 63) / 64; }

struct StaticRoom {
  uint32_t* tokens = nullptr;  // [n, or as many as the middle holds]
  uint64_t* bits = nullptr;    // [NumStaticWords of the call's tokens]: scratch.
};

// Writes the static tokens, ascending, to room.tokens. Returns their number: at most n, fewer where
// runs have no ranking yet or the middle holds fewer ranked tokens. REQUIRES: parts of one run are
// neighbours in `runs`.
size_t ListStatic(std::span<const HeadRun> runs, TokenRange middle, size_t n,
                  const StaticRoom& room);

// Removes the static tokens from listed ones, in place; both ascend. Returns how many are left.
size_t DropStatic(std::span<const uint32_t> statics, uint32_t* tokens, size_t count);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_STATIC_TOKENS_H_
