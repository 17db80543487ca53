// Whether and when a conversation goes on, learned from those before: the share that returned after
// n turns, and how long people think.
//
//   forecast.AddReturn(turns, seconds_of_thought);
//   const Return expected = forecast.Expect(turns, idle_seconds);
//   expected.chance / (1 + expected.seconds)
//
// Model:   the chance depends on the number of turns, the time on how long the conversation has
//          been idle. Who returns at all was idle for longer than g with probability S(g), of a
//          histogram with four buckets to the octave. By Bayes, one that is idle for g returns with
//          p S / (p S + 1 - p).
// Units:   seconds. Memory is constant: counts are halved when there are many, so that old habits
//          are forgotten.
// Threads: thread-compatible.
#ifndef ATTNDB_STORAGE_TIER_RETURN_FORECAST_H_
#define ATTNDB_STORAGE_TIER_RETURN_FORECAST_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace attndb::tier {

struct Return {
  double chance = 0;   // The probability that the conversation goes on.
  double seconds = 0;  // Until then in the mean, if it does.
};

class ReturnForecast {
 public:
  static constexpr uint32_t kMaxTurns = 64;  // Conversations of more turns count as of so many.

  // A conversation of `turns` turns went on after `idle_seconds`; `was_gone`: it had been counted
  // by AddGone before.
  void AddReturn(uint32_t turns, double idle_seconds, bool was_gone);
  // One has been idle for more than Horizon().
  void AddGone(uint32_t turns);

  // What to expect of a conversation of `turns` turns that has been idle for `idle_seconds`.
  Return Expect(uint32_t turns, double idle_seconds) const;
  // Idle seconds after which one is taken to be gone: no more than 1 % of returns came later.
  // Seconds without end before the first return.
  double Horizon() const;

 private:
  static constexpr size_t kBucketsPerOctave = 4;
  static constexpr size_t kNumBuckets = 32 * kBucketsPerOctave;

  struct Bucket {
    double count = 0;
    double seconds = 0;  // Sum.
    // Sums over the buckets after this one.
    double later_count = 0;
    double later_seconds = 0;
  };

  static size_t BucketOf(double seconds);
  void Summarize();  // Fills later_*, and halves what has grown large.

  std::array<double, kMaxTurns + 1> returned_{};
  std::array<double, kMaxTurns + 1> gone_{};
  std::array<Bucket, kNumBuckets> thoughts_{};
  double num_thoughts_ = 0;
};

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_RETURN_FORECAST_H_
