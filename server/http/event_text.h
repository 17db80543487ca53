// Server-sent events as the bytes of an answer: EventReader reads them.
//
// Threads: pure functions.
#ifndef ATTNDB_SERVER_HTTP_EVENT_TEXT_H_
#define ATTNDB_SERVER_HTTP_EVENT_TEXT_H_

#include <string>
#include <string_view>

namespace attndb::server {

// The last event of a stream in OpenAI's interface.
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

// An event without a name. REQUIRES: `data` is one line.
inline std::string EventText(std::string_view data) {
  return std::string("data: ").append(data).append("\n\n");
}

// An event with a name. REQUIRES: each is one line.
inline std::string EventText(std::string_view name, std::string_view data) {
  return std::string("event: ").append(name).append("\n").append(EventText(data));
}

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_EVENT_TEXT_H_
