// A capture made longer, for lengths at which no text was captured.
//
// Method:  the first 16 and the last 512 tokens stay as they are. The captured middle is spread
//          over the longer one: each of its tokens begins a run of tokens, itself as it was
//          captured, then others that take K and V (and q, if every captured token has it) of
//          captured middle tokens at random (one draw for all layers and heads of a token), with
//          the RoPE of K and q undone and done again for the position of the run. So no position is
//          one that the model was not trained on; the distribution of logits at each position is
//          the captured one; no row is repeated bit for bit.
// How true: 2,048 tokens of a SmolLM2 capture stretched so to 8,192 need 690 tokens in the mean
//          (8,192 real ones: 357) for 90 % of the softmax, and 2,150 (1,125) for 99 %: a text's
//          heads need fewer of the far tokens than this gives them. Stretched heads are the harder
//          ones.
// Errors:  kInvalidArgument (a length that is not longer, a capture of fewer than 1,024 tokens);
//          kUnsupported (a capture made with a RoPE scaling).
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_HEADS_STRETCHED_HEADS_H_
#define ATTNDB_BENCH_HEADS_STRETCHED_HEADS_H_

#include <cstdint>
#include <memory>

#include "attndb/result.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

// Holds all of `source` in memory, as float32.
Result<std::unique_ptr<HeadSource>> StretchedHeads(std::unique_ptr<HeadSource> source,
                                                   uint64_t num_tokens);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_STRETCHED_HEADS_H_
