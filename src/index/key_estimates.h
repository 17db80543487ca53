// The interface of what stands for the keys of one kv head of a run of tokens: something smaller
// than K that estimates the score of every key. Key planes (planes/) implement it.
//
// Units:   scores are inner products q.k, unscaled, comparable with exact ones.
// Errors:  none; sizes are preconditions.
// Threads: constant once built; concurrent calls must not share memory that they write.
#ifndef ATTNDB_INDEX_KEY_ESTIMATES_H_
#define ATTNDB_INDEX_KEY_ESTIMATES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/planes.h"

namespace attndb::index {

class KeyEstimates {
 public:
  virtual ~KeyEstimates() = default;

  virtual size_t num_keys() const = 0;

  // Bytes that a scan at `bits` (4 or 8) reads per key.
  virtual uint64_t ScanBytes(uint32_t bits) const = 0;

  // Standard deviation of the error of a score at `bits`, for a q of this norm.
  virtual float ScoreError(uint32_t bits, float q_norm) const = 0;

  // Makes a query for Scan. q [padded head_dim] float32; `codes` and `spare`, of as many elements
  // and 64-byte aligned, are written; `codes` must live as long as the result.
  virtual kernels::PlaneQuery Prepare(const float* q, float* spare, int8_t* codes) const = 0;

  // scores[r * scores_stride + i]: estimate of q_r . k of key first_key + i.
  virtual void Scan(uint32_t bits, size_t first_key, size_t num_keys,
                    const kernels::PlaneQuery* queries, size_t num_q_rows, float* scores,
                    size_t scores_stride) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_KEY_ESTIMATES_H_
