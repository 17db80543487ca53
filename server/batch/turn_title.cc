#include "server/batch/turn_title.h"

#include "attndb/context_title.h"

namespace attndb::server {

std::string TitleOfTurn(std::span<const llama::ChatMessage> messages, std::string_view prompt) {
  if (messages.empty()) return TitleOfText(prompt);
  for (const llama::ChatMessage& message : messages) {
    if (message.role != "user") continue;
    std::string title = TitleOfText(message.content);
    if (!title.empty()) return title;
  }
  return "";
}

}  // namespace attndb::server
