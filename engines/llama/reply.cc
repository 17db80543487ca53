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
  sampler_.Accept(token);
  tokens_.push_back(token);
  if (tokenizer_->present()) {
    if (!Show(stream_.Push(tokenizer_->Piece(token)))) return FinishReason::kCancelled;
    if (stream_.stopped()) return FinishReason::kStop;
  }
  if (tokens_.size() >= options_.max_tokens) return FinishReason::kMaxTokens;
  return std::nullopt;
}

std::string Reply::Finish() {
  Show(stream_.Finish());
  return stream_.text();
}

bool Reply::Show(const std::string& piece) const {
  return piece.empty() || !options_.on_piece || options_.on_piece(piece);
}

}  // namespace attndb::llama
