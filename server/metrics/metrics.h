// What a server counts, as OpenMetrics text (https://openmetrics.io).
//
// Threads: thread-safe.
#ifndef ATTNDB_SERVER_METRICS_METRICS_H_
#define ATTNDB_SERVER_METRICS_METRICS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace attndb::server {

// Seconds, in buckets that double.
class Histogram {
 public:
  static constexpr size_t kNumBuckets = 20;
  static constexpr double kFirstBound = 0.0005;

  void Add(double seconds);
  // Appends the lines of metric `name`.
  void Render(std::string_view name, std::string_view help, std::string* text) const;

 private:
  mutable std::mutex mutex_;
  std::array<uint64_t, kNumBuckets + 1> counts_ = {};  // The last: beyond all bounds.
  double sum_ = 0;
};

// A number that is read when it is asked for.
struct Sample {
  std::string_view name;
  std::string_view help;
  bool is_counter = false;
  double value = 0;
  // As in braces: R"(kind="kv")". Samples of one name stand one behind the other.
  std::string_view labels = {};
};

class Metrics {
 public:
  void CountRequest(std::string_view route, int status);

  // `samples`: what others count. The whole, with its end.
  std::string Render(std::span<const Sample> samples) const;

  Histogram first_token_seconds;
  Histogram token_seconds;
  std::atomic<uint64_t> num_prompt_tokens = 0;
  std::atomic<uint64_t> num_cached_tokens = 0;
  std::atomic<uint64_t> num_reply_tokens = 0;
  std::atomic<uint64_t> num_embedded_tokens = 0;
  std::atomic<uint64_t> num_ignored_lines = 0;  // ServerOptions::ignored_lines.
  std::atomic<uint64_t> num_cancelled = 0;
  std::atomic<uint64_t> num_loading = 0;  // Turns whose stored tokens are being read.

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;  // Guarded by mutex_.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_METRICS_METRICS_H_
