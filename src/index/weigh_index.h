// The interface of an index that weighs all keys of a run for a draw in two phases, from small
// codes of its own (attention/phased_draw.h). Product codes (pq/) implement it.
//
// Weights: the bits of bfloat16, near exp(logit - reference): they may be off by any factor, since
//          a draw corrects for it, but are never 0.
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
  float logit_scale = 0.0f;  // Of a score.
  size_t first_key = 0;      // A multiple of kBlockKeys.
  size_t num_keys = 0;

  // Written: logits of weight 1, [num_q_rows], of all calls of an index with this q alike;
  float* references = nullptr;
  // ... weights, [q row], words_stride apart, with room for whole blocks;
  uint16_t* words = nullptr;
  size_t words_stride = 0;
  // ... and their sums by block, [q row], sums_stride apart.
  float* sums = nullptr;
  size_t sums_stride = 0;
};

class WeighIndex {
 public:
  static constexpr size_t kBlockKeys = kernels::kCodeKeys;

  virtual ~WeighIndex() = default;

  // Of 64-byte aligned scratch for calls of so many q rows.
  virtual size_t WeighScratchBytes(size_t num_q_rows) const = 0;
  virtual void Weigh(const WeighCall& call, void* scratch) const = 0;
  // Bytes that are read per key.
  virtual double WeighedBytes() const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_WEIGH_INDEX_H_
