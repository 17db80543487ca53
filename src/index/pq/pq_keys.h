// Product codes of the keys of one kv head of a run of tokens (kernels/product_codes.h): a codebook
// (pq_codebook.h), codes of num_subspaces * bits bits a key, and scans of these codes that score or
// weigh all keys for the q rows of a group.
//
// Form:    the byte form is the form in memory: pq_format.h. Scores estimate q.k and are comparable
//          with exact ones. The codes are not KeyEstimates, for three reasons. That interface
//          prepares each q row by itself, in a few bytes for codes of q; product codes need tables
//          of a whole group, of up to 64 KiB for four rows. It takes bits at each scan, but here
//          the codebook has them. And it has no weights, which draws by product codes need.
// Bias:    unlike planes, product codes do not subtract the bias that a model added to keys before
//          the rotary embedding. Centroids take up most of it: with a bias of the keys' own rms
//          added to keys of SmolLM2, scores of 8 subspaces of 8 bits erred a tenth more, with three
//          times that half as much again.
// Errors:  kResourceExhausted: no memory; Build: those of pq_codebook.h; Parse: those of
//          pq_format.h. Keys must be finite (heads with NaN or Inf run `full`).
// Threads: constant after construction; concurrent calls must not share outputs.
#ifndef ATTNDB_INDEX_PQ_PQ_KEYS_H_
#define ATTNDB_INDEX_PQ_PQ_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/pq/pq_codebook.h"
#include "index/pq/pq_format.h"
#include "kernels/product_codes.h"

namespace attndb::index {

// The q rows of a group, prepared for scans of one PqKeys.
struct PqQueries {
  kernels::LookupTables tables;
  // Rows of the tables; a caller may shift offsets and max_score.
  std::span<kernels::TableRow> rows;
  std::span<const float> norms;  // Norms of the q rows, rounded up.
};

class PqKeys {
 public:
  PqKeys() = default;  // Has no keys.

  static uint64_t BytesFor(uint64_t num_keys, size_t num_channels, const PqOptions& options);

  // The result has no keys where their squares overflow float32. The error is measured with the
  // sampled queries; without them, for queries that are equal in all directions.
  static Result<PqKeys> Build(const PqSource& source, const PqOptions& options);
  // The same with a codebook that was trained before, perhaps on other keys.
  static Result<PqKeys> BuildWith(const PqCodebook& codebook, const PqSource& source);

  // Takes codes that were written before; `bytes` lie at a multiple of kPieceAlignment, are used in
  // place and must outlive the result. They may hold anything. `object` names them in errors.
  static Result<PqKeys> Parse(std::span<const std::byte> bytes, const PqShape& expected,
                              std::string_view object);

  // The bytes that Parse reads, as long as this lives. REQUIRES: num_keys() > 0.
  std::span<const std::byte> bytes() const { return bytes_; }
  uint64_t memory_bytes() const { return buffer_.size(); }

  size_t num_keys() const { return header_.num_keys; }
  size_t num_subspaces() const { return header_.num_subspaces; }
  size_t bits() const { return header_.bits; }

  // Bytes that a scan reads per key.
  double ScanBytes() const;

  // Standard deviation of the error of a score for a q of that norm, without the error of the
  // tables (TableRow::rounding_deviation).
  float ScoreError(float q_norm) const { return header_.error * q_norm; }

  // The largest norm of a key's residual, for each block of 64 keys.
  const float* residuals() const { return Piece<float>(PqLayout(header_).bounds); }
  // Whether some key is further from its code than normal errors ever are: by more than
  // kMostDeviations deviations of a score's error, for a q parallel to the residual.
  static constexpr float kMostDeviations = 16;
  bool has_outliers() const { return has_outliers_; }

  // Prepares the q rows of a group: q [num_q_rows, num_channels] float32, rows q_stride elements
  // apart. memory, of QueryBytes, 64-byte aligned, is written and must live as long as the result.
  size_t QueryBytes(size_t num_q_rows) const;
  PqQueries Prepare(const float* q, size_t q_stride, size_t num_q_rows, std::byte* memory) const;

  // scores[r * scores_stride + i]: estimate of q_r . k of key first_key + i.
  void Scan(const PqQueries& queries, size_t first_key, size_t num_keys, float* scores,
            size_t scores_stride) const;

  // Writes the weights for draws, by kernels::WeighProductCodes. maps [q row]: from
  // kernels::MapWeights. REQUIRES: first_key is a multiple of kernels::kCodeKeys.
  void Weigh(const PqQueries& queries, std::span<const kernels::WeightRow> maps, size_t first_key,
             size_t num_keys, const kernels::CodeWeights& out) const;

  // bounds[b]: for no key of block first_block + b does the score that Scan gives row r without a
  // shift differ from q.k by more than this. It is no matter of probability: it holds for every q
  // and key, rounding included. Block i is keys [64 i, 64 i + 64).
  void ScoreBounds(const PqQueries& queries, size_t row, size_t first_block, size_t num_blocks,
                   float* bounds) const;

 private:
  friend class PqBuilder;

  PqKeys(const PqHeader& header, std::span<const std::byte> bytes);

  template <typename T>
  const T* Piece(size_t offset) const {
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  kernels::ProductCodesView view() const;

  PqHeader header_;
  std::span<const std::byte> bytes_;
  // At least the norm of any key as its codes say it.
  double code_norm_ = 0;
  bool has_outliers_ = false;
  AlignedBuffer buffer_;  // Holds the bytes, if they were built here.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_KEYS_H_
