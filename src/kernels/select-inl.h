// Internal: selection by score.
//
// Top-k in four steps: (1) Find the vertical maxima of groups of 16 scores. Their k-th largest is a
// lower bound of the k-th largest score, because each belongs to a different score. If k is too
// large for that, take a score that is most likely lower according to a sample, and count whether
// it is. (2) Compress the indices of all scores not below the bound. (3) Find the k-th largest of
// these candidates by radix. (4) Keep all above it and the first ones equal to it. Steps 1 and 2
// stream; steps 3 and 4 process little more than k items.
#ifndef ATTNDB_KERNELS_SELECT_INL_H_
#define ATTNDB_KERNELS_SELECT_INL_H_

#include "kernels/float_bits-inl.h"
#include "kernels/math-inl.h"
#include "kernels/select.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

float MaxScore(const float* scores, size_t num_scores) {
  Vec largest[4] = {Set1(-kInfinity), Set1(-kInfinity), Set1(-kInfinity), Set1(-kInfinity)};
  uint32_t nan = 0;
  size_t i = 0;
  for (; i + 4 * kLanes <= num_scores; i += 4 * kLanes) {
    for (size_t u = 0; u < 4; ++u) {
      const Vec x = Load(scores + i + u * kLanes);
      largest[u] = Max(x, largest[u]);  // In this order Max drops a NaN of x.
      nan |= MaskNaN(x);
    }
  }
  float max = ReduceMax(Max(Max(largest[0], largest[1]), Max(largest[2], largest[3])));
  for (; i < num_scores; ++i) {
    if (scores[i] > max) max = scores[i];
    nan |= static_cast<uint32_t>(scores[i] != scores[i]);
  }
  return nan != 0 ? __builtin_nanf("") : max;
}

// Appends the indices whose bit is set in mask_at(first index of a vector), four vectors at a time,
// and returns where it ended; the caller handles the remaining ones.
template <typename MaskAt>
inline size_t SelectGroups(size_t num_scores, const MaskAt& mask_at, uint32_t* indices,
                           size_t* count) {
  size_t i = 0;
  for (; i + 4 * kLanes <= num_scores; i += 4 * kLanes) {
    uint32_t mask[4];
    for (size_t u = 0; u < 4; ++u) mask[u] = mask_at(i + u * kLanes);
    if ((mask[0] | mask[1] | mask[2] | mask[3]) == 0) continue;
    for (size_t u = 0; u < 4; ++u) {
      *count += StoreIndices(mask[u], static_cast<uint32_t>(i + u * kLanes), indices + *count);
    }
  }
  return i;
}

size_t SelectRange(const float* scores, size_t num_scores, float threshold, uint32_t* indices) {
  const Vec limit = Set1(threshold);
  size_t count = 0;
  const size_t done = SelectGroups(
      num_scores, [&](size_t i) { return MaskNotBelow(Load(scores + i), limit); }, indices, &count);
  for (size_t i = done; i < num_scores; ++i) {
    indices[count] = static_cast<uint32_t>(i);
    count += static_cast<size_t>(!(scores[i] < threshold));
  }
  return count;
}

// Keys that take less time to be counted a dozen times than to be sorted by bytes.
inline constexpr size_t kFewKeys = 4096;

size_t TakeNotBelow(const float* scores, size_t num_scores, float threshold, float* taken) {
  const Vec limit = Set1(threshold);
  size_t count = 0;
  size_t i = 0;
  for (; i + kLanes <= num_scores; i += kLanes) {
    const Vec x = Load(scores + i);
    const uint32_t mask = MaskNotBelow(x, limit);
    // Also if the mask is empty: a branch would be mispredicted too often.
    StoreSelected(mask, x, taken + count);
    count += static_cast<size_t>(__builtin_popcount(mask));
  }
  for (; i < num_scores; ++i) {
    taken[count] = scores[i];
    count += static_cast<size_t>(!(scores[i] < threshold));
  }
  return count;
}

void MarkNotBelow(const float* scores, size_t num_scores, float threshold, uint64_t* bits) {
  constexpr size_t kWord = 64;
  const Vec limit = Set1(threshold);
  size_t i = 0;
  for (; i + kWord <= num_scores; i += kWord) {
    uint64_t word = 0;
    for (size_t u = 0; u < kWord; u += kLanes) {
      word |= uint64_t{MaskNotBelow(Load(scores + i + u), limit)} << u;
    }
    bits[i / kWord] |= word;
  }
  for (; i < num_scores; ++i) {
    bits[i / kWord] |= uint64_t{!(scores[i] < threshold)} << i % kWord;
  }
}

// Unsigned numbers in the order of scores: -0 is +0, NaN is the largest.
inline uint32_t OrderKey(float score) {
  if (score != score) return ~0u;
  const uint32_t bits = BitsOfFloat(score + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
inline constexpr uint32_t kInfinityKey = 0xff800000u;  // Above it are NaN.
inline float ScoreOfKey(uint32_t key) { return FloatOfBits(key >> 31 ? key & 0x7fffffffu : ~key); }

// Three keys in (low, high] that cut [low, high] in four: evenly by score, as keys of one selection
// are spread; or evenly by key, where these are no numbers or `by_key`.
struct Parting {
  uint32_t keys[3];
};
inline Parting PartRange(uint32_t low, uint32_t high, bool by_key) {
  const float first = ScoreOfKey(low);
  const float step = (ScoreOfKey(high) - first) * 0.25f;
  Parting parting;
  for (uint32_t i = 0; i < 3; ++i) {
    const auto part = static_cast<uint32_t>((uint64_t{high} - low) * (i + 1) / 4);
    const uint32_t of_score = OrderKey(first + step * static_cast<float>(i + 1));
    const bool fits = !by_key && of_score > low && of_score <= high;
    parting.keys[i] = fits ? of_score : low + (part == 0 ? 1 : part);
  }
  return parting;
}

// Counts the keys that are at least each of the three.
inline Parting CountNotBelow(const uint32_t* keys, size_t num_keys, const Parting& least) {
  const uint32_t a = least.keys[0], b = least.keys[1], c = least.keys[2];
  uint32_t of_a = 0, of_b = 0, of_c = 0;
  for (size_t i = 0; i < num_keys; ++i) {
    of_a += static_cast<uint32_t>(keys[i] >= a);
    of_b += static_cast<uint32_t>(keys[i] >= b);
    of_c += static_cast<uint32_t>(keys[i] >= c);
  }
  return {{of_a, of_b, of_c}};
}

// A key that at least k keys, and at most `most` keys, are not below (1 <= k <= num_keys); the
// largest such key if equal keys are so many that there is none. A count of a few thousand keys is
// a few hundred instructions.
uint32_t SplitKeys(const uint32_t* keys, size_t num_keys, size_t k, size_t most) {
  uint32_t low = ~0u;
  uint32_t high = 0;
  for (size_t i = 0; i < num_keys; ++i) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  // By score and by key in turn: cutting by key ends after 16 rounds, whatever the keys are.
  for (bool by_key = false; low < high; by_key = !by_key) {
    const Parting parting = PartRange(low, high, by_key);
    const Parting count = CountNotBelow(keys, num_keys, parting);
    for (size_t i = 0; i < 3; ++i) {  // Ascending.
      if (count.keys[i] >= k) {
        low = parting.keys[i];
        if (count.keys[i] <= most) return low;
      } else {
        high = parting.keys[i] - 1;
        break;
      }
    }
  }
  return low;
}

// Returns the k-th largest key (1 <= k <= num_keys) or, if that is larger than the next, a number
// between them; destroys `keys`. Works by bytes from the top: counts, picks the byte value that
// contains the k-th key, and keeps only those keys.
uint32_t KthLargest(uint32_t* keys, size_t num_keys, size_t k) {
  if (num_keys <= kFewKeys) return SplitKeys(keys, num_keys, k, k);
  uint32_t found = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    uint32_t counts[256] = {};
    for (size_t i = 0; i < num_keys; ++i) ++counts[keys[i] >> shift & 255];
    uint32_t byte = 255;
    while (counts[byte] < k) k -= counts[byte--];
    found |= byte << shift;
    size_t kept = 0;
    for (size_t i = 0; i < num_keys; ++i) {
      const uint32_t key = keys[i];
      keys[kept] = key;
      kept += static_cast<size_t>((key >> shift & 255) == byte);
    }
    num_keys = kept;
  }
  return found;
}

// A score that at least k scores are not below; -inf if there is no cheap one.
float LowerBound(const float* scores, size_t num_scores, size_t k, uint32_t* work) {
  constexpr size_t kGroup = 16;
  const size_t num_maxima = num_scores / (kGroup * kLanes) * kLanes;
  if (num_maxima < 2 * k) return -kInfinity;
  uint32_t nan = 0;
  for (size_t i = 0; i < num_maxima; i += kLanes) {
    const float* const group = scores + i * kGroup;
    Vec largest = Set1(-kInfinity);
    for (size_t u = 0; u < kGroup; ++u) {
      const Vec x = Load(group + u * kLanes);
      nan |= MaskNaN(x);
      largest = Max(x, largest);
    }
    float lanes[kLanes];
    Store(lanes, largest);
    for (size_t l = 0; l < kLanes; ++l) work[i + l] = OrderKey(lanes[l]);
  }
  if (nan != 0) return -kInfinity;  // Rare; the exact steps then see everything.
  return ScoreOfKey(KthLargest(work, num_maxima, k));
}

// A score that most likely at least k scores are not below, as an evenly spaced sample of the
// scores says; -inf if that is too small.
float LikelyBound(const float* scores, size_t num_scores, size_t k, uint32_t* work) {
  constexpr size_t kSampled = 1024;
  const size_t stride = num_scores / kSampled;
  if (stride < 2) return -kInfinity;
  const size_t num_sampled = num_scores / stride;
  const float expected = static_cast<float>(k) / static_cast<float>(stride);
  const auto rank = static_cast<size_t>(expected + 3.0f * __builtin_sqrtf(expected) + 4.0f);
  if (rank >= num_sampled) return -kInfinity;
  for (size_t i = 0; i < num_sampled; ++i) work[i] = OrderKey(scores[i * stride]);
  return ScoreOfKey(KthLargest(work, num_sampled, rank));
}

// Indices of all scores not below some bound, at least k of them.
size_t SelectCandidates(const float* scores, size_t num_scores, size_t k, uint32_t* candidates,
                        uint32_t* work) {
  float bound = LowerBound(scores, num_scores, k, work);
  if (bound == -kInfinity) bound = LikelyBound(scores, num_scores, k, work);
  const size_t count = SelectRange(scores, num_scores, bound, candidates);
  return count >= k ? count : SelectRange(scores, num_scores, -kInfinity, candidates);
}

float TopThreshold(const float* scores, size_t num_scores, size_t k, void* scratch) {
  if (k > num_scores) return -kInfinity;
  auto* const keys = static_cast<uint32_t*>(scratch);
  if (num_scores > kFewKeys) {  // Keeps the candidates that may be among the k largest.
    auto* const taken = static_cast<float*>(scratch) + num_scores + kSelectSlack;
    const float bound = LowerBound(scores, num_scores, k, keys);
    num_scores = TakeNotBelow(scores, num_scores, bound, taken);
    scores = taken;
  }
  for (size_t i = 0; i < num_scores; ++i) keys[i] = OrderKey(scores[i]);
  const uint32_t key = num_scores <= kFewKeys ? SplitKeys(keys, num_scores, k, k + k / 8 + 1)
                                              : KthLargest(keys, num_scores, k);
  return ScoreOfKey(key > kInfinityKey ? kInfinityKey : key);
}

size_t SelectTopK(const float* scores, size_t num_scores, size_t k, uint32_t* indices,
                  void* scratch) {
  if (k >= num_scores) {
    for (size_t i = 0; i < num_scores; ++i) indices[i] = static_cast<uint32_t>(i);
    return num_scores;
  }
  if (k == 0) return 0;
  uint32_t* const candidates = static_cast<uint32_t*>(scratch);  // [num_scores + slack]
  uint32_t* const work = candidates + num_scores + kSelectSlack;
  size_t num_candidates = SelectCandidates(scores, num_scores, k, candidates, work);
  for (size_t i = 0; i < num_candidates; ++i) work[i] = OrderKey(scores[candidates[i]]);
  const uint32_t kth = KthLargest(work, num_candidates, k);
  // So few scores are scanned again; more candidates are taken one by one.
  constexpr size_t kFewScores = 8192;
  if (num_scores <= kFewScores && kth <= kInfinityKey) {
    num_candidates = SelectRange(scores, num_scores, ScoreOfKey(kth), candidates);
    if (num_candidates == k) {
      __builtin_memcpy(indices, candidates, k * sizeof(uint32_t));
      return k;
    }
  }
  size_t num_larger = 0;
  for (size_t i = 0; i < num_candidates; ++i) {
    num_larger += static_cast<size_t>(OrderKey(scores[candidates[i]]) > kth);
  }
  size_t num_equal_left = k - num_larger;
  size_t count = 0;
  for (size_t i = 0; count < k; ++i) {
    const uint32_t key = OrderKey(scores[candidates[i]]);
    const bool equal = key == kth && num_equal_left > 0;
    indices[count] = candidates[i];
    num_equal_left -= static_cast<size_t>(equal);
    count += static_cast<size_t>(equal || key > kth);
  }
  return count;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_SELECT_INL_H_
