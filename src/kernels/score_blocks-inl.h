// Internal: scores summed up by blocks.
#ifndef ATTNDB_KERNELS_SCORE_BLOCKS_INL_H_
#define ATTNDB_KERNELS_SCORE_BLOCKS_INL_H_

#include "kernels/prefetch.h"
#include "kernels/score_blocks.h"
#include "kernels/select-inl.h"
#include "kernels/weights-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kBlockVecs = kWeightBlock / kLanes;

inline float MaxOfBlock(const float* scores) {
  Vec largest = Set1(-kInfinity);
  uint32_t nan = 0;
  for (size_t u = 0; u < kBlockVecs; ++u) {
    const Vec x = Load(scores + u * kLanes);
    nan |= MaskNaN(x);
    largest = Max(x, largest);  // In this order Max drops a NaN of x.
  }
  return nan != 0 ? __builtin_nanf("") : ReduceMax(largest);
}

// Sums a block that is in the L1 cache. Weights below kLeast count as kLeast, which is negligible
// against the maximum.
template <bool kCapped>
inline float SumOfBlock(const float* scores, float max, const WeightMap& map) {
  const Vec scale = Set1(map.scale);
  const Vec top = ExponentsOf(Set1(max), map);
  Vec total[2] = {Zero(), Zero()};
  for (size_t u = 0; u < kBlockVecs; ++u) {
    const Vec score = Load(scores + u * kLanes);
    const Vec x = kCapped ? Sub(ExponentsOf(score, map), top) : Fma(score, scale, Sub(Zero(), top));
    total[u % 2] = Add(total[u % 2], Exp2OfNormal(Max(x, Set1(kLeastExponent))));
  }
  return ReduceAdd(Add(total[0], total[1]));
}

template <bool kCapped>
inline void SumBlocks(const float* scores, size_t num_blocks, const float* maxima,
                      const WeightMap& map, float* sums) {
  for (size_t b = 0; b < num_blocks; ++b) {
    const float sum = SumOfBlock<kCapped>(scores + b * kWeightBlock, maxima[b], map);
    sums[b] = maxima[b] == -kInfinity ? 0.0f : maxima[b] != maxima[b] ? maxima[b] : sum;
  }
}

// Finds maxima first, so that a sum waits only for its own maximum, while the next blocks' go on.
inline void SummarizeBlocks(const float* scores, size_t num_blocks, const WeightMap& map,
                            float* maxima, float* sums) {
  for (size_t b = 0; b < num_blocks; ++b) maxima[b] = MaxOfBlock(scores + b * kWeightBlock);
  if (sums == nullptr) return;
  if (map.cap == 0) {
    SumBlocks<false>(scores, num_blocks, maxima, map, sums);
  } else {
    SumBlocks<true>(scores, num_blocks, maxima, map, sums);
  }
}

void SummarizeScores(const float* scores, size_t num_scores, const LogitSpec& logit, float* maxima,
                     float* sums) {
  constexpr size_t kBlocks = 16;  // They stay in the cache between the two passes.
  const WeightMap map = MapOf(logit, 0.0f);
  const size_t num_whole = num_scores / kWeightBlock;
  for (size_t b = 0; b < num_whole; b += kBlocks) {
    const size_t num_blocks = num_whole - b < kBlocks ? num_whole - b : kBlocks;
    SummarizeBlocks(scores + b * kWeightBlock, num_blocks, map, maxima + b,
                    sums == nullptr ? nullptr : sums + b);
  }
  const size_t first = num_whole * kWeightBlock;
  if (first == num_scores) return;
  float last[kWeightBlock];
  for (size_t i = 0; i < kWeightBlock; ++i) {
    last[i] = first + i < num_scores ? scores[first + i] : -kInfinity;
  }
  SummarizeBlocks(last, 1, map, maxima + num_whole, sums == nullptr ? nullptr : sums + num_whole);
}

// Appends the indices of [begin, end) whose scores reach the threshold.
inline size_t SelectFromBlock(const float* scores, size_t begin, size_t end, float threshold,
                              uint32_t* indices) {
  const Vec limit = Set1(threshold);
  size_t count = 0;
  size_t i = begin;
  for (; i + kLanes <= end; i += kLanes) {
    const uint32_t mask = MaskNotBelow(Load(scores + i), limit);
    count += StoreIndices(mask, static_cast<uint32_t>(i), indices + count);
  }
  for (; i < end; ++i) {
    indices[count] = static_cast<uint32_t>(i);
    count += static_cast<size_t>(!(scores[i] < threshold));
  }
  return count;
}

// Lists blocks before it reads them, so that the next ones are being fetched meanwhile.
size_t SelectFromBlocks(const float* scores, size_t num_scores, const float* maxima,
                        float threshold, uint32_t* indices) {
  constexpr size_t kListed = 256;
  constexpr size_t kBlocksAhead = 4;
  uint32_t listed[kListed + kSelectSlack];
  const size_t num_blocks = NumWeightBlocks(num_scores);
  size_t count = 0;
  for (size_t first = 0; first < num_blocks; first += kListed) {
    const size_t left = num_blocks - first;
    const size_t num_listed =
        SelectRange(maxima + first, left < kListed ? left : kListed, threshold, listed);
    for (size_t i = 0; i < num_listed; ++i) {
      if (i + kBlocksAhead < num_listed) {
        const float* const ahead = scores + (first + listed[i + kBlocksAhead]) * kWeightBlock;
        for (size_t u = 0; u < kWeightBlock; u += 64 / sizeof(float)) Prefetch(ahead + u);
      }
      const size_t begin = (first + listed[i]) * kWeightBlock;
      const size_t end = begin + kWeightBlock < num_scores ? begin + kWeightBlock : num_scores;
      count += SelectFromBlock(scores, begin, end, threshold, indices + count);
    }
  }
  return count;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_SCORE_BLOCKS_INL_H_
