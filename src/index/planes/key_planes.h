// Key planes: the keys of one kv head of a run of tokens, quantized, to be scanned instead of K.
//
// Form:    keys go through a transform (transform.h) and are quantized to 8 bits per channel, in
//          two planes of nibbles (kernels/planes.h) with one scale per key. The high nibbles alone
//          give 4 bits. A scan adds the subtracted part back, so that scores estimate q.k and are
//          comparable with exact ones. Byte form: plane_format.h.
// Choice:  if there are sampled queries, each transform is tried on some of the keys. The transform
//          with the least product of error at 4 bits and cost of a scan is used
//          (transform_choice.h).
// Errors:  kResourceExhausted: no memory; Parse: those of plane_format.h. Keys must be finite
//          (heads with NaN or Inf run `full`).
// Threads: constant after construction; concurrent calls must not share outputs.
// Source:  planes that are read at several precisions, and the bound of their error: ours.
#ifndef ATTNDB_INDEX_PLANES_KEY_PLANES_H_
#define ATTNDB_INDEX_PLANES_KEY_PLANES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/key_estimates.h"
#include "index/planes/plane_format.h"
#include "index/planes/plane_source.h"
#include "index/planes/rotary_bias.h"
#include "index/planes/transform.h"
#include "kernels/layout.h"
#include "kernels/weights.h"

namespace attndb::index {

struct TransformChoice;

class KeyPlanes final : public KeyEstimates {
 public:
  KeyPlanes() = default;  // Has no keys.

  // The most bytes that Build allocates for num_keys keys.
  static uint64_t BytesFor(uint64_t num_keys, size_t num_channels);

  // The result has no keys if a key's square overflows float32.
  static Result<KeyPlanes> Build(const PlaneSource& source);
  static Result<KeyPlanes> Build(const kernels::RowsView& keys, size_t num_keys) {
    return Build({.keys = keys, .num_keys = num_keys});
  }

  // Builds with this transform, without a choice.
  static Result<KeyPlanes> BuildWith(TransformId transform, const PlaneSource& source);

  // Takes planes that were written before; `parts` lie at multiples of kPieceAlignment, are used in
  // place and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<KeyPlanes> Parse(const PlaneParts& parts, const PlaneShape& expected,
                                 std::string_view object);

  // The bytes that Parse reads, as long as this lives. REQUIRES: num_keys() > 0.
  const PlaneParts& parts() const { return parts_; }

  uint64_t memory_bytes() const { return buffer_.size(); }
  TransformId transform() const { return header_.transform; }

  size_t num_keys() const override { return header_.num_keys; }
  std::span<const uint32_t> outlier_blocks() const override { return outliers_; }
  uint64_t ScanBytes(uint32_t bits) const override;
  float ScoreError(uint32_t bits, float q_norm) const override;
  EstimateQuery Prepare(const float* q, float* spare, std::byte* codes) const override;
  void Scan(uint32_t bits, size_t first_key, size_t num_keys, const EstimateQuery* queries,
            size_t num_q_rows, float* scores, size_t scores_stride) const override;
  void Fetch(uint32_t bits, size_t first_key, size_t num_keys) const override;
  KeepCost Keep(const KeepCall& call, kernels::KeptTokens* kept) const override;
  void ScoreBounds(uint32_t bits, const EstimateQuery& query, size_t first_block, size_t num_blocks,
                   float* bounds) const override;

  // For callers that scan only some blocks; REQUIRES: blocks have means of their own.
  //
  // bfloat16 [blocks, num_channels]: the mean of each block of kernels::kWeightBlock keys.
  kernels::RowsView block_means() const;
  // Signs of the rotation of kernels/hadamard.h, equal in all planes with as many channels.
  std::span<const float> rotation() const { return signs_; }
  // scores[r * scores_stride + 64 i + j]: the score that Scan gives at 4 bits for key j of
  // blocks[i]. means[r * means_stride + b] is q_r times the mean of block b. Scores after the last
  // key are meaningless. work [queries][blocks] is written.
  struct BlockScan {
    std::span<const EstimateQuery> queries;
    std::span<const uint32_t> blocks;
    const float* means = nullptr;
    size_t means_stride = 0;
    float* work = nullptr;
  };
  void ScanBlocks(const BlockScan& scan, float* scores, size_t scores_stride) const;

 private:
  friend class PlaneBuilder;

  static Result<KeyPlanes> BuildBy(const TransformChoice& choice, const PlaneSource& source);

  // Views parts that DecodePlaneParts accepted, or that a builder is about to fill.
  KeyPlanes(const PlaneHeader& header, const PlaneParts& parts);

  void FindOutliers();
  const TransformKind& kind() const { return TransformOf(header_.transform); }
  bool has_block_means() const { return !kind().removes_bias; }
  template <typename T>
  const T* Piece(size_t offset) const {
    return reinterpret_cast<const T*>(parts_.main.data() + offset);
  }
  // Writes the codes of a transformed q; returns the norm of their residual.
  double EncodeQuery(const float* q, int8_t* codes, kernels::PlaneQuery* query) const;
  // Blocks whose means are scored at a time.
  static constexpr size_t kMeanBlocks = 64;
  static_assert(kMeanBlocks * kernels::kWeightBlock == kernels::kMostSkipping);
  // Keys that Keep reads at a time, without the part of its work memory for block means.
  static constexpr size_t kKeepKeys = KeepCall::kWork - kMeanBlocks;
  static_assert(kKeepKeys % kernels::kWeightBlock == 0);

  // Some q rows, and the addition to their scores by the means of the blocks from first_block on:
  // [q row][kMeanBlocks], from ScoreBlockMeans.
  struct ScanRows {
    std::span<const EstimateQuery> queries;
    const float* of_means = nullptr;  // Null if blocks have no means.
    size_t first_block = 0;
  };
  kernels::PlanesView view() const;
  // Fills `queries` with the rows' codes and offsets, for scans that begin with key `begin`.
  static void Complete(const ScanRows& rows, size_t begin, kernels::PlaneQuery* queries);
  // Keep for keys [begin, end), in at most kMeanBlocks blocks.
  KeepCost KeepPiece(const KeepCall& call, size_t begin, size_t end, const ScanRows& rows,
                     kernels::KeptTokens* kept) const;
  // Scan for keys [begin, end) and at most kScanRows rows.
  void ScanKeys(uint32_t bits, size_t begin, size_t end, const ScanRows& rows, float* scores,
                size_t scores_stride) const;
  // Writes q times the means of the blocks of keys [begin, end), at most kMeanBlocks of them.
  void ScoreBlockMeans(size_t begin, size_t end, std::span<const EstimateQuery> queries,
                       float* of_means) const;

  PlaneHeader header_;
  PlaneLayout layout_{0, 0, TransformId::kLocal};
  PlaneParts parts_;
  AlignedBuffer buffer_;                    // Holds the parts, if they were built here.
  std::vector<float> signs_;                // Signs of the rotation.
  std::vector<uint32_t> outliers_;          // See outlier_blocks.
  std::shared_ptr<const RotaryBias> bias_;  // Null if the transform does not subtract it.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PLANES_KEY_PLANES_H_
