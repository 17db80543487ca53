// Goal:   the area says how well two kinds of values can be told apart, and a shift of a twentieth
//         among times that scatter is seen, while none is seen where there is none.
// Method: small lists by hand; times with a long tail, as calls have them, of a fixed seed.
#include "bench/store/rank_area.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace attndb::bench {
namespace {

TEST(RankAreaTest, IsTheShareOfPairsInOrder) {
  EXPECT_EQ(RankArea({3, 4}, {1, 2}), 1.0);
  EXPECT_EQ(RankArea({1, 2}, {3, 4}), 0.0);
  EXPECT_EQ(RankArea({1, 4}, {2, 3}), 0.5);
  EXPECT_EQ(RankArea({2}, {2}), 0.5);
  EXPECT_EQ(RankArea({2, 3}, {1, 2}), 0.875);
}

TEST(RankAreaTest, AShiftOfATwentiethIsSeenAndNoneWhereThereIsNone) {
  constexpr size_t kTries = 10'000;
  std::mt19937 random(7);
  std::lognormal_distribution<double> microseconds(std::log(100.0), 0.2);
  std::vector<double> hits(kTries);
  std::vector<double> misses(kTries);
  for (size_t i = 0; i < kTries; ++i) {
    hits[i] = microseconds(random);
    misses[i] = microseconds(random);
  }
  EXPECT_NEAR(RankArea(hits, misses), 0.5, 0.02);
  for (double& hit : hits) hit *= 1.05;
  EXPECT_GT(RankArea(hits, misses), 0.54);
}

}  // namespace
}  // namespace attndb::bench
