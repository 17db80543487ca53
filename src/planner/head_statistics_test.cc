// Goal:   ratios follow what is seen, one bad call does not overthrow them, and what comes from a
//         file can't break them.
#include "planner/head_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace attndb::planner {
namespace {

TEST(HeadStatisticsTest, ARatioFollowsWhatIsSeen) {
  MeanRatio ratio;
  EXPECT_EQ(ratio.value(), 1);
  ratio.Add(3);
  EXPECT_EQ(ratio.value(), 3);
  for (int i = 0; i < 50; ++i) ratio.Add(2);
  EXPECT_NEAR(ratio.value(), 2, 0.01);
}

TEST(HeadStatisticsTest, OneInterruptedCallCountsLittle) {
  MeanRatio ratio;
  for (int i = 0; i < 20; ++i) ratio.Add(1);
  ratio.Add(1e6);
  EXPECT_LT(ratio.value(), 1.5);
}

TEST(HeadStatisticsTest, ValuesFromAFileAreBroughtIntoRange) {
  EXPECT_EQ(MeanRatio(std::nan(""), 3).value(), 1);
  EXPECT_LE(MeanRatio(1e300, 3).value(), 64);
  EXPECT_GT(MeanRatio(-5, 3).value(), 0);
  EXPECT_LE(MeanRatio(2, 4000000000u).count(), 8u);
  MeanRatio ratio(2, 8);
  ratio.Add(INFINITY);
  EXPECT_EQ(ratio.value(), 2);
}

TEST(HeadStatisticsTest, RowsGrowAsTheRootOfTheDifficulty) {
  HeadStatistics head;
  head.ObserveDraw(400 * 0.01, 400, 0.01);  // As any head.
  EXPECT_DOUBLE_EQ(head.rows.value(), 1);
  HeadStatistics hard;
  hard.ObserveDraw(100 * 400 * 0.01, 400, 0.01);
  EXPECT_DOUBLE_EQ(hard.rows.value(), 10);
  hard.ObserveDraw(-1, 400, 0.01);  // Unknown.
  EXPECT_DOUBLE_EQ(hard.rows.value(), 10);
}

TEST(HeadStatisticsTest, SparseCallsTeachTimeAndEstimates) {
  HeadStatistics head;
  head.ObserveSparse({.selected = 100, .ns = 300, .error = 0.01}, {.ns = 200}, false);
  EXPECT_EQ(head.sparse_time.value(), 1.5);
  EXPECT_EQ(head.selected, 100);
  EXPECT_EQ(head.error, 0.01);
  EXPECT_EQ(head.mass_left, -1);
  head.ObserveFull({.ns = 50}, {.ns = 100});
  EXPECT_EQ(head.full_time.value(), 0.5);
}

}  // namespace
}  // namespace attndb::planner
