// A run of tokens of one kv head, as operators see it: the strip that its rows are read from, and
// its derived objects.
//
// Threads: values and pure functions.
#ifndef ATTNDB_ATTENTION_HEAD_RUN_H_
#define ATTNDB_ATTENTION_HEAD_RUN_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "attndb/types.h"
#include "index/cluster_sums.h"
#include "index/key_estimates.h"
#include "index/key_index.h"
#include "index/token_ranking.h"
#include "kernels/value_planes.h"
#include "storage/kv/row_source.h"

namespace attndb::attention {

struct HeadRun {
  TokenRange tokens;  // Tokens of the call.
  // The index that row 0 of the strip would have among the call's tokens, modulo 2^64: rows that
  // the call does not see may come before its first token.
  uint64_t origin = 0;
  uint32_t number = 0;  // Number of the run in the chain.
  uint32_t kv_head = 0;
  size_t k_elements = 0;  // Elements of a row of K, padding included.
  size_t v_elements = 0;
  DType dtype = DType::kFloat16;
  // Elements from each row of q to the same row as it is turned for this run (RunPart::turn).
  size_t q_shift = 0;
  const index::KeyEstimates* estimates = nullptr;    // Estimates of the middle's scores; or null.
  const kernels::ValuePlanesView* values = nullptr;  // Codes of light tokens' values; or null.
  // Means for values that are not read one by one; or null.
  const kernels::ValueMeansView* means = nullptr;
  const index::KeyIndex* index = nullptr;  // The index that finds or draws its keys; or null.
  // Clusters from which tokens that were left out are estimated; or null.
  const index::ClusterSums* sums = nullptr;
  // The ranking that tells its static tokens; or null.
  const index::TokenRanking* ranking = nullptr;

  // The row of a token in the strips and in derived objects.
  uint64_t RowOf(uint64_t token) const { return token - origin; }
  storage::Strip k_strip() const { return {number, kv_head, storage::RowPart::kKeys}; }
  storage::Strip v_strip() const { return {number, kv_head, storage::RowPart::kValues}; }
  uint64_t k_bytes() const { return k_elements * DTypeBytes(dtype); }  // Bytes of a row of K.
  uint64_t v_bytes() const { return v_elements * DTypeBytes(dtype); }
};

// Calls f(run, tokens) for pieces of the range that lie in one run and one tile of kTokens tokens,
// in order, until one call fails.
template <uint64_t kTokens, typename F>
Status ForEachTile(std::span<const HeadRun> runs, TokenRange range, const F& f) {
  for (const HeadRun& run : runs) {
    const uint64_t end = std::min(range.end, run.tokens.end);
    TokenRange tile = {std::max(range.begin, run.tokens.begin), 0};
    for (; tile.begin < end; tile.begin = tile.end) {
      tile.end = std::min(end, (tile.begin / kTokens + 1) * kTokens);
      ATTNDB_RETURN_IF_ERROR(f(run, tile));
    }
  }
  return Status::Ok();
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_HEAD_RUN_H_
