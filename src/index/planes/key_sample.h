// Internal to planes: a sample of a run's keys, blocks of kernels::kWeightBlock keys spread evenly
// over it, to fit transforms to and to try them on.
//
// Shapes:  rows [num_rows, num_channels] float32, block after block.
// Threads: constant once made.
#ifndef ATTNDB_INDEX_PLANES_KEY_SAMPLE_H_
#define ATTNDB_INDEX_PLANES_KEY_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "index/planes/plane_source.h"
#include "index/planes/rotary_bias.h"
#include "index/planes/transform.h"
#include "kernels/layout.h"

namespace attndb::index {

// Loads keys [first, first + count) of a source, in its order, as kernels::LoadRows does.
void LoadKeys(const PlaneSource& source, size_t first, size_t count, float* rows);

class KeySample {
 public:
  struct Block {
    size_t first_key = 0;
    size_t num_keys = 0;
  };

  // Mean and bias of 512 keys are off by a twentieth of a key's deviation.
  static constexpr size_t kMaxBlocks = 8;

  explicit KeySample(const PlaneSource& source);

  std::span<const Block> blocks() const { return blocks_; }
  size_t num_rows() const { return rows_.size() / num_channels_; }
  const std::vector<float>& rows() const { return rows_; }

  // The transform's vectors for these keys. query_rms [num_channels], or empty: then nothing is
  // scaled.
  TransformVectors Fit(const TransformKind& kind, std::span<const float> query_rms) const;

 private:
  int64_t PositionOf(const Block& block) const {
    return source_.first_position + static_cast<int64_t>(block.first_key);
  }
  std::vector<float> FindBias(const RotaryTurns& turns) const;
  std::vector<float> MeanOf(const float* rows, size_t num_rows) const;
  // Factors that minimise the error of scores, for keys that went through the rest of the
  // transform.
  std::vector<float> ScaleOf(std::span<const float> query_rms,
                             const std::vector<float>& rows) const;

  const PlaneSource source_;
  const size_t num_channels_;
  std::vector<Block> blocks_;
  std::vector<float> rows_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_KEY_SAMPLE_H_
