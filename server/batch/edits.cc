#include "server/batch/edits.h"

#include <cstddef>
#include <utility>

namespace attndb::server {
namespace {

std::span<const TokenId> Part(std::span<const TokenId> tokens, const TokenRange& range) {
  return tokens.subspan(range.begin, range.end - range.begin);
}

// Where a token stands once the ranges are back.
uint64_t Moved(uint64_t token, std::span<const TokenRange> left_out) {
  for (const TokenRange& range : left_out) {
    if (token < range.begin) break;
    token += range.end - range.begin;
  }
  return token;
}

}  // namespace

void PutBack(std::span<const TokenId> stored, std::span<const TokenRange> left_out,
             std::vector<TokenId>* tokens) {
  for (const TokenRange& range : left_out) {
    const std::span<const TokenId> part = Part(stored, range);
    tokens->insert(tokens->begin() + static_cast<std::ptrdiff_t>(range.begin), part.begin(),
                   part.end());
  }
}

void PutBack(std::span<const TokenRange> left_out, TextLayout* text) {
  for (TextMessage& message : text->messages) {
    TokenRange& tokens = message.tokens;  // Not empty.
    tokens = {Moved(tokens.begin, left_out), Moved(tokens.end - 1, left_out) + 1};
  }
  text->left_out.assign(left_out.begin(), left_out.end());
}

void TakeOutPieces(KeptText* kept) {
  const std::vector<TokenRange> left_out = std::exchange(kept->left_out, {});
  llama::TakeOut(left_out, &kept->tokens, &kept->text);
}

}  // namespace attndb::server
