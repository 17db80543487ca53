// Predicts whether and when a conversation continues, from earlier ones: the share that returned
// after n turns, and the time that people think.
//
//   forecast.AddReturn(turns, seconds_of_thought);
//   const Return expected = forecast.Expect(turns, idle_seconds);
//   expected.chance / (1 + expected.seconds)
//
// Model:   the chance depends on the number of turns, the time on how long the conversation has
//          been idle. Returning conversations are idle for longer than g with probability S(g),
//          from a histogram with four buckets per octave. By Bayes, a conversation that is idle for
//          g returns with probability p S / (p S + 1 - p).
// Units:   seconds. Memory is constant: large counts are halved, so that old habits are forgotten.
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
  // Conversations with more turns count as if they had this many.
  static constexpr uint32_t kMaxTurns = 64;

  // A conversation of `turns` turns went on after `idle_seconds`; `was_gone`: it had been counted
  // by AddGone before.
  void AddReturn(uint32_t turns, double idle_seconds, bool was_gone);
  // One has been idle for more than Horizon().
  void AddGone(uint32_t turns);

  // The forecast for a conversation of `turns` turns that has been idle for `idle_seconds`.
  Return Expect(uint32_t turns, double idle_seconds) const;
  // The idle time after which a conversation counts as gone: at most 1 % of returns came later.
  // Infinite before the first return.
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
  void Summarize();  // Fills later_*, and halves large counts.

  std::array<double, kMaxTurns + 1> returned_{};
  std::array<double, kMaxTurns + 1> gone_{};
  std::array<Bucket, kNumBuckets> thoughts_{};
  double num_thoughts_ = 0;
};

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_RETURN_FORECAST_H_
