// A line for each request that was answered: who asked what, how it ended, how long it took. Never
// a word of what was asked or said. The path of a request stands there only if it has no route: a
// path with a route may name a context.
//
//   kJson  {"time": "2026-11-27T07:36:56.123Z", "request_id": "5f0c", "method": "POST", ...}
//   kText  2026-11-27T07:36:56.123Z POST /v1/chat/completions 200 812 ms ...
//
// Threads: thread-safe; a line is written whole.
#ifndef ATTNDB_SERVER_METRICS_REQUEST_LOG_H_
#define ATTNDB_SERVER_METRICS_REQUEST_LOG_H_

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace attndb::server {

enum class LogFormat : uint8_t { kOff, kText, kJson };

struct LoggedRequest {
  int64_t time_us = 0;  // When it ended, since the Unix epoch.
  std::string_view request_id;
  std::string_view method;
  std::string_view route;  // As metrics call it; empty: there is none such.
  std::string_view path;   // By LoggedPath, of a request without a route; else empty.
  std::string_view tenant;
  int status = 0;
  double seconds = 0;  // From its last byte to the end of its answer.
  // Requests for text have these; all 0 for others.
  uint64_t num_prompt_tokens = 0;
  uint64_t num_cached_tokens = 0;
  uint64_t num_reply_tokens = 0;
  double first_token_seconds = 0;
  uint64_t num_cut_tokens = 0;     // TurnStart::num_cut_tokens.
  std::string_view parted = {};    // TurnStart::parted; empty of others.
  uint64_t num_ignored_lines = 0;  // Lines of its system messages that were deleted.
};

// Returns a path as a URL has it, in visible ASCII without quotes, so that no client breaks a line
// or hides in one. A path that takes more than kMaxLoggedPath bytes ends there, with "...".
inline constexpr size_t kMaxLoggedPath = 128;
std::string LoggedPath(std::string_view path);

// With its line end. Empty: kOff.
std::string LogLine(LogFormat format, const LoggedRequest& request);

// "2026-11-27T07:36:56.123Z".
std::string UtcText(int64_t time_us);

class RequestLog {
 public:
  // `stream` outlives it.
  RequestLog(LogFormat format, std::FILE* stream) : format_(format), stream_(stream) {}

  void Write(const LoggedRequest& request);

 private:
  const LogFormat format_;
  std::mutex mutex_;
  std::FILE* const stream_;  // Written under mutex_.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_METRICS_REQUEST_LOG_H_
