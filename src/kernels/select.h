// Selection of tokens by score: the k largest, or all above a threshold.
//
// Order:   scores compare as numbers, -0 equal to +0. NaN counts as larger than +inf: a broken key
//          is always selected and shows up as NaN, it never vanishes.
// Output:  indices ascending. Equal on every ISA.
// Errors:  none; num_scores < 2^31.
// Threads: stateless; concurrent calls must not share scratch.
#ifndef ATTNDB_KERNELS_SELECT_H_
#define ATTNDB_KERNELS_SELECT_H_

#include <cstddef>
#include <cstdint>

namespace attndb::kernels {

// Indices beyond the result that SelectTopK and SelectRange may overwrite (whole-register stores).
inline constexpr size_t kSelectSlack = 16;

// Largest score; NaN if any is NaN; -inf if there are none.
float MaxScore(const float* scores, size_t num_scores);

// Writes the indices of all scores >= threshold (or NaN) and returns how many.
// REQUIRES: `indices` holds num_scores + kSelectSlack.
size_t SelectRange(const float* scores, size_t num_scores, float threshold, uint32_t* indices);

// Writes all scores >= threshold (or NaN), in their order, and returns how many.
// REQUIRES: `taken` holds num_scores + kSelectSlack.
size_t TakeNotBelow(const float* scores, size_t num_scores, float threshold, float* taken);

// Sets bit i % 64 of bits[i / 64] for all scores[i] >= threshold (or NaN); others stay.
void MarkNotBelow(const float* scores, size_t num_scores, float threshold, uint64_t* bits);

// Bytes of scratch that SelectTopK and TopThreshold need.
size_t SelectTopKScratchBytes(size_t num_scores);

// Writes the indices of the min(k, num_scores) largest scores; of equal scores, the lowest indices.
// Returns their number.
// REQUIRES: `indices` holds min(k, num_scores) + kSelectSlack; scratch is 64-byte aligned.
size_t SelectTopK(const float* scores, size_t num_scores, size_t k, uint32_t* indices,
                  void* scratch);

// Returns a threshold that at least k scores are not below (k >= 1), and at most k / 8 + 1 more,
// not counting equal ones. Takes less time than finding these scores. -inf if there are fewer
// scores; +inf if k of them are NaN. scratch as for SelectTopK.
float TopThreshold(const float* scores, size_t num_scores, size_t k, void* scratch);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_SELECT_H_
