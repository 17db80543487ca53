// Goal:   every (kv head, q row, token that the row sees) is in exactly one item of work.
#include "attention/work_plan.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace attndb::attention {
namespace {

void ExpectCovers(const WorkSizes& sizes) {
  WorkPlan plan;
  plan.Reset(sizes);
  std::map<std::pair<uint32_t, uint64_t>, int> rows;
  for (const WorkUnit& unit : plan.units) {
    EXPECT_LE(unit.num_rows, plan.rows_per_unit_max);
    const uint64_t last_row = unit.first_row + unit.num_rows - 1;
    EXPECT_EQ(unit.tokens.end, sizes.num_tokens - sizes.num_rows + last_row + 1);
    const uint64_t first_token = sizes.num_tokens - sizes.num_rows + unit.first_row;
    const uint64_t window = sizes.window == 0 ? sizes.num_tokens : sizes.window;
    EXPECT_EQ(unit.tokens.begin, first_token + 1 - std::min(window, first_token + 1));
    for (uint64_t row = unit.first_row; row <= last_row; ++row) ++rows[{unit.kv_head, row}];
    uint64_t begin = unit.tokens.begin;
    for (uint32_t range = 0; range < unit.num_ranges; ++range) {
      EXPECT_EQ(unit.Range(range).begin, begin);
      begin = unit.Range(range).end;
    }
    EXPECT_EQ(begin, unit.tokens.end);
  }
  EXPECT_EQ(rows.size(), sizes.num_kv_heads * sizes.num_rows);
  for (const auto& [row, count] : rows) EXPECT_EQ(count, 1);
  std::set<std::pair<uint32_t, uint32_t>> items;
  for (const WorkItem& item : plan.items) {
    EXPECT_TRUE(items.emplace(item.unit, item.range).second);
    EXPECT_LT(item.unit, plan.units.size());
    EXPECT_LT(item.range, plan.num_ranges_max);
  }
  EXPECT_EQ(items.size(), plan.units.size() * plan.num_ranges_max);
}

TEST(WorkPlanTest, CoversEachRowAndTokenOnce) {
  for (const uint32_t heads : {1u, 3u, 8u}) {
    for (const uint32_t group : {1u, 3u, 16u}) {
      for (const uint64_t rows : {1u, 2u, 64u, 65u, 512u}) {
        for (const uint64_t tokens : {512u, 700u, 70000u}) {
          for (const uint32_t parts : {1u, 2u, 5u}) {
            for (const uint64_t window : {0u, 5u, 600u}) {
              ExpectCovers({heads, group, rows, tokens, window, {}, parts});
              ExpectCovers({heads, group, rows, tokens, window, {.by_row = true}, parts});
            }
          }
        }
      }
    }
  }
  ExpectCovers({3, 3, 1, 1, 0, {}, 2});
}

TEST(WorkPlanTest, OnePartReadsEachHeadInOnePiece) {
  WorkPlan plan;
  plan.Reset({.num_kv_heads = 3, .group_size = 3, .num_rows = 1, .num_tokens = 6000});
  EXPECT_EQ(plan.items.size(), 3u);
}

TEST(WorkPlanTest, TwoPartsGetEqualShares) {
  WorkPlan plan;
  plan.Reset({3, 3, 1, 6000, 0, {}, 2});
  EXPECT_EQ(plan.items.size() % 2, 0u);
}

// All but the last units are finished while others are still read; the last, one for each part, at
// the same time.
TEST(WorkPlanTest, TheLastUnitsEndSideBySide) {
  WorkPlan plan;
  plan.Reset({3, 3, 1, 60'000, 0, {.by_row = true}, 2});
  ASSERT_EQ(plan.num_ranges_max, 4u);
  std::vector<std::pair<uint32_t, uint32_t>> items;
  for (size_t i = 3; i < plan.items.size(); ++i) {
    items.emplace_back(plan.items[i].unit, plan.items[i].range);
  }
  const std::vector<std::pair<uint32_t, uint32_t>> expected = {
      {0, 1}, {0, 2}, {0, 3}, {1, 1}, {2, 1}, {1, 2}, {2, 2}, {1, 3}, {2, 3}};
  EXPECT_EQ(items, expected);
}

// Few rows are many units rather than few that all parts share: their blocks' states take memory.
TEST(WorkPlanTest, RowsAreCutBeforeTokensAre) {
  WorkPlan plan;
  plan.Reset({5, 3, 64, 6000, 0, {}, 2});
  EXPECT_EQ(plan.num_ranges_max, 1u);
  EXPECT_EQ(plan.units.size(), 10u);
  plan.Reset({8, 8, 300, 100'000, 0, {}, 64});
  EXPECT_EQ(plan.num_ranges_max, 1u);
  EXPECT_GE(plan.units.size(), 3 * 64u);
  plan.Reset({5, 3, 8, 6000, 0, {}, 2});  // 24 q rows: too few to cut.
  EXPECT_EQ(plan.units.size(), 5u);
  EXPECT_GT(plan.num_ranges_max, 1u);
}

}  // namespace
}  // namespace attndb::attention
