#include "server/routes/stored_calls.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "attndb/context_name.h"
#include "server/chat/tools_note.h"

namespace attndb::server {
namespace {

constexpr size_t kMaxFrontTokens = 32;  // Those of a template in front of a reply.

// Adds a reply where the layout has none at its place, or a part of it alone: a template may show
// the content of a reply, and the layout does not know of the calls behind it.
void AddReply(const TextMessage& reply, std::vector<TextMessage>* messages) {
  const auto behind = std::ranges::find_if(
      *messages, [&](const TextMessage& other) { return other.tokens.end > reply.tokens.begin; });
  if (behind == messages->end() || behind->tokens.begin >= reply.tokens.end) {
    messages->insert(behind, reply);
    return;
  }
  const bool is_part = behind->role == TextRole::kAssistant &&
                       behind->tokens.begin >= reply.tokens.begin &&
                       behind->tokens.end <= reply.tokens.end;
  if (is_part) *behind = reply;
}

bool HasResults(const TextLayout& text) {
  return std::ranges::any_of(text.messages,
                             [](const TextMessage& one) { return one.role == TextRole::kOther; });
}

// The end of the prompt behind which each reply begins, without a mark of thinking: the template
// may drop what was thought.
std::string FrontOf(const llama::ReplyForm& form) {
  constexpr std::string_view kSpaces = " \r\n";
  std::string front = form.generation_prompt;
  const size_t end = front.find_last_not_of(kSpaces) + 1;
  const std::string& mark = form.thinking_start;
  if (!mark.empty() && std::string_view(front).substr(0, end).ends_with(mark)) {
    front.resize(end - mark.size());
  }
  return front;
}

// Finds the replies between the messages of a layout.
class WrittenCalls {
 public:
  WrittenCalls(const llama::LlamaEngine& engine, std::string front, std::span<const TokenId> tokens)
      : engine_(engine), front_(std::move(front)), tokens_(tokens) {}

  // Returns the reply in [begin, end), which is in front of a result.
  std::optional<TokenRange> Find(uint64_t begin, uint64_t end) const {
    const uint64_t end_before = EndOfTurn(begin, end);
    const uint64_t last = LastEndOfTurn(begin, end);
    if (front_.empty() || end_before == end) return std::nullopt;
    const uint64_t most = std::min<uint64_t>(last - end_before, kMaxFrontTokens);
    for (uint64_t n = 1; n <= most; ++n) {
      const auto text = engine_.Detokenize(tokens_.subspan(end_before + 1, n), true);
      if (!text.ok()) return std::nullopt;
      if (!text->ends_with(front_)) continue;
      const TokenRange reply = {end_before + 1 + n, last};
      return reply.begin < reply.end ? std::optional(reply) : std::nullopt;
    }
    return std::nullopt;
  }
  // The first token in [begin, end) that ends a turn; `end`: there is none.
  uint64_t EndOfTurn(uint64_t begin, uint64_t end) const {
    while (begin < end && !engine_.IsEndOfGeneration(tokens_[begin])) ++begin;
    return begin;
  }

 private:
  // The last one; `begin`: there is none.
  uint64_t LastEndOfTurn(uint64_t begin, uint64_t end) const {
    while (end > begin && !engine_.IsEndOfGeneration(tokens_[end - 1])) --end;
    return end > begin ? end - 1 : begin;
  }

  const llama::LlamaEngine& engine_;
  const std::string front_;
  const std::span<const TokenId> tokens_;
};

}  // namespace

void AddStoredCalls(const DB& db, ContextId before, uint64_t num_tokens, TextLayout* text) {
  if (!HasResults(*text)) return;
  for (int i = 0; i < kMaxTurnsBack && before != ContextId::kNone; ++i) {
    const Result<ContextInfo> turn = db.Describe(IdName(before));
    if (!turn.ok() || turn->num_tokens > num_tokens) return;
    const std::vector<TextMessage>& messages = turn->text_layout.messages;
    if (!messages.empty() && messages.back().role == TextRole::kAssistant) {
      AddReply(messages.back(), &text->messages);
    }
    before = turn->continues;
  }
}

void AddWrittenCalls(const llama::LlamaEngine& engine, const llama::ReplyForm& form,
                     KeptText* kept) {
  const WrittenCalls calls(engine, FrontOf(form), kept->tokens);
  std::vector<TextMessage> messages;
  for (const TextMessage& message : kept->text.messages) {
    if (message.role == TextRole::kOther && !messages.empty()) {
      TextMessage& before = messages.back();
      const uint64_t begin = before.tokens.end;
      const uint64_t end = message.tokens.begin;
      if (before.role == TextRole::kAssistant) {
        const uint64_t end_of_turn = calls.EndOfTurn(begin, end);
        if (end_of_turn < end) before.tokens.end = end_of_turn;
      } else if (const auto reply = calls.Find(begin, end)) {
        messages.push_back({TextRole::kAssistant, *reply});
      }
    }
    messages.push_back(message);
  }
  kept->text.messages = std::move(messages);
}

std::string ToolsOf(const DB& db, ContextId turn, const TextLayout& text) {
  const int most = HasResults(text) ? kMaxTurnsBack : kMaxTurnsOfNote;
  for (int i = 0; i < most && turn != ContextId::kNone; ++i) {
    const Result<std::string> note = db.Note(IdName(turn));
    std::string tools = note.ok() ? ToolsOfNote(*note) : std::string();
    if (!tools.empty()) return tools;
    const Result<ContextInfo> info = db.Describe(IdName(turn));
    if (!info.ok()) break;
    turn = info->continues;
  }
  return {};
}

std::string NoteToStore(const DB& db, const Session& session, const std::string& tools) {
  std::string note = NoteOfTools(tools);
  ContextId turn = note.empty() ? ContextId::kNone : session.context_id();
  for (int i = 1; i < kMaxTurnsOfNote && turn != ContextId::kNone; ++i) {
    const Result<ContextInfo> info = db.Describe(IdName(turn));
    // The new context does not continue a context that has more tokens than the session.
    if (!info.ok() || info->num_tokens > session.num_tokens()) break;
    const Result<std::string> noted = db.Note(IdName(turn));
    if (!noted.ok()) break;
    if (*noted == note) return {};
    if (!noted->empty()) break;
    turn = info->continues;
  }
  return note;
}

}  // namespace attndb::server
