// Goal:   a token is drawn as often as the table of chances says, and that is its weight over the
//         threshold where bits of bfloat16 say so exactly.
#include "attention/word_noise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace attndb::attention {
namespace {

std::vector<uint16_t> Stretch(uint64_t seed, uint64_t number) {
  const uint16_t* const first = WordNoise(seed).From(number * WordNoise::kStretch);
  return {first, first + WordNoise::kStretch};
}

TEST(WordNoiseTest, ChancesAreSharesOfAStretch) {
  const WordNoise::Chances& chances = WordNoise::ChancesOfMargins();
  std::vector<uint16_t> noise = Stretch(1, 0);
  std::ranges::sort(noise);
  for (int margin = 0; margin <= WordNoise::kCertain; ++margin) {
    const auto not_above =
        static_cast<double>(std::ranges::upper_bound(noise, margin) - noise.begin());
    const double share = not_above / WordNoise::kSize;
    ASSERT_GT(share, 0) << margin;
    ASSERT_NEAR(std::exp(double{chances.logs[static_cast<size_t>(margin)]}), share, 1e-6 * share);
    ASSERT_NEAR(chances.left_out[static_cast<size_t>(margin)], 1 - share, 1e-7);
  }
  EXPECT_EQ(chances.logs[WordNoise::kCertain], 0.0f);
  EXPECT_EQ(chances.left_out[WordNoise::kCertain], 0.0f);
}

TEST(WordNoiseTest, ChancesAreTheBitsOfABfloat16) {
  const WordNoise::Chances& chances = WordNoise::ChancesOfMargins();
  constexpr int kExact = WordNoise::kCertain - 7 * kernels::kWordsOfTwo;
  for (int margin = kExact; margin <= WordNoise::kCertain; ++margin) {
    const auto bits = static_cast<uint32_t>(127 * 128 - WordNoise::kCertain + margin);
    const double value = double{std::bit_cast<float>(bits << 16)};
    ASSERT_NEAR(std::exp(double{chances.logs[static_cast<size_t>(margin)]}), value, 1e-6 * value);
  }
}

TEST(WordNoiseTest, StretchesAreTheSameWordsFromOtherPlaces) {
  std::vector<uint16_t> sorted = Stretch(1, 0);
  std::ranges::sort(sorted);
  for (const uint64_t seed : {1u, 2u}) {
    for (const uint64_t number : {1u, 7u}) {
      std::vector<uint16_t> other = Stretch(seed, number);
      EXPECT_NE(other, Stretch(seed, 0));
      std::ranges::sort(other);
      EXPECT_EQ(other, sorted);
    }
  }
  const WordNoise noise(3);
  EXPECT_EQ(noise.From(1000), noise.From(0) + 1000);
}

}  // namespace
}  // namespace attndb::attention
