// Goal:   what arrays of a caller are taken and refused, to the last row and the last byte.
// Method: views of memory that nobody reads.
#include "session/view_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

const float kSomewhere = 0;

TensorView Input(std::array<int64_t, 3> shape, std::array<int64_t, 3> strides) {
  return {&kSomewhere, DType::kFloat32, shape, strides};
}

Status CheckOut(std::array<int64_t, 3> shape, std::array<int64_t, 3> strides) {
  float somewhere = 0;
  return CheckOutput("out", 0, {&somewhere, DType::kFloat32, shape, strides},
                     {"q", shape[0], static_cast<uint32_t>(shape[1]),
                      static_cast<uint32_t>(shape[2]), DType::kFloat32});
}

TEST(ViewCheckTest, RowsAreAtMostTwoToThe31) {
  constexpr int64_t kMost = int64_t{1} << 31;
  ATTNDB_EXPECT_OK(CheckInput("k", 0, Input({kMost, 1, 1}, {1, 1, 1}), 1, 1));
  EXPECT_THAT(CheckInput("k", 0, Input({kMost + 1, 1, 1}, {1, 1, 1}), 1, 1),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("k has shape [2147483649, 1, 1]")));
}

TEST(ViewCheckTest, TheLastByteIsWithin64Bits) {
  constexpr int64_t kTooFar = (int64_t{1} << 61) - 1;  // An element of 4 bytes ends at 2^63 there.
  ATTNDB_EXPECT_OK(CheckInput("k", 0, Input({2, 1, 1}, {kTooFar - 1, 1, 1}), 1, 1));
  ATTNDB_EXPECT_OK(CheckInput("k", 0, Input({2, 1, 1}, {1 - kTooFar, 1, 1}), 1, 1));
  for (const int64_t stride : {kTooFar, -kTooFar}) {
    EXPECT_THAT(CheckInput("k", 0, Input({2, 1, 1}, {stride, 1, 1}), 1, 1),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("reach beyond 64 bits")));
  }
}

TEST(ViewCheckTest, TheStrideOfAnOnlyRowIsNeverTaken) {
  constexpr int64_t kAny = std::numeric_limits<int64_t>::max();
  ATTNDB_EXPECT_OK(CheckInput("k", 0, Input({1, 2, 3}, {kAny, 3, 1}), 2, 3));
  ATTNDB_EXPECT_OK(CheckOut({1, 2, 3}, {kAny, 3, 1}));
  ATTNDB_EXPECT_OK(CheckOut({1, 2, 3}, {0, 3, 1}));
}

TEST(ViewCheckTest, ElementsOfAnOutputDoNotOverlap) {
  ATTNDB_EXPECT_OK(CheckOut({4, 2, 3}, {6, 3, 1}));
  ATTNDB_EXPECT_OK(CheckOut({4, 2, 3}, {-6, 3, -1}));
  ATTNDB_EXPECT_OK(CheckOut({4, 2, 3}, {1, 4, 8}));
  const auto is_refused = FailsWith(StatusCode::kInvalidArgument, HasSubstr("elements overlap"));
  EXPECT_THAT(CheckOut({4, 2, 3}, {6, 2, 1}), is_refused);
  EXPECT_THAT(CheckOut({4, 2, 3}, {5, 3, 1}), is_refused);
  EXPECT_THAT(CheckOut({4, 2, 3}, {-5, 3, 1}), is_refused);
  EXPECT_THAT(CheckOut({4, 2, 3}, {1, 3, 8}), is_refused);
  EXPECT_THAT(CheckOut({4, 2, 3}, {6, 3, 0}), is_refused);
}

TEST(ViewCheckTest, AnOutputIsFloat32OrOfTheTypeOfItsSource) {
  float somewhere = 0;
  const auto check = [&](DType out, DType source) {
    return CheckOutput("out", 3, {&somewhere, out, {1, 1, 1}, {1, 1, 1}}, {"q", 1, 1, 1, source});
  };
  ATTNDB_EXPECT_OK(check(DType::kFloat32, DType::kFloat16));
  ATTNDB_EXPECT_OK(check(DType::kFloat16, DType::kFloat16));
  EXPECT_THAT(check(DType::kBFloat16, DType::kFloat16),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("layer 3: out has dtype bfloat16, expected float32 or that of q, "
                                  "float16")));
}

}  // namespace
}  // namespace attndb::internal
