// Key planes: the keys of one kv head of a run of tokens, quantized, to be scanned instead of K.
//
// Form:    k = mean + R'(scale * code): centred, turned by a random rotation R, 8 bits a channel
//          in two planes of nibbles (kernels/planes.h), one scale a key. The high nibbles alone are
//          the 4-bit reading. q is turned once a scan; q . mean is added back, so scores are
//          estimates of q.k and comparable with exact ones.
// Why:     a rotation spreads a key's few large channels over all, so that one scale fits; a mean
//          that all keys share costs code range and tells nothing apart.
// Errors:  kResourceExhausted: no memory. Keys must be finite (heads with NaN or Inf run `full`).
// Threads: constant after Build; concurrent calls must not share memory that they write.
// Source:  rotation: QuaRot (arXiv:2404.00456); planes that are read at several precisions: ours.
#ifndef ATTNDB_INDEX_PLANES_KEY_PLANES_H_
#define ATTNDB_INDEX_PLANES_KEY_PLANES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/key_estimates.h"
#include "kernels/layout.h"

namespace attndb::index {

class KeyPlanes final : public KeyEstimates {
 public:
  KeyPlanes() = default;  // Of no keys.

  // Bytes of the planes and scales of so many keys: what Build allocates.
  static uint64_t BytesFor(uint64_t num_keys, size_t num_channels);

  // REQUIRES: rows of `keys` finite.
  static Result<KeyPlanes> Build(const kernels::RowsView& keys, size_t num_keys);

  uint64_t memory_bytes() const { return buffer_.size(); }

  size_t num_keys() const override { return num_keys_; }
  uint64_t ScanBytes(uint32_t bits) const override;
  float ScoreError(uint32_t bits, float q_norm) const override;
  kernels::PlaneQuery Prepare(const float* q, float* spare, int8_t* codes) const override;
  void Scan(uint32_t bits, size_t first_key, size_t num_keys, const kernels::PlaneQuery* queries,
            size_t num_q_rows, float* scores, size_t scores_stride) const override;

 private:
  kernels::PlanesView View() const;
  // `rows`, for a block of keys, is overwritten.
  void FindMean(const kernels::RowsView& keys, float* rows);
  void Load(const kernels::RowsView& keys, size_t first_key, size_t count, float* rows) const;
  void EncodeBlock(const kernels::RowsView& keys, size_t first_key, size_t count, float* rows);

  size_t num_keys_ = 0;
  size_t num_channels_ = 0;
  AlignedBuffer buffer_;  // High plane, low plane, scales.
  std::vector<float> mean_;
  std::vector<float> signs_;  // Of the rotation.
  // Variance of a channel's error, mean over keys: at 4 and at 8 bits.
  double variance4_ = 0;
  double variance8_ = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_KEY_PLANES_H_
