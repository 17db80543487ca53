// Goal:   one NaN or inf among any number of elements is found, and nothing else is.
// Method: every bit pattern of the 16-bit types; one bad element at every place.
#include "storage/kv/non_finite.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/coding.h"
#include "common/random.h"

namespace attndb::storage {
namespace {

TEST(NonFinite, EveryBitPatternOfTheHalfTypesIsClassedRight) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const std::vector<uint16_t> one = {static_cast<uint16_t>(bits)};
    EXPECT_EQ(HasNonFinite(DType::kFloat16, BytesOf(one)), (bits & 0x7c00) == 0x7c00) << bits;
    EXPECT_EQ(HasNonFinite(DType::kBFloat16, BytesOf(one)),
              !std::isfinite(std::bit_cast<float>(bits << 16)))
        << bits;
  }
}

TEST(NonFinite, Float32FollowsTheStandardLibrary) {
  Random random(1);
  for (int i = 0; i < 100000; ++i) {
    // The exponents next to all ones are the ones to get wrong.
    const auto bits = static_cast<uint32_t>(random.Next()) | (random.OneIn(2) ? 0x7f000000u : 0u);
    const std::vector<float> one = {std::bit_cast<float>(bits)};
    ASSERT_EQ(HasNonFinite(DType::kFloat32, BytesOf(one)), !std::isfinite(one[0])) << bits;
  }
}

TEST(NonFinite, OneBadElementIsFoundAtEveryPlace) {
  for (const size_t size : {1u, 15u, 1024u, 1025u, 3000u}) {
    std::vector<uint16_t> values(size, 0xfbff);  // The largest finite float16, negative.
    EXPECT_FALSE(HasNonFinite(DType::kFloat16, BytesOf(values)));
    for (size_t i = 0; i < size; ++i) {
      values[i] = i % 2 == 0 ? 0xfc00 : 0x7e00;
      ASSERT_TRUE(HasNonFinite(DType::kFloat16, BytesOf(values))) << i;
      values[i] = 0xfbff;
    }
  }
  EXPECT_FALSE(HasNonFinite(DType::kFloat32, {}));
}

}  // namespace
}  // namespace attndb::storage
