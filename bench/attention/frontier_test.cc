// Goal:   the frontier has the plans that no other beats, and equal ones stand beside each other.
#include "bench/attention/frontier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace attndb::bench {
namespace {

using ::testing::ElementsAre;

TEST(FrontierTest, APointIsOnItUnlessAnotherErrsNoMoreAndCostsLess) {
  const std::vector<PlanPoint> points = {{0, 10}, {0.1, 5}, {0.1, 6}, {0.2, 5}, {0.3, 1}};
  EXPECT_THAT(OnFrontier(points), ElementsAre(true, true, false, false, true));
}

TEST(FrontierTest, EqualPointsAreBothOnIt) {
  const std::vector<PlanPoint> points = {{0.1, 5}, {0.1, 5}};
  EXPECT_THAT(OnFrontier(points), ElementsAre(true, true));
}

TEST(FrontierTest, TheSweepAsksForEachPlanOnce) {
  const std::vector<std::string> plans = SweepPlans();
  EXPECT_EQ(std::set<std::string>(plans.begin(), plans.end()).size(), plans.size());
}

}  // namespace
}  // namespace attndb::bench
