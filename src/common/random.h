// A small seeded generator: sampling and tests. Not for secrets (sha256.h has RandomBytes).
//
// The sequence of a seed is the same on every machine and never changes.
//
// Threads: thread-compatible.
// Source:  SplitMix64, Steele, Lea & Flood 2014, doi:10.1145/2660193.2660195.
#ifndef ATTNDB_COMMON_RANDOM_H_
#define ATTNDB_COMMON_RANDOM_H_

#include <cmath>
#include <cstdint>
#include <numbers>

namespace attndb {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n), by the high half of the product: biased by less than n / 2^64.
  // REQUIRES: n > 0.
  uint64_t Uniform(uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(Next()) * n) >> 64);
  }

  // Uniform in [0, 1).
  double NextDouble() { return static_cast<double>(Next() >> 11) * 0x1p-53; }

  bool OneIn(uint64_t n) { return Uniform(n) == 0; }

  // Normal with mean 0 and variance 1 (Box-Muller).
  double NextGaussian() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - NextDouble()));
    return radius * std::cos(2.0 * std::numbers::pi * NextDouble());
  }

 private:
  uint64_t state_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_RANDOM_H_
