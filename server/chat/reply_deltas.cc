#include "server/chat/reply_deltas.h"

namespace attndb::server {

bool ReplyDeltas::Continues(const llama::ReadReply& reading) const {
  if (!reading.reasoning.starts_with(given_.reasoning) ||
      !reading.content.starts_with(given_.content) || reading.calls.size() < given_.calls.size()) {
    return false;
  }
  for (size_t i = 0; i < given_.calls.size(); ++i) {
    const llama::ReadCall& call = reading.calls[i];
    const llama::ReadCall& given = given_.calls[i];
    if (call.name != given.name || !call.arguments.starts_with(given.arguments)) return false;
  }
  return true;
}

std::optional<ReplyDelta> ReplyDeltas::Next(const llama::ReadReply& reading, bool is_whole) {
  if (!Continues(reading)) return std::nullopt;
  ReplyDelta delta;
  delta.reasoning = reading.reasoning.substr(given_.reasoning.size());
  delta.content = reading.content.substr(given_.content.size());
  for (size_t i = 0; i < reading.calls.size(); ++i) {
    const llama::ReadCall& call = reading.calls[i];
    const bool is_new = i == given_.calls.size();
    if (is_new) {
      const bool is_last = i + 1 == reading.calls.size();
      if (is_last && !is_whole && call.arguments.empty()) break;
      given_.calls.push_back({.id = call.id.empty() ? new_id_() : call.id, .name = call.name});
    }
    llama::ReadCall& given = given_.calls[i];
    std::string arguments = call.arguments.substr(given.arguments.size());
    if (!is_new && arguments.empty()) continue;
    given.arguments = call.arguments;
    delta.calls.push_back({.index = i,
                           .id = is_new ? given.id : "",
                           .name = is_new ? given.name : "",
                           .arguments = std::move(arguments)});
  }
  given_.reasoning = reading.reasoning;
  given_.content = reading.content;
  return delta;
}

}  // namespace attndb::server
