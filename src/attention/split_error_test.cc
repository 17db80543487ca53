// Goal:   the error is half of the distance of the outputs of both halves, and a denominator takes
//         part in it.
#include "attention/split_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attndb::attention {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// One head with an output of two channels.
struct State {
  kernels::StateRows view() { return {&max, &sum, out, 2}; }
  float max = 0;
  float sum = 0;
  float out[2] = {};
};

TEST(SplitErrorTest, HalvesThatAgreeAreRight) {
  State certain{0, 1, {1, 1}};
  State even{0, 0.5f, {0.5f, 0}};
  State odd{std::log(0.5f), 1, {1, 0}};  // The same by another maximum.
  const SplitError found = FindSplitError(certain.view(), even.view(), odd.view(), kNone, 2);
  EXPECT_NEAR(found.error, 0, 1e-7);
  EXPECT_NEAR(found.mass_left, 0.5, 1e-7);
}

TEST(SplitErrorTest, ErrorIsHalfOfTheirDistance) {
  State certain{0, 1, {1, 0}};
  State even{0, 0.5f, {0, 0.5f}};
  State odd{0, 0.5f, {0, -0.5f}};
  // (1, 1) / 2 and (1, -1) / 2, around (1, 0) / 2.
  EXPECT_NEAR(FindSplitError(certain.view(), even.view(), odd.view(), kNone, 2).error, 1, 1e-6);
}

TEST(SplitErrorTest, ADenominatorTurnsWeightsIntoErrors) {
  State certain{0, 1, {1, 0}};
  State even{0, 0.25f, {0.25f, 0}};
  State odd{0, 0.75f, {0.75f, 0}};
  EXPECT_NEAR(FindSplitError(certain.view(), even.view(), odd.view(), kNone, 2).error, 0, 1e-7);
  const SplitError found = FindSplitError(certain.view(), even.view(), odd.view(), 0.0f, 2);
  const double by_even = 1.5 / 2.5;
  const double by_odd = 2.5 / 3.5;
  EXPECT_NEAR(found.error, 0.5 * (by_odd - by_even) / (2.0 / 3.0), 1e-6);
  EXPECT_NEAR(found.mass_left, 1.0 / 3.0, 1e-6);
}

TEST(SplitErrorTest, ShareOfChanceIsTheMeanOfWhatIsNotDrawn) {
  std::vector<float> margins = {std::log(0.5f), std::log(0.25f), std::log(0.75f)};
  std::vector<float> scratch(4);
  kernels::DrawnTokens even;
  even.margins = margins.data();
  even.count = 2;
  kernels::DrawnTokens odd;
  odd.margins = margins.data() + 2;
  odd.count = 1;
  EXPECT_NEAR(ShareOfChance(even, odd, scratch.data()), 0.5, 1e-6);
}

}  // namespace
}  // namespace attndb::attention
