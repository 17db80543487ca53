// A run of tokens of one kv head, as operators see it: its rows, and what was derived from them.
//
// Threads: values and pure functions.
#ifndef ATTNDB_ATTENTION_HEAD_RUN_H_
#define ATTNDB_ATTENTION_HEAD_RUN_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "attndb/types.h"
#include "index/key_estimates.h"
#include "index/key_index.h"
#include "kernels/layout.h"
#include "kernels/value_planes.h"

namespace attndb::attention {

struct HeadRun {
  TokenRange tokens;  // Of the call.
  kernels::RowsView k;
  kernels::RowsView v;
  const index::KeyEstimates* estimates = nullptr;    // What the middle's scores come from; or null.
  const kernels::ValuePlanesView* values = nullptr;  // For values that weigh little; or null.
  const kernels::ValueMeansView* means = nullptr;    // For values that are not looked at; or null.
  const index::KeyIndex* index = nullptr;            // What finds or draws its keys; or null.
};

// Calls f(run, tokens) for pieces of the range that lie in one run and one tile of kTokens tokens,
// in order.
template <uint64_t kTokens, typename F>
void ForEachTile(std::span<const HeadRun> runs, TokenRange range, const F& f) {
  for (const HeadRun& run : runs) {
    const uint64_t end = std::min(range.end, run.tokens.end);
    TokenRange tile = {std::max(range.begin, run.tokens.begin), 0};
    for (; tile.begin < end; tile.begin = tile.end) {
      tile.end = std::min(end, (tile.begin / kTokens + 1) * kTokens);
      f(run, tile);
    }
  }
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_HEAD_RUN_H_
