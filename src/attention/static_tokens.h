// The tokens of a row's middle that a plan's `static=prefill:n` adds to what is attended to in any
// case: those that the last queries of the prompt weighed most (index/prefill/), of one kv head.
//
// Rule:    n is shared among the runs that have a ranking by how many tokens of the middle they
//          hold, as each was weighed by its own prompt's queries. Of each run its heaviest tokens
//          of the middle are taken: what a prefix, a filter, sinks or the window leave out is
//          passed over, and the next lighter ones take their place.
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

// Words of a bit for each token.
constexpr size_t NumStaticWords(uint64_t num_tokens) { return (num_tokens + 63) / 64; }

struct StaticRoom {
  uint32_t* tokens = nullptr;  // [n, or as many as the middle holds]
  uint64_t* bits = nullptr;    // [NumStaticWords of the call's tokens]: scratch.
};

// Writes them ascending to room.tokens. Returns how many there are: at most n, fewer where runs
// have no ranking yet or the middle holds fewer ranked tokens.
// REQUIRES: parts of one run are neighbours in `runs`.
size_t ListStatic(std::span<const HeadRun> runs, TokenRange middle, size_t n,
                  const StaticRoom& room);

// Takes the static tokens out of listed ones, in place; both ascend. Returns how many are left.
size_t DropStatic(std::span<const uint32_t> statics, uint32_t* tokens, size_t count);

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_STATIC_TOKENS_H_
