#include "server/chat/stored_replies.h"

#include <algorithm>
#include <utility>

#include "server/batch/conversations.h"
#include "server/chat/open_brackets.h"
#include "server/openai/chat_messages.h"

namespace attndb::server {
namespace {

bool IsTooDeep(const std::string& text) {
  OpenBrackets brackets;
  brackets.Add(text);
  return brackets.is_too_deep();
}

bool HasCutCall(const llama::ReadReply& reply) {
  return std::ranges::any_of(reply.calls,
                             [](const llama::ReadCall& call) { return !IsJson(call.arguments); });
}

Json MessageOf(const llama::ReadReply& reply) {
  Json message = {{"role", kAssistantRole}, {"content", reply.content}};
  if (!reply.reasoning.empty()) message[kReasoning] = reply.reasoning;
  for (const llama::ReadCall& call : reply.calls) {
    message[kToolCalls].push_back(ToolCallJson(call.id, call.name, call.arguments));
  }
  return message;
}

}  // namespace

StoredReplies::StoredReplies(const llama::LlamaEngine* engine, llama::ReplyForm form,
                             bool has_tools)
    : engine_(engine), form_(std::move(form)), has_tools_(has_tools) {}

Result<Json> StoredReplies::Read(std::span<const TokenId> tokens) {
  ATTNDB_ASSIGN_OR_RETURN(const std::string whole, engine_->Detokenize(tokens, true));
  const bool is_readable = !form_.parser.empty() && (has_tools_ || HasThoughts(whole));
  if (is_readable && !IsTooDeep(whole)) {
    const std::optional<llama::ReadReply> read = ReadWhole(whole);
    if (read && !HasCutCall(*read) && (!read->reasoning.empty() || !read->calls.empty())) {
      return MessageOf(*read);
    }
  }
  llama::ReadReply content;
  ATTNDB_ASSIGN_OR_RETURN(content.content, engine_->ReplyText(tokens));
  return MessageOf(content);
}

// A form may expect that each reply begins inside its thoughts. Replies of which the template
// dropped the thoughts begin behind them.
std::optional<llama::ReadReply> StoredReplies::ReadWhole(const std::string& text) {
  std::optional<llama::ReadReply> read = ReadText(text, /*is_partial=*/false);
  if (!read) read = ReadText(text, /*is_partial=*/true);  // It was cut.
  if (!read || read->reasoning.empty() || HasThoughts(text) || form_.thinking_ends.empty()) {
    return read;
  }
  read = ReadText(form_.thinking_ends.front() + text, /*is_partial=*/false);
  return read && read->reasoning.empty() ? read : std::nullopt;
}

std::optional<llama::ReadReply> StoredReplies::ReadText(const std::string& text, bool is_partial) {
  if (is_spent_) return std::nullopt;
  Result<llama::ReadReply> read = engine_->ReadReplyText(form_, text, is_partial);
  is_spent_ = read.status().code() == StatusCode::kResourceExhausted;
  if (!read.ok()) return std::nullopt;
  return *std::move(read);
}

bool StoredReplies::HasThoughts(const std::string& text) const {
  if (!form_.can_think) return false;
  const auto has = [&text](const std::string& mark) {
    return !mark.empty() && text.find(mark) != std::string::npos;
  };
  return has(form_.thinking_start) || std::ranges::any_of(form_.thinking_ends, has);
}

}  // namespace attndb::server
