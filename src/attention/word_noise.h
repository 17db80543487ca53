// Noise for drawing tokens whose weights are the bits of bfloat16 (kernels/draw.h: DrawByWords),
// and the probabilities of being drawn.
//
// Draw:    a token of margin l is drawn with a probability: the share of the table's words that are
//          at most l. This share is counted, so that sums of 1 / probability are unbiased to the
//          last bit, in spite of a bfloat16's coarse logarithm. From kCertain on it is 1. At margin
//          0, the margin of all light tokens, it is 1 / kSize: every token can be drawn.
// Threads: pure functions.
#ifndef ATTNDB_ATTENTION_WORD_NOISE_H_
#define ATTNDB_ATTENTION_WORD_NOISE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/weight_words.h"

namespace attndb::attention {

class WordNoise {
 public:
  static constexpr uint64_t kSize = 1u << 14;
  static constexpr uint64_t kStretch = kSize;
  // The margin from which on a token is certain: kSize is 14 powers of two.
  static constexpr uint16_t kCertain = 14 * kernels::kWordsOfTwo;

  explicit WordNoise(uint64_t seed) : seed_(seed) {}

  // The noise of `token` and the tokens after it, up to the next multiple of kStretch.
  const uint16_t* From(uint64_t token) const;

  // Chances of a token by its margin, which is at most kCertain.
  struct Chances {
    std::array<float, kCertain + 1> logs;      // Log of the probability of being drawn.
    std::array<float, kCertain + 1> left_out;  // 1 minus that probability.
  };
  static const Chances& ChancesOfMargins();

 private:
  const uint64_t seed_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_WORD_NOISE_H_
