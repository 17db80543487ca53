// How the softmax of one query spreads over the tokens: what plans can make use of.
//
// Method:  brute force, float32 dot products, float64 sums; for the newest token's queries, of
//          every layer without a sliding window and every q head. Keys come in pieces, in order.
// Units:   the middle is what is neither among the first 16 tokens nor the last 128. Tokens of
//          largest weight are counted that, with the first 16 and the last 128, hold a share.
// Threads: one thread at a time.
#ifndef ATTNDB_BENCH_HEADS_MASS_PROFILE_H_
#define ATTNDB_BENCH_HEADS_MASS_PROFILE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "bench/heads/head_source.h"

namespace attndb::bench {

// Mean and median over heads.
struct MeanAndMedian {
  double mean = 0;
  double median = 0;
};

struct MassProfile {
  uint32_t num_heads = 0;  // Heads that were looked at; 0 = none, and all figures below are 0.
  MeanAndMedian middle_mass;
  MeanAndMedian tokens_90;  // Middle tokens that hold 90 % of all attention mass.
  MeanAndMedian tokens_99;  // Middle tokens that hold 99 %.
};

class MassProfiler {
 public:
  // Reads the newest token's queries. Not owned: `source` outlives this.
  static Result<MassProfiler> Create(HeadSource* source);

  // Adds the next rows of layer i: [n, num_kv_heads, head_dim].
  void AddKeys(size_t i, std::span<const float> keys);

  // Returns the profile. Call it after all keys of all layers were added.
  MassProfile Finish() const;

 private:
  explicit MassProfiler(const HeadInfo* info) : info_(info) {}

  const HeadInfo* info_;                                 // Not owned.
  std::vector<std::vector<float>> queries_;              // [layer], scaled; empty: not looked at.
  std::vector<std::vector<std::vector<float>>> logits_;  // [layer][q head][token]
};

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_HEADS_MASS_PROFILE_H_
