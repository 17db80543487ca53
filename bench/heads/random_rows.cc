#include "bench/heads/random_rows.h"

#include <random>

namespace attndb::bench {
namespace {

constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

uint64_t Scramble(uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
  return bits ^ (bits >> 31);
}

}  // namespace

uint64_t MixBits(uint64_t stream, uint64_t index) {
  return Scramble(Scramble(stream * kStep) + index * kStep);
}

NormalRows::NormalRows(uint64_t seed) : table_(size_t{1} << 16) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : table_) value = normal(random);
}

void NormalRows::Fill(uint64_t stream, uint64_t index, std::span<float> row) const {
  uint64_t state = MixBits(stream, index);
  for (float& value : row) {
    state += kStep;
    value = table_[Scramble(state) >> 48];
  }
}

}  // namespace attndb::bench
