// Tokens that are read in one go and folded in whole tiles, though they lie in several runs.
//
// Threads: pure functions.
#ifndef ATTNDB_ATTENTION_STRETCH_H_
#define ATTNDB_ATTENTION_STRETCH_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "attention/head_run.h"
#include "attention/token_blocks.h"

namespace attndb::attention {

static_assert(storage::RowLease::kPieceRows % kTileTokens == 0);

// The runs from the one that holds `token` on. REQUIRES: one of them holds it.
inline std::span<const HeadRun> RunsFrom(std::span<const HeadRun> runs, uint64_t token) {
  while (runs.front().tokens.end <= token) runs = runs.subspan(1);
  return runs;
}

// The first tokens of the range: as many as lie in one run and end with a tile, or the tokens of
// one tile, in however many runs that meet the same q. Rows of a range that begins with a tile come
// in pieces of whole tiles (storage/kv/row_source.h); a range that begins within one is cut at its
// end, so that the next does.
// REQUIRES: the range is not empty; runs[0] holds its begin.
inline TokenRange NextStretch(std::span<const HeadRun> runs, TokenRange range) {
  const uint64_t tile_end = std::min(TileEnd(range.begin), range.end);
  const uint64_t run_end = std::min(runs[0].tokens.end, range.end);
  if (range.begin % kTileTokens == 0 && run_end >= tile_end) {
    return {range.begin, run_end == range.end ? run_end : run_end / kTileTokens * kTileTokens};
  }
  uint64_t end = range.begin;
  for (const HeadRun& run : runs) {
    if (run.tokens.begin == run.tokens.end) continue;
    if (end == tile_end || run.q_shift != runs[0].q_shift) break;
    end = std::min(run.tokens.end, tile_end);
  }
  return {range.begin, end};
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_STRETCH_H_
