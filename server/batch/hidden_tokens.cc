#include "server/batch/hidden_tokens.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/batch/conversations.h"

namespace attndb::server {
namespace {

// A control token in front of a byte of the prompt.
struct Hidden {
  uint64_t byte = 0;
  llama::PromptItem item;
};

// The replies of a chat up to messages[reply] and their tokens in the turn.
struct Said {
  size_t message = 0;
  TokenRange tokens;
};

std::string BytesOf(const llama::RenderedPrompt& prompt, const llama::ByteRange& range) {
  std::string bytes;
  uint64_t at = 0;
  for (const llama::PromptItem& item : prompt.items) {
    const uint64_t begin = std::max(at, range.begin);
    const uint64_t end = std::min(at + item.text.size(), range.end);
    if (begin < end) bytes += item.text.substr(begin - at, end - begin);
    at += item.text.size();
  }
  return bytes;
}

// A layout has no message without a token. If it has another number of earlier replies than the
// chat, only the last one is told.
std::vector<Said> RepliesOf(const llama::RenderedPrompt& prompt,
                            std::span<const llama::ChatMessage> messages, size_t reply,
                            const TextLayout& text) {
  std::vector<TokenRange> stored;
  for (const TextMessage& message : text.messages) {
    if (message.role == TextRole::kAssistant) stored.push_back(message.tokens);
  }
  if (stored.empty()) return {};
  std::vector<Said> replies;
  for (size_t i = 0; i < reply; ++i) {
    const bool is_shown = prompt.messages[i].begin < prompt.messages[i].end;
    if (messages[i].role == kAssistantRole && is_shown) replies.push_back({i, {}});
  }
  if (replies.size() + 1 != stored.size()) replies.clear();
  replies.push_back({reply, {}});
  const auto last = std::span(stored).last(replies.size());
  for (size_t i = 0; i < replies.size(); ++i) replies[i].tokens = last[i];
  return replies;
}

// Adds the control tokens between the words of a reply that the prompt shows at `range`.
Status AddHidden(const llama::LlamaEngine& engine, std::span<const TokenId> reply,
                 const llama::ByteRange& range, llama::RenderedPrompt* prompt,
                 std::vector<Hidden>* hidden) {
  ATTNDB_ASSIGN_OR_RETURN(llama::RenderedPrompt items, engine.RenderTokens(reply));
  const std::string words = BytesOf(*prompt, range);
  std::string said;
  size_t from = 0;
  for (const llama::PromptItem& item : items.items) {
    if (!item.control) continue;
    const auto rest = reply.subspan(from);
    const auto at = static_cast<size_t>(std::ranges::find(rest, *item.control) - rest.begin());
    ATTNDB_ASSIGN_OR_RETURN(const std::string piece, engine.ReplyText(rest.first(at)));
    said += piece;
    if (said.size() >= words.size() || !words.starts_with(said)) break;
    hidden->push_back({range.begin + said.size(), item});
    from += at + 1;
  }
  std::ranges::move(items.texts, std::back_inserter(prompt->texts));
  return Status::Ok();
}

// `hidden`: in order.
void Insert(std::span<const Hidden> hidden, llama::RenderedPrompt* prompt) {
  std::vector<llama::PromptItem> items;
  uint64_t at = 0;
  auto next = hidden.begin();
  for (const llama::PromptItem& item : prompt->items) {
    std::string_view rest = item.text;
    for (; next != hidden.end() && next->byte < at + rest.size(); ++next) {
      const uint64_t num_before = next->byte - at;
      if (num_before > 0) items.push_back({rest.substr(0, num_before), std::nullopt, true});
      items.push_back(next->item);
      rest.remove_prefix(num_before);
      at = next->byte;
    }
    items.push_back({rest, item.control, item.is_content});
    at += rest.size();
  }
  prompt->items = std::move(items);
  // A token in front of a message's first byte belongs to the message.
  const auto num_before = [hidden](uint64_t byte, bool is_begin) {
    uint64_t num_bytes = 0;
    for (const Hidden& token : hidden) {
      if (token.byte < byte || (token.byte == byte && !is_begin)) {
        num_bytes += token.item.text.size();
      }
    }
    return num_bytes;
  };
  for (llama::ByteRange& message : prompt->messages) {
    message = {message.begin + num_before(message.begin, true),
               message.end + num_before(message.end, false)};
  }
}

}  // namespace

Result<llama::RenderedPrompt> WithHiddenTokens(const llama::LlamaEngine& engine,
                                               const llama::RenderedPrompt& prompt,
                                               std::span<const llama::ChatMessage> messages,
                                               size_t reply, const KeptText& turn) {
  llama::RenderedPrompt shown = prompt;
  if (prompt.messages.size() != messages.size()) return shown;
  std::vector<Hidden> hidden;
  for (const Said& said : RepliesOf(prompt, messages, reply, turn.text)) {
    const uint64_t num_tokens = said.tokens.end - said.tokens.begin;
    if (said.tokens.end > turn.tokens.size()) break;
    const auto tokens = std::span(turn.tokens).subspan(said.tokens.begin, num_tokens);
    ATTNDB_RETURN_IF_ERROR(
        AddHidden(engine, tokens, prompt.messages[said.message], &shown, &hidden));
  }
  Insert(hidden, &shown);
  return shown;
}

}  // namespace attndb::server
