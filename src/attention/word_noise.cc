#include "attention/word_noise.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <utility>

#include "common/random.h"

namespace attndb::attention {
namespace {

// By how many bits of a bfloat16, rounded up, u in (0, 1) is above 2^-14; 0 if it is below.
uint16_t WordOf(float u) {
  const auto bits = std::bit_cast<uint32_t>(u);
  const uint32_t rounded_up = (bits + 0xffffu) >> 16;
  constexpr uint32_t kLeast = kernels::kWordOfOne - WordNoise::kCertain;
  return static_cast<uint16_t>(std::max(rounded_up, kLeast) - kLeast);
}

struct Table {
  Table() {
    constexpr uint64_t kSeed = 20413;
    std::array<uint32_t, WordNoise::kCertain + 1> counts{};
    for (size_t i = 0; i < WordNoise::kSize; ++i) {
      words[i] = WordOf((static_cast<float>(i) + 0.5f) / float{WordNoise::kSize});
      ++counts[words[i]];
    }
    uint32_t not_above = 0;
    for (size_t margin = 0; margin < counts.size(); ++margin) {
      not_above += counts[margin];
      chances.logs[margin] = static_cast<float>(std::log(not_above / double{WordNoise::kSize}));
      chances.left_out[margin] = 1.0f - static_cast<float>(not_above) / float{WordNoise::kSize};
    }
    Random random(kSeed);
    for (size_t i = WordNoise::kSize; i > 1; --i) std::swap(words[i - 1], words[random.Uniform(i)]);
    std::copy_n(words.begin(), WordNoise::kSize, words.begin() + WordNoise::kSize);
  }

  // Twice, so that any stretch lies in one piece.
  std::array<uint16_t, 2 * WordNoise::kSize> words;
  WordNoise::Chances chances;
};

const Table& TheTable() {
  static const Table kTable;
  return kTable;
}

}  // namespace

const uint16_t* WordNoise::From(uint64_t token) const {
  const uint64_t place = Random(seed_ + token / kStretch).Uniform(kSize);
  return TheTable().words.data() + place + token % kStretch;
}

const WordNoise::Chances& WordNoise::ChancesOfMargins() { return TheTable().chances; }

}  // namespace attndb::attention
