// Goal:   conversions round to nearest even, keep denormals and report losses, on every ISA.
// Method: all 65,536 patterns widened against ldexp; narrowing against a search in the sorted table
//         of all finite values; ISAs bit for bit against the scalar definition.
// Replay: seeds are constants.
#include "kernels/convert.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::kernels {
namespace {

constexpr DType kNarrow[] = {DType::kFloat16, DType::kBFloat16};

double ValueOf(uint16_t bits, DType dtype) { return reference::At({&bits, 1, 1, dtype}, 0, 0); }

// Nearest value of `dtype`, ties to the even pattern, by definition and not by bit tricks.
uint16_t NearestByDefinition(float x, DType dtype) {
  const uint16_t inf = dtype == DType::kFloat16 ? 0x7c00 : 0x7f80;
  const double magnitude = std::abs(static_cast<double>(x));
  uint16_t low = 0, high = inf;  // Values grow with patterns.
  while (high - low > 1) {
    const uint16_t middle = static_cast<uint16_t>((low + high) / 2);
    (ValueOf(middle, dtype) <= magnitude ? low : high) = middle;
  }
  // Past the largest finite value the next step counts as if the range went on.
  const double step = ValueOf(low, dtype) - ValueOf(static_cast<uint16_t>(low - (low > 0)), dtype);
  const double below = ValueOf(low, dtype);
  const double above = high == inf ? below + step : ValueOf(high, dtype);
  uint16_t nearest = magnitude - below < above - magnitude ? low : high;
  if (magnitude - below == above - magnitude) nearest = low % 2 == 0 ? low : high;
  return static_cast<uint16_t>(nearest | (std::signbit(x) ? 0x8000 : 0));
}

std::vector<float> InterestingFloats(std::mt19937* random) {
  std::vector<float> values = {0.0f,           -0.0f,    1.0f,
                               65504.0f,       65519.9f, 65520.0f,
                               -65520.0f,      3.4e38f,  std::numeric_limits<float>::max(),
                               6.1e-5f,        5.96e-8f, 2.98e-8f,
                               2.9e-8f,        1e-45f,   -1e-40f,
                               1.17549435e-38f};
  for (const DType dtype : kNarrow) {
    for (uint32_t bits = 0; bits < 0x7c00; bits += 37) {  // Exact ties and their neighbours.
      const float a = ToFloat32(static_cast<uint16_t>(bits), dtype);
      const float b = ToFloat32(static_cast<uint16_t>(bits + 1), dtype);
      const float tie = static_cast<float>((static_cast<double>(a) + static_cast<double>(b)) / 2);
      values.insert(values.end(),
                    {tie, -tie, std::nextafter(tie, 0.0f), std::nextafter(tie, kInf)});
    }
  }
  for (int i = 0; i < 20000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>((*random)()));
    if (std::isfinite(x)) values.push_back(x);
  }
  return values;
}

TEST(ConvertScalarTest, WideningIsExactForEveryPattern) {
  for (const DType dtype : kNarrow) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const double expected = ValueOf(static_cast<uint16_t>(bits), dtype);
      const float value = ToFloat32(static_cast<uint16_t>(bits), dtype);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << bits;
      } else {
        ASSERT_EQ(static_cast<double>(value), expected) << bits;
        ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
      }
    }
  }
}

TEST(ConvertScalarTest, NarrowingRoundsToNearestEven) {
  std::mt19937 random(3);
  for (const float x : InterestingFloats(&random)) {
    for (const DType dtype : kNarrow) {
      ASSERT_EQ(FromFloat32(x, dtype), NearestByDefinition(x, dtype)) << x << DTypeName(dtype);
    }
  }
}

TEST(ConvertScalarTest, NaNStaysNaN) {
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0x7fffffffu, 0x7fa01234u}) {
    for (const DType dtype : kNarrow) {
      const uint16_t narrow = FromFloat32(std::bit_cast<float>(bits), dtype);
      EXPECT_TRUE(std::isnan(ToFloat32(narrow, dtype))) << bits;
      EXPECT_EQ(narrow >> 15, bits >> 31);
    }
  }
}

class ConvertTest : public IsaTest {};

TEST_P(ConvertTest, WideningHasTheBitsOfTheDefinition) {
  std::vector<uint16_t> from(65536);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(i);
  std::vector<float> to(from.size());
  for (const DType dtype : kNarrow) {
    ConvertRows(dtype, from.data(), 1000, DType::kFloat32, to.data(), 1000, 65, 1000, 1000);
    for (size_t i = 0; i < 65000; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(to[i]),
                std::bit_cast<uint32_t>(ToFloat32(static_cast<uint16_t>(i), dtype)))
          << i << DTypeName(dtype);
    }
  }
}

TEST_P(ConvertTest, NarrowingHasTheBitsOfTheDefinition) {
  std::vector<float> from = InterestingFloats(&random_);
  for (const uint32_t bits : {0x7f800000u, 0xff800000u, 0x7f800001u, 0x7fc00000u, 0xffa01234u}) {
    for (int i = 0; i < 20; ++i) from.push_back(std::bit_cast<float>(bits));
  }
  std::vector<uint16_t> to(from.size());
  for (const DType dtype : kNarrow) {
    ConvertRows(DType::kFloat32, from.data(), from.size(), dtype, to.data(), to.size(), 1,
                from.size(), from.size());
    for (size_t i = 0; i < from.size(); ++i) {
      ASSERT_EQ(to[i], FromFloat32(from[i], dtype)) << from[i] << DTypeName(dtype);
    }
  }
}

TEST_P(ConvertTest, EveryPairGoesThroughFloat32) {
  for (const DType from_dtype : kAllDTypes) {
    for (const DType to_dtype : kAllDTypes) {
      TestRows from(from_dtype, 3, 37, false, &random_);
      TestRows to(to_dtype, 3, 37, false, &random_);
      const RowsView& view = to.view();
      const ConvertReport report =
          ConvertRows(from_dtype, from.view().data, from.view().stride, to_dtype,
                      const_cast<void*>(view.data), view.stride, 3, 37, 48);
      EXPECT_FALSE(report.overflow || report.nonfinite);
      for (size_t r = 0; r < 3; ++r) {
        for (size_t i = 0; i < 48; ++i) {
          const float exact = static_cast<float>(reference::At(from.view(), r, i));
          const double expected = to_dtype == DType::kFloat32
                                      ? static_cast<double>(exact)
                                      : ValueOf(FromFloat32(exact, to_dtype), to_dtype);
          ASSERT_EQ(reference::At(view, r, i), i < 37 ? expected : 0.0);
        }
      }
    }
  }
}

TEST_P(ConvertTest, WritesOnlyItsRows) {
  const std::vector<float> from(200, 1.0f);
  for (size_t num_cols = 0; num_cols <= 40; ++num_cols) {
    std::vector<uint16_t> to(200, 0xabcd);
    ConvertRows(DType::kFloat32, from.data(), num_cols, DType::kFloat16, to.data() + 3, 60, 2,
                num_cols, num_cols + 5);
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t column = (i + 60 - 3) % 60;
      const bool inside = i >= 3 && i < 3 + 120 && column < num_cols + 5;
      const uint16_t expected = !inside ? 0xabcd : column < num_cols ? 0x3c00 : 0;
      ASSERT_EQ(to[i], expected) << i;
    }
  }
}

TEST_P(ConvertTest, ReportsOverflowAndNonfiniteInputsAnywhere) {
  for (const size_t at : Sizes{0, 15, 16, 39, 47, 48, 52}) {
    std::vector<float> from(53, 1.0f);
    std::vector<uint16_t> to(53);
    const auto run = [&](float x, DType dtype) {
      from[at] = x;
      return ConvertRows(DType::kFloat32, from.data(), 53, dtype, to.data(), 53, 1, 53, 53);
    };
    EXPECT_FALSE(run(65519.0f, DType::kFloat16).overflow);
    EXPECT_TRUE(run(65520.0f, DType::kFloat16).overflow);
    EXPECT_TRUE(run(-1e30f, DType::kFloat16).overflow);
    EXPECT_FALSE(run(-1e30f, DType::kBFloat16).overflow);
    EXPECT_TRUE(run(3.4028235e38f, DType::kBFloat16).overflow);
    EXPECT_FALSE(run(3.3895e38f, DType::kBFloat16).overflow);
    for (const float x : {kInf, -kInf, kNaN}) {
      const ConvertReport report = run(x, DType::kFloat16);
      EXPECT_TRUE(report.nonfinite);
      EXPECT_FALSE(report.overflow);
    }
    EXPECT_FALSE(run(1.0f, DType::kFloat16).nonfinite);
  }
}

TEST(RopeLayoutTest, ToHalfPairsEvenAndOdd) {
  const std::vector<float> from = {0, 1, 2, 3, 4, 5, 6, 7};
  std::vector<float> to(8);
  RopeToHalf(DType::kFloat32, from.data(), 8, to.data(), 8, 1, 6, 8);
  EXPECT_EQ(to, (std::vector<float>{0, 2, 4, 1, 3, 5, 6, 7}));
}

TEST(RopeLayoutTest, ToInterleavedIsTheInverse) {
  std::mt19937 random(9);
  std::vector<uint16_t> from(5 * 40), half(5 * 50), back(5 * 40);
  for (uint16_t& x : from) x = static_cast<uint16_t>(random());
  for (const size_t rope_dims : Sizes{0, 2, 16, 34, 40}) {
    RopeToHalf(DType::kFloat16, from.data(), 40, half.data(), 50, 5, rope_dims, 40);
    RopeToInterleaved(DType::kFloat16, half.data(), 50, back.data(), 40, 5, rope_dims, 40);
    EXPECT_EQ(back, from);
  }
}

ATTNDB_INSTANTIATE_ISAS(ConvertTest);

}  // namespace
}  // namespace attndb::kernels
