// Random heads in which the softmax spreads as it does in a real model's.
//
// Method:  keys are normal, isotropic. The query of a q head is a random direction of length sigma
//          / scale: logits of the middle are normal with standard deviation sigma. Token 0 is a
//          sink: it has a channel of its own, to which the query gives the logit at which the
//          middle is left with the share `mass` of the softmax. Each q head has its (mass, sigma)
//          from a table of 32, an even choice by mass out of the 270 q heads of SmolLM2-135M at
//          8,192 tokens of the Python documentation; there sigma is what a normal distribution
//          needs for as many tokens to hold 90 % of the middle's mass. Values have a common mean of
//          15 % of their energy, which is the mean over these heads; the sink's value is 0.2 as
//          long.
// Not real: channels are alike, neighbouring tokens and the queries of a group have nothing in
//          common, and of a longer context each head needs the same *share* of tokens (a text's
//          heads need fewer). Figures of error and speed on them are to be labelled synthetic.
// Errors:  kInvalidArgument.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_HEADS_SYNTHETIC_HEADS_H_
#define ATTNDB_BENCH_HEADS_SYNTHETIC_HEADS_H_

#include <cstdint>
#include <memory>
#include <string_view>

#include "attndb/result.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

// "llama3-8b", "smollm2", or kv heads x q heads of each x head_dim: "8x4x128". Scale and RoPE are
// left at their defaults.
Result<LayerSpec> ParseGeometry(std::string_view text);

// One layer of `num_tokens`, the last 128 (or all) of which have queries.
Result<std::unique_ptr<HeadSource>> SyntheticHeads(const LayerSpec& layer, uint64_t num_tokens,
                                                   DType kv_dtype);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_SYNTHETIC_HEADS_H_
