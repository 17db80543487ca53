#include "server/batch/prompts.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engines/llama/prompt_layout.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::string_view kSystem = "system";
constexpr std::string_view kContextRole = "context";  // What a prompt continues: its digest.
constexpr std::string_view kUser = "user";
const std::string kQuestionGap = "\n\n";  // As LlamaEngine::QuestionSuffix has it.

std::vector<TokenId> Joined(std::vector<TokenId> front, std::span<const TokenId> back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

std::vector<llama::ChatMessage> Joined(std::vector<llama::ChatMessage> front,
                                       std::span<const llama::ChatMessage> back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

}  // namespace

Result<Prompt> Prompts::OfText(const std::string& tenant, const std::string& context,
                               const std::string& text) const {
  ATTNDB_ASSIGN_OR_RETURN(
      const Tokens tokens,
      engine_->Tokenize(text, /*add_special=*/context.empty(), /*parse_special=*/false));
  return Behind(tenant, context, tokens);
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
  return Behind(tenant, context, tokens);
}

Result<Prompt> Prompts::Behind(const std::string& tenant, const std::string& context,
                               const Tokens& tokens) const {
  Prompt prompt;
  if (!context.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(prompt.tokens, conversations_->TokensOf(tenant, context));
  }
  prompt.tokens = Joined(std::move(prompt.tokens), tokens);
  prompt.num_last = tokens.size();
  return prompt;
}

Result<Prompt> Prompts::OfChat(const std::string& tenant, const std::string& context,
                               Messages messages) const {
  ATTNDB_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(tenant, context));
  return ChatAbout(tenant, subject, messages);
}

Result<Prompts::Subject> Prompts::SubjectOf(const std::string& tenant,
                                            const std::string& context) const {
  Subject subject;
  if (context.empty()) return subject;
  subject.context = context;
  ATTNDB_ASSIGN_OR_RETURN(subject.tokens, conversations_->TokensOf(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(std::string digest, DigestOf(subject.tokens));
  subject.front.push_back({std::string(kContextRole), std::move(digest)});
  return subject;
}

Result<Prompt> Prompts::ChatAbout(const std::string& tenant, const Subject& subject,
                                  Messages messages) const {
  Prompt prompt;
  const std::vector<llama::ChatMessage> all = Joined(subject.front, messages);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> digests, DigestsOf(all));
  prompt.digest = digests.back();
  ATTNDB_ASSIGN_OR_RETURN(Remembered known, conversations_->Recall(tenant, all, subject.tokens));
  if (known.num_messages > 0) {
    const size_t num_known = known.num_messages - subject.front.size();
    ATTNDB_ASSIGN_OR_RETURN(const Tokens rest, engine_->Conversation(messages, num_known));
    prompt.tokens = Joined(std::move(known.tokens), rest);
  } else if (subject.context.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(prompt.tokens, engine_->Conversation(messages));
  } else {
    ATTNDB_ASSIGN_OR_RETURN(prompt.tokens, AskContext(subject, messages));
  }
  ATTNDB_ASSIGN_OR_RETURN(const Tokens last, engine_->Conversation(messages, messages.size() - 1));
  prompt.num_last = last.size();
  ATTNDB_ASSIGN_OR_RETURN(prompt.num_system, SystemTokensOf(messages));
  return prompt;
}

Result<Prompt> Prompts::OfReply(const std::string& tenant, const std::string& context,
                                Messages messages) const {
  if (messages.size() < 2) return Status::InvalidArgument("messages[0] is a reply to nothing");
  ATTNDB_ASSIGN_OR_RETURN(const Subject subject, SubjectOf(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const Prompt asked,
                          ChatAbout(tenant, subject, messages.first(messages.size() - 1)));
  std::vector<llama::ChatMessage> all = Joined(subject.front, messages);
  all.push_back({std::string(kUser), ""});  // What a reply is recalled for.
  ATTNDB_ASSIGN_OR_RETURN(Remembered known, conversations_->Recall(tenant, all, subject.tokens));
  const bool is_known = known.num_messages + 1 == all.size() &&
                        known.tokens.size() > asked.tokens.size() &&
                        std::equal(asked.tokens.begin(), asked.tokens.end(), known.tokens.begin());
  if (!is_known) {
    ATTNDB_ASSIGN_OR_RETURN(const Tokens words,
                            engine_->Tokenize(messages.back().content, false, false));
    known.tokens = Joined(asked.tokens, words);
  }
  Prompt prompt;
  prompt.num_last = known.tokens.size() - asked.tokens.size();
  prompt.tokens = std::move(known.tokens);
  return prompt;
}

Result<std::vector<TokenId>> Prompts::AskContext(const Subject& subject, Messages messages) const {
  if (messages.front().role != kUser) {
    return Status::InvalidArgument("messages[0] is of the " + messages.front().role +
                                   ", expected a question of the user: context '" +
                                   subject.context + "' has its own beginning");
  }
  Tokens tokens = subject.tokens;
  ATTNDB_ASSIGN_OR_RETURN(const llama::PromptLayout layout, llama::LayoutOf(*engine_, tokens));
  const std::string& question = messages.front().content;
  switch (layout) {
    case llama::PromptLayout::kDialogue: {
      std::vector<llama::ChatMessage> turns = {{std::string(kUser), ""}, {kAssistantRole, ""}};
      turns.insert(turns.end(), messages.begin(), messages.end());
      ATTNDB_ASSIGN_OR_RETURN(const Tokens rest, engine_->Conversation(turns, 2));
      return Joined(std::move(tokens), rest);
    }
    case llama::PromptLayout::kDocument: {
      ATTNDB_ASSIGN_OR_RETURN(const Tokens asked,
                              engine_->Tokenize(kQuestionGap + question, false, false));
      ATTNDB_ASSIGN_OR_RETURN(const Tokens rest, engine_->Conversation(messages, 1));
      return Joined(Joined(std::move(tokens), asked), rest);
    }
    case llama::PromptLayout::kRaw:
      break;
  }
  if (messages.size() > 1) {
    return Status::InvalidArgument("context '" + subject.context +
                                   "' is bare text, which takes one message, not " +
                                   std::to_string(messages.size()));
  }
  ATTNDB_ASSIGN_OR_RETURN(const Tokens asked, engine_->Tokenize(question, false, false));
  return Joined(std::move(tokens), asked);
}

Result<uint64_t> Prompts::SystemTokensOf(Messages messages) const {
  if (messages.front().role != kSystem) return 0;
  ATTNDB_ASSIGN_OR_RETURN(const Tokens tokens,
                          engine_->DocumentPrefix(messages.front().content, ""));
  return tokens.size();
}

}  // namespace attndb::server
