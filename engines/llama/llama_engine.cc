#include "engines/llama/llama_engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engines/llama/embedder.h"
#include "engines/llama/engine_impl.h"
#include "engines/llama/left_out.h"
#include "engines/llama/plain_context.h"
#include "engines/llama/rendered_prompt.h"
#include "engines/llama/reply.h"
#include "engines/llama/text_follow.h"
#include "engines/llama/text_join.h"

namespace attndb::llama {

LlamaEngine::LlamaEngine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LlamaEngine::LlamaEngine(LlamaEngine&&) noexcept = default;
LlamaEngine& LlamaEngine::operator=(LlamaEngine&&) noexcept = default;
LlamaEngine::~LlamaEngine() = default;

Result<LlamaEngine> LlamaEngine::Open(const std::string& model, const EngineOptions& options) {
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  ATTNDB_RETURN_IF_ERROR(impl->Open(model));
  return LlamaEngine(std::move(impl));
}

const ModelSpec& LlamaEngine::spec() const { return impl_->spec; }
const ModelInfo& LlamaEngine::info() const { return impl_->info; }
const EngineOptions& LlamaEngine::options() const { return impl_->options; }
ThreadReport LlamaEngine::threads() const { return impl_->threads(); }

Result<std::vector<TokenId>> LlamaEngine::Tokenize(std::string_view text, bool add_special,
                                                   bool parse_special,
                                                   const TokenizeLimits& limits) const {
  return impl_->tokenizer->Tokenize(text, add_special, parse_special, limits);
}

Result<std::string> LlamaEngine::Detokenize(std::span<const TokenId> tokens,
                                            bool render_special) const {
  return impl_->tokenizer->Detokenize(tokens, render_special);
}

Result<std::string> LlamaEngine::ReplyText(std::span<const TokenId> tokens) const {
  return impl_->tokenizer->ReplyText(tokens);
}

Result<std::string> LlamaEngine::ApplyTemplate(std::span<const ChatMessage> messages) const {
  return impl_->chat->Apply(messages);
}

Status LlamaEngine::CheckChatTemplate() const {
  return impl_->info.has_chat_template ? impl_->chat->Check() : Status::Ok();
}

Result<std::map<std::string, bool>> LlamaEngine::ChatTemplateCaps() const {
  return impl_->chat->Caps();
}

bool LlamaEngine::KnowsChatTemplate() const { return impl_->chat->IsKnown(); }
int64_t LlamaEngine::ChatTime() const { return impl_->chat->ChatTime(); }

Result<RenderedPrompt> LlamaEngine::Render(std::span<const ChatMessage> messages,
                                           const ChatOptions& options) const {
  return impl_->chat->Render(*impl_->tokenizer, messages, options);
}

Result<RenderedPrompt> LlamaEngine::RenderTokens(std::span<const TokenId> tokens) const {
  ATTNDB_RETURN_IF_ERROR(impl_->tokenizer->CheckIds(tokens));
  return RenderedTokens(*impl_->tokenizer, tokens);
}

Result<RenderedPrompt> LlamaEngine::RenderParts(std::span<const PromptPart> parts) const {
  return RenderedParts(*impl_->tokenizer, parts);
}

Result<ReadReply> LlamaEngine::ReadReplyText(const ReplyForm& form, std::string_view text,
                                             bool is_partial) const {
  return impl_->chat->ReadReplyText(form, text, is_partial);
}

Result<std::string> LlamaEngine::GrammarOfSchema(std::string_view json_schema) const {
  return impl_->chat->GrammarOfSchema(json_schema);
}

Result<JoinedText> LlamaEngine::Join(std::span<const TokenId> before,
                                     std::span<const PromptPart> parts,
                                     const JoinOptions& options) const {
  return JoinText(*impl_->tokenizer, before, parts, options);
}

Result<FollowedText> LlamaEngine::Follow(std::span<const TokenId> before,
                                         std::span<const PromptItem> items,
                                         const FollowOptions& options) const {
  return FollowText(*impl_->tokenizer, before, items, options);
}

Result<std::vector<TokenRange>> LlamaEngine::LeftOut(std::span<const TokenId> before,
                                                     std::span<const PromptItem> items) const {
  return LeftOutOfText(*impl_->tokenizer, before, items);
}

Result<std::vector<TokenId>> LlamaEngine::TokenizedAtOnce(std::span<const TokenId> tokens,
                                                          const TokenizeLimits& limits) const {
  return llama::TokenizedAtOnce(*impl_->tokenizer, tokens, limits);
}

Result<PromptParts> LlamaEngine::DocumentParts(std::string_view system, std::string_view document,
                                               int64_t now) const {
  return impl_->chat->DocumentParts(system, document, now);
}

Result<PromptParts> LlamaEngine::QuestionParts(std::string_view question, int64_t now) const {
  return impl_->chat->QuestionParts(question, now);
}

Result<PromptParts> LlamaEngine::NextTurnParts(std::string_view message, int64_t now) const {
  return impl_->chat->NextTurnParts(message, now);
}

Result<PromptParts> LlamaEngine::ConversationParts(std::span<const ChatMessage> messages,
                                                   size_t first, int64_t now) const {
  if (messages.empty() || first > messages.size()) {
    return Status::InvalidArgument("conversation of " + std::to_string(messages.size()) +
                                   " messages, expected " +
                                   std::to_string(std::max<size_t>(1, first)) + " or more");
  }
  return impl_->chat->ConversationParts(messages, first, now);
}

Result<std::vector<TokenId>> LlamaEngine::DocumentPrefix(std::string_view system,
                                                         std::string_view document,
                                                         const TokenizeLimits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const PromptParts parts, DocumentParts(system, document));
  ATTNDB_ASSIGN_OR_RETURN(JoinedText text, Join({}, parts, {.limits = limits}));
  return std::move(text.tokens);
}

Result<std::vector<TokenId>> LlamaEngine::FirstTurn(std::string_view system,
                                                    std::string_view message) const {
  ATTNDB_ASSIGN_OR_RETURN(PromptParts parts, DocumentParts(system, message));
  ATTNDB_ASSIGN_OR_RETURN(const PromptParts end, impl_->chat->ReplyParts());
  parts.insert(parts.end(), end.begin(), end.end());
  ATTNDB_ASSIGN_OR_RETURN(JoinedText text, Join({}, parts));
  return std::move(text.tokens);
}

Result<std::vector<TokenId>> LlamaEngine::Impl::BehindText(const PromptParts& parts,
                                                           const TokenizeLimits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const PromptParts any, chat->DocumentParts("", "x"));
  ATTNDB_ASSIGN_OR_RETURN(const JoinedText before, JoinText(*tokenizer, {}, any, {}));
  ATTNDB_ASSIGN_OR_RETURN(const JoinedText all, JoinText(*tokenizer, before.tokens, parts,
                                                         {.keeps_before = true, .limits = limits}));
  const auto begin = all.tokens.begin() + static_cast<std::ptrdiff_t>(before.tokens.size());
  return std::vector<TokenId>(begin, all.tokens.end());
}

Result<std::vector<TokenId>> LlamaEngine::QuestionSuffix(std::string_view question) const {
  ATTNDB_ASSIGN_OR_RETURN(const PromptParts parts, QuestionParts(question));
  return impl_->BehindText(parts);
}

Result<std::vector<TokenId>> LlamaEngine::NextTurn(std::string_view message) const {
  ATTNDB_ASSIGN_OR_RETURN(const PromptParts parts, NextTurnParts(message));
  return impl_->BehindText(parts);
}

Result<std::vector<TokenId>> LlamaEngine::Conversation(std::span<const ChatMessage> messages,
                                                       size_t first,
                                                       const TokenizeLimits& limits) const {
  ATTNDB_ASSIGN_OR_RETURN(const PromptParts parts, ConversationParts(messages, first));
  if (first > 0) return impl_->BehindText(parts, limits);
  ATTNDB_ASSIGN_OR_RETURN(JoinedText text, Join({}, parts, {.limits = limits}));
  return std::move(text.tokens);
}

Status LlamaEngine::Prefill(Session& session, std::span<const TokenId> tokens,
                            const PrefillOptions& options) {
  return impl_->Prefill(session, tokens, options);
}

Status LlamaEngine::Decode(Session& session, TokenId token, const WindowOptions& window) {
  return impl_->Decode(session, token, window);
}

Status LlamaEngine::DecodeBatch(std::span<const BatchEntry> entries,
                                std::vector<Status>* statuses) {
  return impl_->DecodeBatch(entries, statuses);
}

Result<std::span<const float>> LlamaEngine::Logits(size_t entry) const {
  return impl_->Logits(entry);
}

Result<Generation> LlamaEngine::Generate(Session& session, std::span<const TokenId> rest,
                                         const GenerateOptions& options) {
  const uint64_t num_tokens = session.num_tokens();
  Result<Generation> result = impl_->Generate(session, rest, options);
  if (!result.ok() && session.num_tokens() != num_tokens) {
    ATTNDB_RETURN_IF_ERROR(session.Crop(num_tokens));
  }
  return result;
}

Result<std::unique_ptr<Reply>> LlamaEngine::BeginReply(const GenerateOptions& options) const {
  return impl_->BeginReply(options);
}

std::shared_ptr<const PreparedReply> LlamaEngine::PrepareReply(
    const GenerateOptions& options) const {
  return llama::PrepareReply(options, *impl_->tokenizer);
}

Status LlamaEngine::CheckGrammar(const ReplyConstraint& constraint) const {
  return impl_->CheckGrammar(constraint);
}

bool LlamaEngine::IsEndOfGeneration(TokenId token) const {
  return impl_->tokenizer->IsEndOfGeneration(token);
}

EngineCacheUse LlamaEngine::engine_cache() const { return impl_->CacheUse(); }

Result<std::unique_ptr<PlainContext>> LlamaEngine::OpenPlain(const PlainOptions& options) const {
  return impl_->OpenPlain(options);
}

Result<std::unique_ptr<Embedder>> LlamaEngine::OpenEmbedder(uint64_t max_tokens) const {
  return impl_->OpenEmbedder(max_tokens);
}

uint64_t LlamaEngine::EmbedderBytes(uint64_t max_tokens) const {
  return impl_->EmbedderBytes(max_tokens);
}

}  // namespace attndb::llama
