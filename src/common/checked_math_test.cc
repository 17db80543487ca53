// Goal:   sizes from outside never wrap around.
// Method: values at both ends of uint64_t.
#include "common/checked_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace attndb {
namespace {

constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();

TEST(CheckedMath, AddGivesTheSumOrNothing) {
  EXPECT_EQ(CheckedAdd(2, 3), 5u);
  EXPECT_EQ(CheckedAdd(kMax, 0), kMax);
  EXPECT_EQ(CheckedAdd(kMax, 1), std::nullopt);
  EXPECT_EQ(CheckedAdd(std::nullopt, 1), std::nullopt);
}

TEST(CheckedMath, MulGivesTheProductOrNothing) {
  EXPECT_EQ(CheckedMul(6, 7), 42u);
  EXPECT_EQ(CheckedMul(0, kMax), 0u);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(CheckedMul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kMax - 0xffffffffu);
}

TEST(CheckedMath, RoundUpStopsAtTheLastMultiple) {
  EXPECT_EQ(CheckedRoundUp(0, 64), 0u);
  EXPECT_EQ(CheckedRoundUp(1, 64), 64u);
  EXPECT_EQ(CheckedRoundUp(64, 64), 64u);
  EXPECT_EQ(CheckedRoundUp(kMax - 63, 64), kMax - 63);
  EXPECT_EQ(CheckedRoundUp(kMax - 62, 64), std::nullopt);
}

TEST(CheckedMath, TermsNestAndStayEmptyOnceEmpty) {
  EXPECT_EQ(CheckedAdd(CheckedMul(3, 4), 5), 17u);
  EXPECT_EQ(CheckedMul(CheckedAdd(kMax, 1), 0), std::nullopt);
}

TEST(CheckedMathDeathTest, AlignmentMustBeAPowerOfTwo) {
  EXPECT_DEATH((void)CheckedRoundUp(1, 48), "has_single_bit");
}

}  // namespace
}  // namespace attndb
