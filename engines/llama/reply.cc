#include "engines/llama/reply.h"

#include <utility>

namespace attndb::llama {

Reply::Reply(GenerateOptions options, const Tokenizer* tokenizer, TokenSampler sampler)
    : options_(std::move(options)),
      tokenizer_(tokenizer),
      sampler_(std::move(sampler)),
      stream_(options_.stop) {}

void Reply::SeePrompt(std::span<const TokenId> tokens) {
  for (const TokenId token : tokens) sampler_.Accept(token);
}

std::optional<FinishReason> Reply::Next(std::span<const float> logits) {
  const TokenId token = sampler_.Sample(logits);
  if (!options_.ignore_end && tokenizer_->IsEndOfGeneration(token)) return FinishReason::kEnd;
  const std::string piece = tokenizer_->present() ? tokenizer_->Piece(token) : std::string();
  if (options_.on_tokens) Note(token, piece, logits);
  sampler_.Accept(token);
  tokens_.push_back(token);
  if (!Show(stream_.Push(piece))) return FinishReason::kCancelled;
  if (stream_.stopped()) return FinishReason::kStop;
  if (tokens_.size() >= options_.max_tokens) return FinishReason::kMaxTokens;
  return std::nullopt;
}

void Reply::Note(TokenId token, std::string piece, std::span<const float> logits) {
  const auto& [num_likeliest, after_samplers] = options_.chances;
  const TokenChances chances = after_samplers ? sampler_.Chances(token, num_likeliest)
                                              : LogChances(logits, token, num_likeliest);
  ReplyToken noted = {.token = token, .chance = chances.chosen, .text = std::move(piece)};
  for (const TokenChance& chance : chances.likeliest) noted.likeliest.push_back(Likely(chance));
  noted_.Add(std::move(noted));
}

LikelyToken Reply::Likely(const TokenChance& chance) const {
  LikelyToken likely = {.token = chance.token, .chance = chance.value};
  if (!tokenizer_->present()) return likely;
  likely.text = tokenizer_->Piece(chance.token);
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
