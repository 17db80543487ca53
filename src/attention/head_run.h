// A run of tokens of one kv head, as operators see it: where its rows are asked for, and what was
// derived from them.
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
  TokenRange tokens;  // Of the call.
  // What row 0 of the strip would be of the call's tokens, modulo 2^64: rows before those that the
  // call sees may come before its first token.
  uint64_t origin = 0;
  uint32_t number = 0;  // Of the chain's runs.
  uint32_t kv_head = 0;
  size_t k_elements = 0;  // Of a row, padding included.
  size_t v_elements = 0;
  DType dtype = DType::kFloat16;
  const index::KeyEstimates* estimates = nullptr;    // What the middle's scores come from; or null.
  const kernels::ValuePlanesView* values = nullptr;  // For values that weigh little; or null.
  const kernels::ValueMeansView* means = nullptr;    // For values that are not looked at; or null.
  const index::KeyIndex* index = nullptr;            // What finds or draws its keys; or null.
  const index::ClusterSums* sums = nullptr;          // What stands for tokens left out; or null.
  const index::TokenRanking* ranking = nullptr;      // What tells its static tokens; or null.

  // Row of a token in the strips and in what was derived from them.
  uint64_t RowOf(uint64_t token) const { return token - origin; }
  storage::Strip k_strip() const { return {number, kv_head, storage::RowPart::kKeys}; }
  storage::Strip v_strip() const { return {number, kv_head, storage::RowPart::kValues}; }
  uint64_t k_bytes() const { return k_elements * DTypeBytes(dtype); }  // Of a row.
  uint64_t v_bytes() const { return v_elements * DTypeBytes(dtype); }
};

// Calls f(run, tokens) for pieces of the range that lie in one run and one tile of kTokens tokens,
// in order, until one fails.
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
