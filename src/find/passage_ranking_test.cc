// Goal:   a ranking picks the passages that stand out, whatever scale a row or a head has, and
//         never two passages that share a block.
// Method: maxima made by hand.
#include "find/passage_ranking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attndb::find {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Runs of so many tokens each; nobody reads their keys.
std::vector<KeyRun> RunsOf(const std::vector<uint64_t>& sizes) {
  std::vector<KeyRun> runs;
  for (const uint64_t size : sizes) runs.push_back({nullptr, size, 0});
  return runs;
}

// A row of ordinary scores, 1 and -1 in turn, with one that stands out.
std::vector<float> RowWith(size_t num_blocks, size_t block, float value) {
  std::vector<float> row(num_blocks);
  for (size_t i = 0; i < num_blocks; ++i) row[i] = i / 2 % 2 == 0 ? 1.0F : -1.0F;
  row[block] = value;
  return row;
}

TEST(PassageRankingTest, WhatStandsOutComesFirstAndOthersSayNothing) {
  const std::vector<KeyRun> runs = RunsOf({640, 650});
  const Blocks blocks(runs, 32);
  ASSERT_EQ(blocks.num_blocks(), 41u);
  PassageRanking ranking(runs, blocks);
  std::vector<float> row = RowWith(41, 25, 30.0F);
  ranking.AddHead(1, row.data());
  const std::vector<RankedPassage> best = ranking.Best(3);
  ASSERT_EQ(best.size(), 3u);
  EXPECT_EQ(best[0].run, 1u);
  EXPECT_EQ(best[0].tokens, (TokenRange{128, 192}));  // Blocks 24 and 25, and none with 25 again.
  EXPECT_GT(best[0].score, 1.0);
  EXPECT_EQ(best[1].score, 0.0);
  EXPECT_EQ(best[1].tokens, (TokenRange{0, 64}));  // Equal ones in order.
}

TEST(PassageRankingTest, TheLastPassageEndsWithItsRun) {
  const std::vector<KeyRun> runs = RunsOf({640, 650});
  const Blocks blocks(runs, 32);
  PassageRanking ranking(runs, blocks);
  std::vector<float> row = RowWith(41, 40, 30.0F);
  ranking.AddHead(1, row.data());
  EXPECT_EQ(ranking.Best(1).front().tokens, (TokenRange{608, 650}));
}

// The same rows a thousand times as large, and one more that tells nothing from another.
TEST(PassageRankingTest, ScalesOfRowsAndHeadsDoNotMatter) {
  const std::vector<KeyRun> runs = RunsOf({1280});
  const Blocks blocks(runs, 32);
  PassageRanking small(runs, blocks, /*keep_heads=*/true);
  PassageRanking large(runs, blocks, /*keep_heads=*/true);
  std::vector<float> row = RowWith(40, 17, 30.0F);
  std::vector<float> times_1000 = row;
  for (float& value : times_1000) value = value * 1000.0F + 5.0F;
  std::vector<float> flat(40, 7.0F);
  small.AddHead(1, row.data());
  small.AddHead(1, flat.data());
  flat.assign(40, 7.0F);
  large.AddHead(1, times_1000.data());
  large.AddHead(1, flat.data());
  EXPECT_NEAR(small.Best(1)[0].score, large.Best(1)[0].score, 1e-3);
  EXPECT_GT(large.HeadScore(0, 16), 0.0F);
  EXPECT_EQ(large.HeadScore(1, 16), 0.0F);
  EXPECT_NEAR(large.HeadScore(0, 16) / 2, large.Best(1)[0].score, 1e-3);
}

TEST(PassageRankingTest, OneOfFewStandsOutToo) {
  const std::vector<KeyRun> runs = RunsOf({30, 30, 30});
  const Blocks blocks(runs, 32);
  PassageRanking ranking(runs, blocks);
  std::vector<float> row = {1.0F, 1.5F, 6.0F};
  ranking.AddHead(1, row.data());
  const std::vector<RankedPassage> best = ranking.Best(3);
  EXPECT_EQ(best[0].run, 2u);
  EXPECT_GT(best[0].score, 0.5);
  EXPECT_EQ(best[1].score, 0.0);
}

TEST(PassageRankingTest, NanHasNoSay) {
  const std::vector<KeyRun> runs = RunsOf({640, 640});
  const Blocks blocks(runs, 32);
  PassageRanking ranking(runs, blocks);
  std::vector<float> row = RowWith(40, 30, 30.0F);
  for (size_t i = 0; i < 20; ++i) row[i] = kNan;
  ranking.AddHead(1, row.data());
  const std::vector<RankedPassage> best = ranking.Best(100);
  EXPECT_EQ(best.size(), 20u);
  EXPECT_EQ(best[0].run, 1u);
  for (const RankedPassage& passage : best) EXPECT_TRUE(std::isfinite(passage.score));
}

TEST(PassageRankingTest, ALostRunIsLeftOut) {
  const std::vector<KeyRun> runs = RunsOf({640, 640});
  const Blocks blocks(runs, 32);
  PassageRanking ranking(runs, blocks);
  std::vector<float> row = RowWith(40, 30, 30.0F);
  ranking.AddHead(1, row.data());
  ranking.Lose(1);
  for (const RankedPassage& passage : ranking.Best(100)) EXPECT_EQ(passage.run, 0u);
  ranking.Lose(0);
  EXPECT_TRUE(ranking.Best(100).empty());
}

TEST(PassageRankingTest, NoRunsGiveNoPassages) {
  const std::vector<KeyRun> runs;
  const Blocks blocks(runs, 32);
  PassageRanking ranking(runs, blocks);
  ranking.AddHead(0, nullptr);
  EXPECT_TRUE(ranking.Best(10).empty());
}

}  // namespace
}  // namespace attndb::find
