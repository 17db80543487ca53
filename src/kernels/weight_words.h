// Weights as words, the bits of a bfloat16: a word counts a weight's logarithm, nearly, in 128
// steps to a power of two, so that products and quotients of weights are sums and differences of
// words.
//
// Threads: pure functions.
#ifndef ATTNDB_KERNELS_WEIGHT_WORDS_H_
#define ATTNDB_KERNELS_WEIGHT_WORDS_H_

#include <bit>
#include <cstdint>
#include <numbers>

namespace attndb::kernels {

inline constexpr int kWordsOfTwo = 128;
inline constexpr int kWordOfOne = 127 * kWordsOfTwo;
inline constexpr double kWordsOfNat = kWordsOfTwo * std::numbers::log2e;

// The weights that are made are within 2^-100 to 2^100.
inline constexpr uint16_t kLeastWeight = kWordOfOne - 100 * kWordsOfTwo;
inline constexpr uint16_t kLargestWeight = kWordOfOne + 100 * kWordsOfTwo;

inline float WeightOf(uint16_t word) { return std::bit_cast<float>(uint32_t{word} << 16); }

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_WEIGHT_WORDS_H_
