// The tokens of one kv head of a segment, ordered by how much the last queries of its prompt
// weighed them: `static=prefill:n` attends to the first n of them.
//
// Weight:  a key's softmax weight, summed over the last kPrefillQueries q rows that the segment
//          sampled, of all q heads of the group. Each row weighs the keys of the segment up to its
//          own token, as in the prompt, with the layer's denominator logit if it has one.
// Form:    the byte form is the form in memory: docs/formats/prefill_ranking.md is the grammar.
// Errors:  kResourceExhausted: no memory; Parse: kCorruption, or kUnsupported for another version,
//          naming object, field, expected and found.
// Threads: constant after construction.
// Source:  the static set W of RetrievalAttention (arXiv:2409.10516) Alg. 1, predicted from the
//          prefill phase (3.3) as in SnapKV (arXiv:2404.14469), by a window of observing queries.
//          Ours differs from SnapKV's: weights are summed over the group's q heads, because its
//          tokens are read for all of them, and are not pooled over neighbours.
#ifndef ATTNDB_INDEX_PREFILL_PREFILL_RANKING_H_
#define ATTNDB_INDEX_PREFILL_PREFILL_RANKING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "index/token_ranking.h"
#include "kernels/attention_state.h"
#include "kernels/layout.h"
#include "storage/kv/query_rows.h"

namespace attndb::index {

inline constexpr std::string_view kRankingMagic = "attnrank";
inline constexpr uint32_t kRankingVersion = 1;
inline constexpr size_t kRankingHeaderBytes = 64;
inline constexpr uint64_t kPrefillQueries = 64;     // Number of last q rows that weigh.
inline constexpr uint64_t kMaxRankedTokens = 8192;  // Lighter tokens are not ranked.

// The source of a ranking. The caller keeps its memory alive.
struct RankingSource {
  kernels::RowsView keys;  // Finite.
  uint64_t num_keys = 0;
  storage::QueryRows queries;  // Rows of the keys' type and length.
  kernels::LogitSpec logit;
  std::span<const float> denominator_logits;  // [q head of the group]; empty: there are none.
};

class PrefillRanking {
 public:
  // REQUIRES: source.num_keys > 0; source.queries are not empty.
  static Result<PrefillRanking> Build(const RankingSource& source);

  // Takes a ranking that was written before; `bytes` lie at a multiple of 64, are used in place and
  // must outlive the result. They may hold anything. `object` names them in errors.
  static Result<PrefillRanking> Parse(std::span<const std::byte> bytes, uint64_t num_keys,
                                      std::string_view object);

  static uint64_t NumRanked(uint64_t num_keys) { return std::min(num_keys, kMaxRankedTokens); }
  static uint64_t BytesFor(uint64_t num_keys) {
    return kRankingHeaderBytes + NumRanked(num_keys) * sizeof(uint32_t);
  }

  // The bytes that Parse reads, as long as this lives.
  std::span<const std::byte> bytes() const { return bytes_; }
  // The heaviest row comes first; of equal weights the earlier row.
  const TokenRanking& ranking() const { return ranking_; }
  std::span<const uint32_t> rows() const { return ranking_.rows; }

 private:
  // REQUIRES: bytes has a header, and whole rows behind it.
  explicit PrefillRanking(std::span<const std::byte> bytes);

  std::span<const std::byte> bytes_;
  TokenRanking ranking_;  // Points into bytes_.
  AlignedBuffer buffer_;  // Holds the bytes, if they were built here.
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PREFILL_PREFILL_RANKING_H_
