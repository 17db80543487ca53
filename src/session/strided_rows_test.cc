// Goal:   ScatterRows and GatherRows are each other's inverse for every stride, and touch nothing
//         else.
// Method: numbered elements through each kind of view, compared one by one.
#include "session/strided_rows.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <vector>

namespace attndb::internal {
namespace {

constexpr int64_t kRows = 7;
constexpr int64_t kHeads = 3;
constexpr int64_t kDim = 20;
constexpr float kUntouched = -77.0f;

struct StridedCase {
  const char* name;
  std::array<int64_t, 3> strides;
  int64_t origin = 0;
};

const StridedCase kCases[] = {
    {"contiguous", {kHeads * kDim, kDim, 1}},
    {"heads_first", {kDim, kRows* kDim, 1}},
    {"every_second", {2 * kHeads * kDim, 2 * kDim, 2}},
    {"rows_fastest", {1, kRows, kRows* kHeads}},
    {"backward_rows", {-kHeads * kDim, kDim, 1}, (kRows - 1) * kHeads* kDim},
    {"backward_elements", {kHeads * kDim, kDim, -1}, kDim - 1}};

class StridedRowsTest : public ::testing::TestWithParam<StridedCase> {
 protected:
  int64_t At(int64_t row, int64_t head, int64_t d) const {
    const auto& strides = GetParam().strides;
    return GetParam().origin + row * strides[0] + head * strides[1] + d * strides[2];
  }

  std::vector<float> data_ = std::vector<float>(2 * kRows * kHeads * kDim, kUntouched);
  std::vector<std::byte> scratch_;
  MutableTensorView view_ = {
      data_.data() + GetParam().origin, DType::kFloat32, {kRows, kHeads, kDim}, GetParam().strides};
};

TEST_P(StridedRowsTest, WhatIsScatteredIsGatheredAndNothingElseIsTouched) {
  constexpr uint64_t kFirst = 2;
  constexpr uint64_t kCount = 4;
  constexpr size_t kPadded = 32;
  std::vector<float> rows(kCount * kPadded);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  ScatterRows(DType::kFloat32, reinterpret_cast<const std::byte*>(rows.data()), kPadded, view_,
              {1, kFirst, kCount}, &scratch_);
  std::vector<float> gathered(kCount * kDim);
  GatherRows({view_.data, view_.dtype, view_.shape, view_.strides}, {1, kFirst, kCount},
             DType::kFloat32, reinterpret_cast<std::byte*>(gathered.data()), &scratch_);
  for (size_t i = 0; i < kCount; ++i) {
    for (size_t d = 0; d < kDim; ++d) {
      float& element = data_[static_cast<size_t>(
          At(static_cast<int64_t>(kFirst + i), 1, static_cast<int64_t>(d)))];
      EXPECT_EQ(element, rows[i * kPadded + d]) << i << " " << d;
      EXPECT_EQ(gathered[i * kDim + d], rows[i * kPadded + d]) << i << " " << d;
      element = kUntouched;
    }
  }
  for (const float element : data_) ASSERT_EQ(element, kUntouched);
}

TEST_P(StridedRowsTest, TypesAreConvertedAndOverflowIsReported) {
  std::vector<uint16_t> ones(kDim, 0x3c00);  // 1 as float16.
  ScatterRows(DType::kFloat16, reinterpret_cast<const std::byte*>(ones.data()), kDim, view_,
              {0, 6, 1}, &scratch_);
  EXPECT_EQ(data_[static_cast<size_t>(At(6, 0, 19))], 1.0f);
  data_[static_cast<size_t>(At(6, 0, 3))] = 1e30f;
  const TensorView view = {view_.data, view_.dtype, view_.shape, view_.strides};
  const auto gather = [&](DType dtype) {
    std::vector<uint16_t> to(kDim);
    return GatherRows(view, {0, 6, 1}, dtype, reinterpret_cast<std::byte*>(to.data()), &scratch_);
  };
  EXPECT_TRUE(gather(DType::kFloat16).overflow);
  EXPECT_FALSE(gather(DType::kBFloat16).overflow);
  data_[static_cast<size_t>(At(6, 0, 3))] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(gather(DType::kFloat16).overflow);
}

INSTANTIATE_TEST_SUITE_P(Strides, StridedRowsTest, ::testing::ValuesIn(kCases),
                         [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace attndb::internal
