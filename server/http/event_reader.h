// Server-sent events as they come: https://html.spec.whatwg.org/multipage/server-sent-events.html,
// of which OpenAI's interface uses lines of data, empty lines and comments.
//
// Errors:  kIoError (an event is longer than kMaxEventBytes).
// Threads: one thread at a time.
#ifndef ATTNDB_SERVER_HTTP_EVENT_READER_H_
#define ATTNDB_SERVER_HTTP_EVENT_READER_H_

#include <functional>
#include <string>
#include <string_view>

#include "attndb/status.h"

namespace attndb::server {

class EventReader {
 public:
  static constexpr size_t kMaxEventBytes = size_t{16} << 20;

  // Takes the next bytes, and hands over the data of each event that they end, as one text. What
  // `on_data` returns ends the call, if it is an error.
  Status Take(std::string_view bytes, const std::function<Status(std::string_view data)>& on_data);

 private:
  Status TakeLine(std::string_view line,
                  const std::function<Status(std::string_view data)>& on_data);

  std::string line_;  // The beginning of a line whose end has not come.
  std::string data_;  // Lines of data of the event so far.
  bool has_data_ = false;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_EVENT_READER_H_
