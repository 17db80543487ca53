// The distribution of the weights of a sample of tokens, which tells from which weight on tokens
// must be certain so that a draw of the others has a given variance.
//
// Units:   logs of weights in words: 128 to a power of two, as the bits of a bfloat16 count them.
//          Buckets are a quarter of a power of two wide.
// Draw:    tokens of weight w are drawn with probability min(1, w / t); a sum over the drawn of
//          w / probability has the variance V(t) = sum of w (t - w) over the lighter ones.
// Threads: one thread.
#ifndef ATTNDB_ATTENTION_WEIGHT_HISTOGRAM_H_
#define ATTNDB_ATTENTION_WEIGHT_HISTOGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/weight_words.h"

namespace attndb::attention {

// The aim of a draw. One more token takes t^2 / (2 sqrt(V)) off the standard deviation sqrt(V): a
// head draws until that is at most `trade`, so that tokens go where they help most.
struct DrawGoal {
  double variance = 0;      // Variance that is there before the draw, and adds to the draw's own.
  double trade = 0;         // Limit of t^2 / sqrt(V).
  double max_variance = 0;  // Limit of V, whatever it takes.
};

class WeightHistogram {
 public:
  static constexpr int kBucketWords = kernels::kWordsOfTwo / 4;
  static constexpr int kNumBuckets = 256;

  // Starts over. From now on words in [top - kNumBuckets * kBucketWords, top) are told apart;
  // others count as the nearest of these.
  void Reset(int top) {
    counts_.fill(0);
    first_ = top - kNumBuckets * kBucketWords;
  }
  void Add(int word) {
    const int bucket = (word - first_) / kBucketWords;
    ++counts_[static_cast<size_t>(bucket < 0              ? 0
                                  : bucket >= kNumBuckets ? kNumBuckets - 1
                                                          : bucket)];
  }

  // The largest threshold, in words, that the goal allows, where each weight stands for `share`
  // tokens and one of word `unit` is 1; the smallest threshold that is told apart if there is none.
  // *variance, unless null, takes the V that it leads to, including the goal's own variance.
  int FindThreshold(const DrawGoal& goal, double share, int unit, double* variance = nullptr) const;

 private:
  std::array<uint32_t, kNumBuckets> counts_{};
  int first_ = 0;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_WEIGHT_HISTOGRAM_H_
