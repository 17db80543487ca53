// Goal: every term is added once, whatever their number.
#include "common/lane_sum.h"

#include <gtest/gtest.h>

namespace attndb {
namespace {

TEST(LaneSumTest, AddsEveryTermOnce) {
  for (const size_t count : {0u, 1u, 7u, 8u, 9u, 64u, 100u}) {
    const auto sum = LaneSum<double>(count, [](size_t i) { return static_cast<double>(i + 1); });
    EXPECT_EQ(sum, static_cast<double>(count * (count + 1)) / 2) << count;
  }
}

TEST(LaneSumTest, TheNormOfSquaresThatAFloatCannotHold) {
  const float x[] = {3 * 0x1p100f, -4 * 0x1p100f};
  EXPECT_EQ(Norm(x), 5 * 0x1p100);
}

}  // namespace
}  // namespace attndb
