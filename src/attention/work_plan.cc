#include "attention/work_plan.h"

#include <algorithm>

#include "attention/token_blocks.h"
#include "common/check.h"

namespace attndb::attention {
namespace {

// q rows (tokens x group) of a dense unit. Large enough that packing a tile of K is a few percent
// of the work on it, small enough that states and q stay in L2.
constexpr uint64_t kDenseUnitRows = 384;
// Fewer q rows, where there would be too few units for all parts: packing takes some 5 % of the
// work on 96 rows. Parts that share a unit need memory for the states of its blocks instead.
constexpr uint64_t kMinDenseUnitRows = 96;
// A range shorter than this costs more to merge than it saves.
constexpr uint64_t kMinRangeTokens = 256;
// Ranges of a dense unit are whole blocks of tokens.
constexpr uint64_t kMinDenseRangeTokens = kMinBlockTokens;
// Contexts with more tokens have so many blocks that memory matters more than even shares.
constexpr uint64_t kLongContext = 32768;
// Items per part: with more items, threads end at more equal times.
constexpr uint64_t kItemsPerPart = 4;

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

uint64_t RowsPerUnit(const WorkSizes& sizes) {
  if (sizes.cut.by_row) return 1;
  const uint64_t rows = std::max<uint64_t>(1, kDenseUnitRows / sizes.group_size);
  uint64_t num_blocks = DivideUp(sizes.num_rows, rows);
  if (sizes.num_parts > 1) {
    const uint64_t wanted = DivideUp(sizes.num_parts * kItemsPerPart, sizes.num_kv_heads);
    const uint64_t most = sizes.num_rows * sizes.group_size / kMinDenseUnitRows;
    const uint64_t more = std::min({wanted, most, sizes.num_rows});
    if (more > num_blocks) return sizes.num_rows / more;
  }
  return DivideUp(sizes.num_rows, num_blocks);  // Blocks of equal size.
}

uint32_t NumRanges(const WorkSizes& sizes, uint64_t num_units, uint64_t rows_per_unit) {
  if (sizes.num_parts == 1 || sizes.cut.uncut) return 1;
  const uint64_t wanted = sizes.num_parts * kItemsPerPart;
  if (num_units >= wanted) return 1;
  // Parts that share dense units of many rows need much memory, for the states of each block.
  const bool is_large = !sizes.cut.by_row && rows_per_unit * sizes.group_size >= kMinDenseUnitRows;
  const uint64_t enough = sizes.num_tokens > kLongContext ? sizes.num_parts : 2 * sizes.num_parts;
  if (is_large && num_units >= enough) return 1;
  uint64_t ranges = DivideUp(wanted, num_units);
  if (num_units % sizes.num_parts != 0) {
    ranges = DivideUp(ranges, sizes.num_parts) * sizes.num_parts;  // Equal shares for all parts.
  }
  const uint64_t seen =
      sizes.window == 0 ? sizes.num_tokens : std::min(sizes.num_tokens, sizes.window);
  const uint64_t least = sizes.cut.by_row ? kMinRangeTokens : kMinDenseRangeTokens;
  return static_cast<uint32_t>(std::max<uint64_t>(1, std::min(ranges, seen / least)));
}

}  // namespace

TokenRange WorkUnit::Range(uint32_t range) const {
  const uint64_t num_tokens = tokens.end - tokens.begin;
  const uint64_t share =
      DivideUp(DivideUp(num_tokens, num_ranges), kRangeMultiple) * kRangeMultiple;
  return {tokens.begin + std::min(range * share, num_tokens),
          tokens.begin + std::min((range + 1) * share, num_tokens)};
}

void WorkPlan::Reset(const WorkSizes& sizes) {
  ATTNDB_CHECK(sizes.num_rows >= 1 && sizes.num_rows <= sizes.num_tokens && sizes.num_parts >= 1);
  units.clear();
  items.clear();
  rows_per_unit_max = RowsPerUnit(sizes);
  const uint64_t num_blocks = DivideUp(sizes.num_rows, rows_per_unit_max);
  num_ranges_max = NumRanges(sizes, num_blocks * sizes.num_kv_heads, rows_per_unit_max);
  // Causal attention: later rows see more tokens, so they go first.
  for (uint64_t block = num_blocks; block-- > 0;) {
    const uint64_t first_row = block * rows_per_unit_max;
    const uint64_t end_row = std::min(first_row + rows_per_unit_max, sizes.num_rows);
    // Token of first_row.
    const uint64_t first_token = sizes.num_tokens - sizes.num_rows + first_row;
    const TokenRange tokens = {
        sizes.window == 0 || first_token < sizes.window ? 0 : first_token + 1 - sizes.window,
        sizes.num_tokens - (sizes.num_rows - end_row)};
    const auto first_unit = static_cast<uint32_t>(units.size());
    for (uint32_t head = 0; head < sizes.num_kv_heads; ++head) {
      items.push_back({first_unit + head, 0});
      units.push_back({head, first_row, end_row - first_row, tokens, num_ranges_max});
    }
    // If the last unit is read alone, all parts but one wait while one part finishes it.
    const uint32_t num_last = std::min(sizes.num_kv_heads, sizes.num_parts);
    const uint32_t first_last = first_unit + sizes.num_kv_heads - num_last;
    for (uint32_t unit = first_unit; unit < first_last; ++unit) {
      for (uint32_t range = 1; range < num_ranges_max; ++range) items.push_back({unit, range});
    }
    for (uint32_t range = 1; range < num_ranges_max; ++range) {
      for (uint32_t i = 0; i < num_last; ++i) items.push_back({first_last + i, range});
    }
  }
}

}  // namespace attndb::attention
