#include "server/batch/edits.h"

#include <algorithm>
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

// Where a token stands once the ranges are gone. In a range: where that was.
uint64_t MovedUp(uint64_t token, std::span<const TokenRange> left_out) {
  uint64_t num_gone = 0;
  for (const TokenRange& range : left_out) {
    if (token <= range.begin) break;
    num_gone += std::min(token, range.end) - range.begin;
  }
  return token - num_gone;
}

}  // namespace

std::vector<TokenId> Without(std::span<const TokenId> tokens,
                             std::span<const TokenRange> left_out) {
  std::vector<TokenId> kept;
  uint64_t begin = 0;
  const auto keep = [&](uint64_t end) {
    const std::span<const TokenId> part = Part(tokens, {begin, end});
    kept.insert(kept.end(), part.begin(), part.end());
  };
  for (const TokenRange& range : left_out) {
    keep(range.begin);
    begin = range.end;
  }
  keep(tokens.size());
  return kept;
}

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
}

void TakeOutPieces(KeptText* kept) {
  const std::vector<TokenRange> left_out = std::exchange(kept->left_out, {});
  if (left_out.empty()) return;
  kept->tokens = Without(kept->tokens, left_out);
  for (TextMessage& message : kept->text.messages) {
    message.tokens = {MovedUp(message.tokens.begin, left_out),
                      MovedUp(message.tokens.end, left_out)};
  }
  std::erase_if(kept->text.messages, [](const TextMessage& message) {
    return message.tokens.begin == message.tokens.end;
  });
}

}  // namespace attndb::server
