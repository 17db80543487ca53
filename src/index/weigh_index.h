// The interface of an index that weighs all keys of a run for a draw in two phases, from small
// codes that it has (attention/phased_draw.h). Product codes (pq/) implement it.
//
// Weights: bfloat16, as bits, near exp(logit - reference). They may be off by any factor, since a
//          draw corrects for it, but are never 0.
// Block:   kBlockKeys keys, counted from key 0.
// Errors:  none; sizes are preconditions. Keys and q are finite.
// Threads: constant once built; concurrent calls must not share memory that they write.
#ifndef ATTNDB_INDEX_WEIGH_INDEX_H_
#define ATTNDB_INDEX_WEIGH_INDEX_H_

#include <cstddef>
#include <cstdint>

#include "kernels/product_codes.h"

namespace attndb::index {

struct WeighCall {
  const float* q = nullptr;  // [num_q_rows] rows of the keys' elements, q_stride apart.
  size_t q_stride = 0;
  size_t num_q_rows = 0;
  float logit_scale = 0.0f;  // Factor from scores to logits.
  size_t first_key = 0;      // A multiple of kBlockKeys.
  size_t num_keys = 0;

  // Written, [num_q_rows]: logits of weight 1; equal for all calls of an index with this q.
  float* references = nullptr;
  // Written: weights, [q row], words_stride apart, with room for whole blocks.
  uint16_t* words = nullptr;
  size_t words_stride = 0;
  // Written: sums of weights by block, [q row], sums_stride apart.
  float* sums = nullptr;
  size_t sums_stride = 0;
};

class WeighIndex {
 public:
  static constexpr size_t kBlockKeys = kernels::kCodeKeys;

  virtual ~WeighIndex() = default;

  // Bytes of 64-byte aligned scratch for calls of num_q_rows q rows.
  virtual size_t WeighScratchBytes(size_t num_q_rows) const = 0;
  // Writes weights, their sums and references for the call's keys.
  virtual void Weigh(const WeighCall& call, void* scratch) const = 0;
  // Bytes that Weigh reads per key.
  virtual double WeighedBytes() const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_WEIGH_INDEX_H_
