#include "server/batch/prompts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::string_view kSystem = "system";
constexpr std::string_view kContextRole = "context";  // What a prompt continues: its digest.
constexpr std::string_view kUser = "user";
const std::string kQuestionGap = "\n\n";  // As LlamaEngine::QuestionSuffix has it.

TextRole RoleOf(const std::string& role) {
  if (role == kSystem) return TextRole::kSystem;
  if (role == kUser) return TextRole::kUser;
  return role == kAssistantRole ? TextRole::kAssistant : TextRole::kOther;
}

std::vector<llama::ChatMessage> Joined(std::vector<llama::ChatMessage> front,
                                       std::span<const llama::ChatMessage> back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

}  // namespace

Result<Prompt> Prompts::OfText(const std::string& tenant, const std::string& context,
                               const std::string& text, const Limits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const llama::StoredContext before, Open(tenant, context));
  const llama::PromptPart part = {"", text};
  ATTNDB_ASSIGN_OR_RETURN(const llama::JoinedText joined,
                          engine_->Join(before.tokens, std::span(&part, 1), {.limits = limits}));
  Prompt prompt;
  prompt.num_last = joined.tokens.size() - joined.num_kept;
  Take(before.text, joined, {}, &prompt);
  return prompt;
}

Result<Prompt> Prompts::OfTokens(const std::string& tenant, const std::string& context,
                                 const std::vector<TokenId>& tokens) const {
  const uint32_t vocab_size = engine_->info().vocab_size;
  for (const TokenId token : tokens) {
    if (token >= 0 && static_cast<uint32_t>(token) < vocab_size) continue;
    return Status::InvalidArgument("'prompt' has token " + std::to_string(token) +
                                   ", the vocabulary has ids 0 to " +
                                   std::to_string(vocab_size - 1));
  }
  Prompt prompt;
  ATTNDB_ASSIGN_OR_RETURN(llama::StoredContext before, Open(tenant, context));
  prompt.tokens = std::move(before.tokens);
  prompt.text = std::move(before.text);
  prompt.tokens.insert(prompt.tokens.end(), tokens.begin(), tokens.end());
  prompt.num_last = tokens.size();
  return prompt;
}

Result<llama::StoredContext> Prompts::Open(const std::string& tenant,
                                           const std::string& context) const {
  // Bare text, to which nothing was said.
  if (context.empty()) return llama::StoredContext{{}, {TextForm::kRaw, {}}};
  ATTNDB_ASSIGN_OR_RETURN(KeptText kept, conversations_->TextOf(tenant, context));
  llama::StoredContext stored = {std::move(kept.tokens), std::move(kept.text)};
  ATTNDB_ASSIGN_OR_RETURN(stored.layout, llama::LayoutOf(*engine_, stored.text, stored.tokens));
  return stored;
}

void Prompts::Take(const TextLayout& before, const llama::JoinedText& joined, Messages messages,
                   Prompt* prompt) {
  std::vector<TextRole> roles;
  for (const llama::ChatMessage& message : messages) roles.push_back(RoleOf(message.role));
  prompt->text = llama::Continued(before, joined, roles);
  prompt->tokens = joined.tokens;
}

Result<Prompt> Prompts::OfChat(const std::string& tenant, const std::string& context,
                               Messages messages, const Limits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(tenant, context));
  Result<Prompt> prompt = ChatAbout(tenant, subject, messages, limits);
  if (prompt.status().code() != StatusCode::kUnsupported) return prompt;
  return Status::Unsupported(prompt.status().message() +
                             "; /v1/completions takes text without a template");
}

Result<Prompts::Subject> Prompts::SubjectOf(const std::string& tenant,
                                            const std::string& context) const {
  Subject subject;
  if (context.empty()) return subject;
  subject.context = context;
  ATTNDB_ASSIGN_OR_RETURN(subject.stored, Open(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(std::string digest, DigestOf(subject.stored.tokens));
  subject.front.push_back({std::string(kContextRole), std::move(digest)});
  return subject;
}

Result<Prompt> Prompts::ChatAbout(const std::string& tenant, const Subject& subject,
                                  Messages messages, const Limits& limits) const {
  Prompt prompt;
  const std::vector<llama::ChatMessage> all = Joined(subject.front, messages);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> digests, DigestsOf(all));
  prompt.digest = digests.back();
  ATTNDB_ASSIGN_OR_RETURN(Remembered known,
                          conversations_->Recall(tenant, all, subject.stored.tokens, limits));
  if (known.num_messages > 0) {
    const size_t num_known = known.num_messages - subject.front.size();
    ATTNDB_ASSIGN_OR_RETURN(const llama::PromptParts rest,
                            engine_->ConversationParts(messages, num_known));
    ATTNDB_ASSIGN_OR_RETURN(const llama::JoinedText joined,
                            engine_->Join(known.tokens, rest, {.limits = limits}));
    Take(known.text, joined, messages.subspan(num_known), &prompt);
  } else if (subject.context.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(const llama::PromptParts parts, engine_->ConversationParts(messages));
    ATTNDB_ASSIGN_OR_RETURN(const llama::JoinedText joined,
                            engine_->Join({}, parts, {.limits = limits}));
    const bool is_bare = !engine_->info().has_chat_template;
    Take({is_bare ? TextForm::kRaw : TextForm::kDialogue, {}}, joined, messages, &prompt);
  } else {
    ATTNDB_RETURN_IF_ERROR(AskContext(subject, messages, limits, &prompt));
  }
  ATTNDB_ASSIGN_OR_RETURN(const Tokens last,
                          engine_->Conversation(messages, messages.size() - 1, limits));
  prompt.num_last = last.size();
  ATTNDB_ASSIGN_OR_RETURN(prompt.num_system, SystemTokensOf(prompt, messages, limits));
  return prompt;
}

Result<Prompt> Prompts::OfReply(const std::string& tenant, const std::string& context,
                                Messages messages, const Limits& limits) const {
  if (messages.size() < 2) return Status::InvalidArgument("messages[0] is a reply to nothing");
  ATTNDB_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const Prompt asked,
                          ChatAbout(tenant, subject, messages.first(messages.size() - 1), limits));
  std::vector<llama::ChatMessage> all = Joined(subject.front, messages);
  all.push_back({std::string(kUser), ""});  // What a reply is recalled for.
  ATTNDB_ASSIGN_OR_RETURN(Remembered known,
                          conversations_->Recall(tenant, all, subject.stored.tokens, limits));
  const bool is_known = known.num_messages + 1 == all.size() &&
                        known.tokens.size() > asked.tokens.size() &&
                        std::equal(asked.tokens.begin(), asked.tokens.end(), known.tokens.begin());
  if (!is_known) {
    const llama::PromptPart words = {"", messages.back().content};
    ATTNDB_ASSIGN_OR_RETURN(llama::JoinedText joined,
                            engine_->Join(asked.tokens, std::span(&words, 1),
                                          {.keeps_before = true, .limits = limits}));
    known.tokens = std::move(joined.tokens);
  }
  Prompt prompt;
  prompt.num_last = known.tokens.size() - asked.tokens.size();
  prompt.tokens = std::move(known.tokens);
  return prompt;
}

Status Prompts::AskContext(const Subject& subject, Messages messages, const Limits& limits,
                           Prompt* prompt) const {
  if (messages.front().role != kUser) {
    return Status::InvalidArgument("messages[0] is of the " + messages.front().role +
                                   ", expected a question of the user: context '" +
                                   subject.context + "' has its own beginning");
  }
  ATTNDB_ASSIGN_OR_RETURN(const llama::PromptParts parts, PartsFor(subject, messages));
  ATTNDB_ASSIGN_OR_RETURN(const llama::JoinedText joined,
                          engine_->Join(subject.stored.tokens, parts, {.limits = limits}));
  Take(subject.stored.text, joined, messages, prompt);
  return Status::Ok();
}

Result<llama::PromptParts> Prompts::PartsFor(const Subject& subject, Messages messages) const {
  const std::string& question = messages.front().content;
  switch (subject.stored.layout) {
    case llama::PromptLayout::kDialogue: {
      // Only their number matters, and the roles: the parts are those behind them.
      std::vector<llama::ChatMessage> turns = {{std::string(kUser), ""}, {kAssistantRole, ""}};
      turns.insert(turns.end(), messages.begin(), messages.end());
      ATTNDB_ASSIGN_OR_RETURN(llama::PromptParts parts, engine_->ConversationParts(turns, 2));
      for (size_t i = 0; i < messages.size(); ++i) parts[i].content = messages[i].content;
      return parts;
    }
    case llama::PromptLayout::kDocument: {
      ATTNDB_ASSIGN_OR_RETURN(llama::PromptParts parts, engine_->ConversationParts(messages, 1));
      parts.insert(parts.begin(), {kQuestionGap, question});
      return parts;
    }
    case llama::PromptLayout::kRaw:
      break;
  }
  if (messages.size() > 1) {
    return Status::InvalidArgument("context '" + subject.context +
                                   "' is bare text, which takes one message, not " +
                                   std::to_string(messages.size()));
  }
  return llama::PromptParts{{"", question}};
}

Result<uint64_t> Prompts::SystemTokensOf(const Prompt& prompt, Messages messages,
                                         const Limits& limits) const {
  if (prompt.text.form != TextForm::kRaw) {
    return llama::SystemTokens(*engine_, prompt.text, prompt.tokens);
  }
  // Without a template it is a line, which the layout does not name.
  if (messages.front().role != kSystem) return 0;
  ATTNDB_ASSIGN_OR_RETURN(const Tokens tokens,
                          engine_->DocumentPrefix(messages.front().content, "", limits));
  return tokens.size();
}

}  // namespace attndb::server
