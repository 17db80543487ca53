// Internal to planes: a bias that the model added to keys before the rotary embedding. R(p) turns
// channels i and i + num_pairs by the angle p * frequency[i]; a key at position p contains the bias
// R(p) b.
//
// To subtract it, b is rotated for each key. Adding q.R(p) b back to scores takes, for each q, a
// sum of num_pairs sinusoids of p, which costs as much as a scan unless
//   - a tile of kRotaryTile positions is one table: R(p + i) b = R(i) R(p) b, so the sinusoids of i
//     < kRotaryTile are tabulated and only their factors, q and b turned to p, change;
//   - slow sinusoids, below 1.5 radians from the middle of a tile to its ends, are replaced by one
//     polynomial of degree 7 for all of them;
//   - pairs without bias are left out.
// Threads: constant once made.
// Source:  bias of keys: Qwen2 (arXiv:2407.10671); the sum over tiles: ours.
#ifndef ATTNDB_INDEX_PLANES_ROTARY_BIAS_H_
#define ATTNDB_INDEX_PLANES_ROTARY_BIAS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/types.h"
#include "kernels/combine.h"
#include "kernels/weights.h"

namespace attndb::index {

inline constexpr size_t kRotaryTile = 256;

// Radians per position of each pair of channels; empty if keys are not rotated, or rotated in a way
// that attndb does not know (a scaling other than linear).
std::vector<double> RotaryFrequencies(const Rope& rope, uint32_t head_dim);

// Applies R to up to kernels::kWeightBlock consecutive rows.
class RotaryTurns {
 public:
  explicit RotaryTurns(std::span<const double> frequencies);

  // rows[i] -= R(first_position + i) bias; bias [2 * num_pairs].
  // REQUIRES: num_rows <= kernels::kWeightBlock, here and below.
  void Subtract(const float* bias, int64_t first_position, size_t num_rows, float* rows,
                size_t stride) const;

  // sums[d] += channel d of R(-(first_position + i)) rows[i], over all rows.
  void SumTurnedBack(const float* rows, size_t stride, size_t num_rows, int64_t first_position,
                     double* sums) const;

 private:
  // R(position) applied to `pairs`; [2 * num_pairs].
  std::vector<double> Turn(const std::vector<double>& pairs, int64_t position) const;

  const std::vector<double> frequencies_;
  std::vector<float> cos_, sin_;  // [kWeightBlock, num_pairs]
};

class RotaryBias {
 public:
  // bias [2 * frequencies.size()].
  RotaryBias(const float* bias, std::span<const double> frequencies);

  // Prepares the terms that AddScores needs of a q row: at most as many numbers as bias has.
  void Prepare(const float* q, float* terms) const;

  // scores[r * scores_stride + i] += q_r . R(first_position + i) b. `terms` of Prepare.
  void AddScores(int64_t first_position, size_t num_keys, std::span<const float* const> terms,
                 float* scores, size_t scores_stride) const;

 private:
  // A pair of channels with a bias.
  struct Pair {
    size_t channel = 0;
    double frequency = 0;
  };

  size_t num_functions() const;
  // Factors of the table's functions, for a tile whose first position has this cos and sin; rows of
  // factors are kMaxFunctions apart.
  void FindFactors(std::span<const float* const> terms, const float* cos, const float* sin,
                   float* factors) const;

  const size_t num_pairs_;                   // All pairs, with or without bias.
  std::vector<Pair> pairs_;                  // Pairs with a bias, fast ones first.
  std::vector<double> step_cos_, step_sin_;  // cos and sin of a step of a tile, by pair.
  size_t num_fast_ = 0;
  std::vector<float> bias_;  // Bias of pairs_: first channels, then second channels.
  // table_: cos and sin of fast pairs, then polynomials, at each position of a tile. slow_: the
  // coefficients of these polynomials in cos and sin of slow pairs.
  std::vector<float> table_;
  std::vector<float> slow_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_ROTARY_BIAS_H_
