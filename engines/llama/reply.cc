#include "engines/llama/reply.h"

#include <algorithm>
#include <utility>

#include "engines/llama/chat/chat_limits.h"

namespace attndb::llama {

namespace {

// The tokens of a mark. Some tokenizers set a space before each text.
std::vector<TokenId> MarkTokens(const std::string& mark, const Tokenizer& tokenizer) {
  auto tokens = tokenizer.Tokenize(mark, /*add_special=*/false, /*parse_special=*/true);
  if (!tokens.ok()) return {};
  if (tokens->size() > 1 && !mark.starts_with(' ') && tokenizer.Piece(tokens->front()) == " ") {
    tokens->erase(tokens->begin());
  }
  return *std::move(tokens);
}

// Empty: the marks are no text of the vocabulary.
std::vector<TokenId> EndTokens(const ThinkingOptions& thinking, const Tokenizer& tokenizer) {
  const std::vector<TokenId> mark = MarkTokens(thinking.ends.front(), tokenizer);
  auto tokens = tokenizer.Tokenize(thinking.message, /*add_special=*/false,
                                   /*parse_special=*/false);
  if (!tokens.ok() || mark.empty()) return {};
  tokens->insert(tokens->end(), mark.begin(), mark.end());
  return *std::move(tokens);
}

std::optional<ThinkingTracker> TrackerFor(const GenerateOptions& options,
                                          const Tokenizer& tokenizer) {
  const ThinkingOptions& thinking = options.thinking;
  const bool is_lazy = options.constraint && options.constraint->is_lazy;
  if (thinking.start.empty() || thinking.ends.empty() || !tokenizer.present()) return std::nullopt;
  // A grammar that is in force from the first token on has the thinking in front, or takes the mark
  // as a text.
  ThinkingTracker tracker({.start = thinking.start,
                           .ends = thinking.ends,
                           .only_in_front = options.constraint && !is_lazy},
                          thinking.max_tokens, EndTokens(thinking, tokenizer));
  const auto before =
      tokenizer.Tokenize(thinking.before, /*add_special=*/false, /*parse_special=*/true);
  if (!before.ok()) {
    tracker.TakeBefore(thinking.before);  // Its tokens do not count.
    return tracker;
  }
  for (const TokenId token : *before) tracker.TakeBefore(tokenizer.Piece(token, true));
  return tracker;
}

}  // namespace

std::shared_ptr<const PreparedReply> PrepareReply(const GenerateOptions& options,
                                                  const Tokenizer& tokenizer) {
  std::unordered_set<TokenId> shown;
  for (const std::string& name : options.shown_tokens) {
    const auto tokens = tokenizer.Tokenize(name, /*add_special=*/false, /*parse_special=*/true);
    if (tokens.ok() && tokens->size() == 1) shown.insert(tokens->front());
  }
  return std::make_shared<const PreparedReply>(
      PreparedReply{.thinking = TrackerFor(options, tokenizer), .shown = std::move(shown)});
}

Reply::Reply(GenerateOptions options, const Tokenizer* tokenizer, TokenSampler sampler,
             std::unique_ptr<GrammarJob> grammar)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      sampler_(std::move(sampler)),
      grammar_(std::move(grammar)),
      prepared_(options_.prepared != nullptr ? options_.prepared
                                             : PrepareReply(options_, *tokenizer)),
      thinking_(prepared_->thinking),
      stream_(options_.stop) {}

void Reply::EndThinking() {
  if (thinking_) thinking_->End();
}

std::optional<uint64_t> Reply::num_thinking_tokens() const {
  if (!thinking_) return std::nullopt;
  return thinking_->num_thinking_tokens();
}

void Reply::SeePrompt(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) sampler_.Accept(token);
}

Status Reply::AwaitGrammar() { return grammar_ == nullptr ? Status::Ok() : grammar_->AwaitStart(); }

Result<std::optional<FinishReason>> Reply::Next(std::span<const float> logits) {
  ATTNDB_ASSIGN_OR_RETURN(ReplyStep step, Propose(logits));
  // The job ends by itself long before.
  while (!step.is_settled) {
    ATTNDB_ASSIGN_OR_RETURN(step, SettleIn(kChatWaitMs));
  }
  return step.finish;
}

Result<ReplyStep> Reply::Propose(std::span<const float> logits) {
  const TokenId token = NextToken(logits);
  const bool is_free = grammar_ == nullptr || (is_lazy() && thinking_ && thinking_->thinks());
  if (is_free) return ReplyStep{.is_settled = true, .finish = Take(token, logits)};
  logits_.assign(logits.begin(), logits.end());
  proposed_ = token;
  grammar_->Ask(token);
  return ReplyStep();
}

TokenId Reply::NextToken(std::span<const float> logits) {
  const std::optional<TokenId> forced = thinking_ ? thinking_->forced() : std::nullopt;
  if (!forced) return sampler_.Sample(logits);
  // A token is drawn all the same, as in llama-server: the draws behind it stay the same.
  static_cast<void>(sampler_.SampleOf(logits, [&](TokenId token) { return token == *forced; }));
  return *forced;
}

Result<ReplyStep> Reply::Settle() { return SettleIn(0); }

Result<ReplyStep> Reply::SettleIn(int wait_ms) {
  ATTNDB_ASSIGN_OR_RETURN(const std::optional<GrammarVerdict> verdict, grammar_->Take(wait_ms));
  if (!verdict) return ReplyStep();
  ATTNDB_ASSIGN_OR_RETURN(const TokenId token, Chosen(*verdict));
  return ReplyStep{.is_settled = true, .finish = Take(token, logits_)};
}

Result<TokenId> Reply::Chosen(const GrammarVerdict& verdict) {
  in_force_ = verdict.in_force;
  if (verdict.is_allowed) return proposed_;
  if (thinking_ && thinking_->forced()) thinking_->GiveUp();
  const std::optional<TokenId> token =
      sampler_.SampleOf(logits_, [&verdict](TokenId allowed) { return verdict.Allows(allowed); });
  if (!token) {
    return Status::InvalidArgument("the grammar allows no token that may be chosen behind the " +
                                   std::to_string(tokens_.size()) + " tokens of the reply");
  }
  grammar_->Accept(*token);
  return *token;
}

std::optional<FinishReason> Reply::Take(TokenId token, std::span<const float> logits) {
  if (!options_.ignore_end && tokenizer_->IsEndOfGeneration(token)) {
    end_token_ = token;
    return FinishReason::kEnd;
  }
  const std::string piece = PieceOf(token);
  if (options_.on_tokens) Note(token, piece, logits);
  sampler_.Accept(token);
  tokens_.push_back(token);
  Follow(token);
  if (!Show(stream_.Push(piece))) return FinishReason::kCancelled;
  if (stream_.stopped()) return FinishReason::kStop;
  if (tokens_.size() >= options_.max_tokens) return FinishReason::kMaxTokens;
  return std::nullopt;
}

void Reply::Follow(TokenId token) {
  if (!thinking_) return;
  const bool thought = thinking_->thinks();
  thinking_->Take(tokenizer_->Piece(token, /*render_special=*/true), !(is_lazy() && in_force_));
  if (!is_lazy() || !thought || thinking_->thinks()) return;
  const size_t num_unknown = std::min(thinking_->num_end_tokens(), tokens_.size());
  for (const TokenId unknown : std::span(tokens_).last(num_unknown)) grammar_->Accept(unknown);
}

std::string Reply::PieceOf(TokenId token) const {
  if (!tokenizer_->present()) return "";
  return tokenizer_->Piece(token, prepared_->shown.contains(token));
}

void Reply::Note(TokenId token, std::string piece, std::span<const float> logits) {
  const auto& [num_likeliest, after_samplers, ids_only] = options_.chances;
  TokenChances chances;
  if (!ids_only) {
    chances = after_samplers ? sampler_.Chances(token, num_likeliest)
                             : LogChances(logits, token, num_likeliest);
  }
  ReplyToken noted = {.token = token, .chance = chances.chosen, .text = std::move(piece)};
  for (const TokenChance& chance : chances.likeliest) noted.likeliest.push_back(Likely(chance));
  noted_.Add(std::move(noted));
}

LikelyToken Reply::Likely(const TokenChance& chance) const {
  LikelyToken likely = {.token = chance.token, .chance = chance.value};
  if (!tokenizer_->present()) return likely;
  likely.text = PieceOf(chance.token);
  likely.is_named = likely.text.empty();
  if (!likely.is_named) return likely;
  Result<std::string> name = tokenizer_->Detokenize({&chance.token, 1}, /*render_special=*/true);
  if (name.ok()) likely.text = *std::move(name);
  return likely;
}

std::string Reply::Finish() {
  const std::string rest = stream_.Finish();
  // The rest may say U+FFFD in place of bytes: its length is not that of the tokens.
  if (options_.on_tokens) GiveOut(noted_.Finish(stream_.stopped()));
  if (!rest.empty() && options_.on_piece) options_.on_piece(rest);
  return stream_.text();
}

bool Reply::Show(const std::string& piece) {
  if (piece.empty()) return true;
  if (options_.on_tokens) GiveOut(noted_.Show(piece.size()));
  return !options_.on_piece || options_.on_piece(piece);
}

void Reply::GiveOut(std::vector<ReplyToken> tokens) const {
  if (!tokens.empty()) options_.on_tokens(std::move(tokens));
}

}  // namespace attndb::llama
