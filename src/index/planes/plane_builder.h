// Internal to planes: makes key planes from keys and a transform that was fitted to them, block by
// block.
//
// Threads: one thread.
#ifndef ATTNDB_INDEX_PLANES_PLANE_BUILDER_H_
#define ATTNDB_INDEX_PLANES_PLANE_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/planes/key_planes.h"

namespace attndb::index {

// Rounding of a transformed row, relative to its norm: the loss in float32 on the way. The longest
// way is two Hadamard transforms of 512 channels, 9 sums and a product each, after four steps for
// each channel; each of these 24 adds at most 2^-24 of the norm.
inline constexpr double kTransformRounding = 0x1p-19;
// Rounding of the part that is subtracted from a key and added back to its scores, relative to its
// norm and q's. Both are float32, and R(p) b comes from tables of polynomials with errors of 10^-5
// (rotary_bias.cc).
inline constexpr double kAddedRounding = 0x1p-15;
// Covers products of scales, and squares, too small for float32.
inline constexpr double kUnderflow = 0x1p-100;

// Standard deviation of a score's error for a q of norm 1.
struct PlaneErrors {
  float bits4 = 0.0f;
  float bits8 = 0.0f;
};

class PlaneBuilder {
 public:
  // Both must outlive the builder.
  PlaneBuilder(const PlaneSource& source, const TransformKind& kind,
               const TransformVectors& vectors);

  // Builds planes of the keys [first_key, first_key + num_keys) of the source. They have no keys if
  // a key's square overflows float32. Errors that were not measured are estimated from the codes'
  // residuals.
  Result<KeyPlanes> Build(size_t first_key, size_t num_keys,
                          const std::optional<PlaneErrors>& measured);

 private:
  // Maxima over the keys of a block of kernels::kWeightBlock.
  struct BlockMaxima {
    float residual_sq = 0.0f;
    float norm_sq = 0.0f;
    float scale = 0.0f;
  };

  template <typename T>
  T* Piece(size_t offset) {
    return reinterpret_cast<T*>(planes_.buffer_.data() + offset);
  }

  Status Start(size_t first_key, size_t num_keys);
  // `first` counts from first_key_.
  void EncodeBlock(size_t first, size_t count);
  // Fills mean_ for a block, if blocks have their own, and subtracts mean and bias.
  void TakeOut(size_t first, size_t count);
  void EncodeRows(size_t first, size_t count, const float* rows, const float* norm_sq);
  PlaneBound BoundOf(const BlockMaxima& maxima) const;
  PlaneErrors EstimateErrors() const;

  const PlaneSource& source_;
  const TransformKind& kind_;
  const TransformVectors& vectors_;
  const size_t num_channels_;
  const std::optional<RotaryTurns> turns_;
  const std::shared_ptr<const RotaryBias> bias_;
  std::vector<float> mean_;  // Mean of all keys, or of the block that is being encoded.
  std::vector<float> rows_;  // Rows of one block.
  double scale_max_ = 1.0;   // Largest of the channels' factors.
  double bias_norm_ = 0.0;

  size_t first_key_ = 0;
  KeyPlanes planes_;
  double mean_norm_max_ = 0;
  BlockMaxima maxima_;
  // Sums over keys of the squared scales, and of the squared norms of the residuals of 8 bits.
  double scale_sq_ = 0;
  double residual_sq_ = 0;
  double bound_sum_ = 0;  // Sum of all bounds: finite if they all are.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_PLANE_BUILDER_H_
