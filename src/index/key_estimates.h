// The interface of estimates of the keys of one kv head of a run of tokens: something smaller than
// K from which the score of every key is estimated. Key planes (planes/) implement it.
//
// Units:   scores are inner products q.k, unscaled, comparable with exact ones.
// Errors:  none; sizes are preconditions.
// Threads: constant once built; concurrent calls must not share memory that they write.
#ifndef ATTNDB_INDEX_KEY_ESTIMATES_H_
#define ATTNDB_INDEX_KEY_ESTIMATES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/draw.h"
#include "kernels/planes.h"

namespace attndb::index {

// A q row, prepared for scans of one KeyEstimates.
struct EstimateQuery {
  kernels::PlaneQuery plane;  // Its own offset is not used.
  float offset = 0.0f;        // Added to every score: a caller may shift it.
  // For ScoreBounds: upper bounds of the norm of q's codes, of the norm of their residual, and of
  // the rounding that is added to any score.
  float norm = 0.0f;
  float residual = 0.0f;
  float rounding = 0.0f;
  const float* q = nullptr;  // The q given to Prepare.
  // For Scan: terms of q and of the part that the keys of all positions have in common.
  const float* position_terms = nullptr;
};

// Bytes of the codes of a query of num_channels channels.
constexpr size_t QueryCodeBytes(size_t num_channels) {
  constexpr size_t kAlignment = 64;
  return (num_channels + kAlignment - 1) / kAlignment * kAlignment;
}

// A scan that keeps the tokens that a draw may take (kernels/draw.h).
struct KeepCall {
  static constexpr size_t kWork = 1024;

  uint32_t bits = 4;
  size_t first_key = 0;
  size_t num_keys = 0;
  std::span<const EstimateQuery> queries;
  kernels::DrawRule rule;
  const float* noise = nullptr;  // Noise of first_key and the keys after it.
  uint32_t first_token = 0;      // Token of first_key.
  float* work = nullptr;         // [queries][kWork], written.
  // Null; or for each block of 64 keys, of all keys, how far its best keys score above its mean,
  // for a q of norm 1. A block where no key that high would be kept is left out.
  const float* reaches = nullptr;
  const float* row_reaches = nullptr;  // [queries]: how many reaches count, times the norm of q.
  // One block in kAuditEvery is always scored, to see what leaving out misses: a block whose number
  // plus audit_phase is a multiple.
  uint32_t audit_phase = 0;
  static constexpr uint32_t kAuditEvery = 32;
};

struct KeepCost {
  uint64_t num_scored = 0;
  // Number of keys of audited blocks that were kept and would have been left out.
  uint64_t num_missed = 0;
};

class KeyEstimates {
 public:
  virtual ~KeyEstimates() = default;

  virtual size_t num_keys() const = 0;

  // Blocks of 64 keys, ascending, with much larger errors of estimates than others, because one of
  // their keys is far longer. All scores there must be exact.
  virtual std::span<const uint32_t> outlier_blocks() const { return {}; }

  // Bytes that a scan at `bits` (4 or 8) reads per key.
  virtual uint64_t ScanBytes(uint32_t bits) const = 0;

  // Standard deviation of the error of a score at `bits`, for a q of that norm.
  virtual float ScoreError(uint32_t bits, float q_norm) const = 0;

  // Prepares a query for scans at any bits. q [padded head_dim] float32; `spare`, of as many
  // elements, and `codes`, of QueryCodeBytes, both 64-byte aligned, are written. All three must
  // live as long as the result.
  virtual EstimateQuery Prepare(const float* q, float* spare, std::byte* codes) const = 0;

  // scores[r * scores_stride + i]: estimate of q_r . k of key first_key + i.
  // REQUIRES: the q of `queries` are consecutive rows of one matrix.
  virtual void Scan(uint32_t bits, size_t first_key, size_t num_keys, const EstimateQuery* queries,
                    size_t num_q_rows, float* scores, size_t scores_stride) const = 0;

  // Prefetches the memory that Scan reads for some keys, which are scanned next. REQUIRES: as Scan.
  virtual void Fetch(uint32_t bits, size_t first_key, size_t num_keys) const = 0;

  // Keeps the tokens that the rule draws by the scores that Scan gives; the scores are read while
  // they lie in the cache, and not stored. REQUIRES: as Scan; with reaches, first_key begins a
  // block, and blocks have means of their own.
  virtual KeepCost Keep(const KeepCall& call, kernels::KeptTokens* kept) const = 0;

  // bounds[b]: for no key of block first_block + b does the score that Scan gives without a shift
  // differ from q.k by more than this. It is no matter of probability: it holds for every q and
  // key, rounding included. Block i is keys [64 i, 64 i + 64) (kernels::kWeightBlock).
  virtual void ScoreBounds(uint32_t bits, const EstimateQuery& query, size_t first_block,
                           size_t num_blocks, float* bounds) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_KEY_ESTIMATES_H_
