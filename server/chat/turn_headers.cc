#include "server/chat/turn_headers.h"

#include <string>
#include <utility>

namespace attndb::server {

Headers TurnHeaders(const TurnStart& start, uint64_t num_dropped_tokens) {
  Headers headers;
  if (start.is_kept) headers.emplace_back(kContextHeader, start.id);
  if (!start.parted.empty()) headers.emplace_back(kPartedHeader, start.parted);
  std::string found;
  for (const std::string& context : start.found) found += (found.empty() ? "" : ",") + context;
  if (!found.empty()) headers.emplace_back(kFoundHeader, std::move(found));
  if (num_dropped_tokens > 0) {
    headers.emplace_back(kDroppedHeader, std::to_string(num_dropped_tokens));
  }
  if (start.num_cut_tokens > 0) {
    headers.emplace_back(kCutHeader, std::to_string(start.num_cut_tokens));
  }
  return headers;
}

Response StreamHead(Headers headers) {
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  return {.content_type = "text/event-stream", .headers = std::move(headers)};
}

}  // namespace attndb::server
