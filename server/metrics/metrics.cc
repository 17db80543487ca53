#include "server/metrics/metrics.h"

#include <cstdio>

namespace attndb::server {
namespace {

// Counts are exact up to 10^15.
std::string NumberText(double value) {
  char text[32];
  const int length = std::snprintf(text, sizeof(text), "%.15g", value);
  return {text, static_cast<size_t>(length)};
}

void Head(std::string_view name, std::string_view type, std::string_view help, std::string* text) {
  text->append("# TYPE ").append(name).append(" ").append(type).append("\n");
  text->append("# HELP ").append(name).append(" ").append(help).append("\n");
}

}  // namespace

void Histogram::Add(double seconds) {
  size_t bucket = 0;
  double bound = kFirstBound;
  while (bucket < kNumBuckets && seconds > bound) {
    ++bucket;
    bound *= 2;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  ++counts_[bucket];
  sum_ += seconds;
}

void Histogram::Render(std::string_view name, std::string_view help, std::string* text) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Head(name, "histogram", help, text);
  uint64_t count = 0;
  double bound = kFirstBound;
  for (size_t i = 0; i <= kNumBuckets; ++i, bound *= 2) {
    count += counts_[i];
    const std::string le = i == kNumBuckets ? "+Inf" : NumberText(bound);
    text->append(name).append("_bucket{le=\"" + le + "\"} " + std::to_string(count) + "\n");
  }
  text->append(name).append("_sum " + NumberText(sum_) + "\n");
  text->append(name).append("_count " + std::to_string(count) + "\n");
}

void Metrics::CountRequest(std::string_view route, int status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++requests_[{std::string(route), status}];
}

std::string Metrics::Render(std::span<const Sample> samples) const {
  std::string text;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    Head("attndb_requests", "counter", "Requests answered, by route and status.", &text);
    for (const auto& [key, count] : requests_) {
      text += "attndb_requests_total{route=\"" + key.first + "\",status=\"" +
              std::to_string(key.second) + "\"} " + std::to_string(count) + "\n";
    }
  }
  std::string_view last;
  for (const Sample& sample : samples) {
    if (std::exchange(last, sample.name) != sample.name) {
      Head(sample.name, sample.is_counter ? "counter" : "gauge", sample.help, &text);
    }
    text.append(sample.name).append(sample.is_counter ? "_total" : "");
    if (!sample.labels.empty()) text.append("{").append(sample.labels).append("}");
    text.append(" ").append(NumberText(sample.value)).append("\n");
  }
  first_token_seconds.Render("attndb_first_token_seconds",
                             "Seconds from a request to its first token.", &text);
  token_seconds.Render("attndb_token_seconds", "Seconds from a token of a reply to the next one.",
                       &text);
  return text + "# EOF\n";
}

}  // namespace attndb::server
