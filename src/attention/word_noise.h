// Noise by which tokens are drawn whose weights are the bits of bfloat16 (kernels/draw.h:
// DrawByWords), and with which probability that is.
//
// Draw:    a token of margin l is drawn with the share of the table's words that are no more than
//          l. That share is counted, so that sums of 1 / probability are unbiased to the last bit,
//          whatever the bits of a bfloat16 make of a logarithm. From kCertain on it is 1; at margin
//          0, that of all light tokens, it is 1 / kSize: no token is never drawn.
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

  // The noise of `token` and those after it, up to the next multiple of kStretch.
  const uint16_t* From(uint64_t token) const;

  // What is known of a token by its margin, which is at most kCertain.
  struct Chances {
    std::array<float, kCertain + 1> logs;      // Of the probability of being drawn,
    std::array<float, kCertain + 1> left_out;  // ... and 1 less it.
  };
  static const Chances& ChancesOfMargins();

 private:
  const uint64_t seed_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_WORD_NOISE_H_
