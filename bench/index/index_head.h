// One kv head with its group of q heads, as a benchmark of indexes reads it from a source.
//
// Shapes:  k, v [num_tokens, dim]; q [rows, group, head_dim], float32.
// Threads: a value.
#ifndef ATTNDB_BENCH_INDEX_INDEX_HEAD_H_
#define ATTNDB_BENCH_INDEX_INDEX_HEAD_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "bench/heads/head_source.h"
#include "bench/index/index_bench.h"

namespace attndb::bench {

struct IndexHead {
  // Tokens that no index has: those that plans always attend to.
  static constexpr uint64_t kSink = 16;
  static constexpr uint64_t kWindow = 128;

  std::string name;
  ModelSpec spec;  // One layer with one kv head.
  uint64_t num_tokens = 0;
  std::vector<float> k, v;
  std::vector<float> train;  // q of the last tokens of the context: [num_train][q head, head_dim].
  // q of some tokens that the context leaves out: [num_test][q head, head_dim].
  std::vector<float> test;

  const LayerSpec& layer() const { return spec.layers[0]; }
  size_t q_row() const { return size_t{layer().num_q_heads} * layer().head_dim; }
  uint64_t num_train() const { return train.size() / q_row(); }
  uint64_t num_test() const { return test.size() / q_row(); }
  uint64_t num_keys() const { return num_tokens - kSink - kWindow; }

  // The tokens whose q is searched for are left out of the context: the last ones, or those that
  // follow the first prefix_tokens (0: all), as a session goes on from a prefix that it shares.
  static Result<IndexHead> Read(HeadSource* source, const HeadPlace& place, uint32_t num_queries,
                                uint64_t prefix_tokens);
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_INDEX_INDEX_HEAD_H_
