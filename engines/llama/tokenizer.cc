#include "engines/llama/tokenizer.h"

#include <array>
#include <exception>
#include <limits>
#include <string>

namespace attndb::llama {
namespace {

constexpr size_t kTextBytesMax = size_t{1} << 30;  // llama.cpp counts in int32_t.

}  // namespace

Tokenizer::Tokenizer(const llama_vocab* vocab)
    : vocab_(vocab),
      present_(llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_NONE),
      vocab_size_(static_cast<uint32_t>(llama_vocab_n_tokens(vocab))) {}

Status Tokenizer::CheckPresent() const {
  if (present_) return Status::Ok();
  return Status::Unsupported("the model file has no tokenizer");
}

Result<std::vector<TokenId>> Tokenizer::Tokenize(std::string_view text, bool add_special,
                                                 bool parse_special) const {
  ATTNDB_RETURN_IF_ERROR(CheckPresent());
  try {
    return TryTokenize(text, add_special, parse_special);
  } catch (const std::exception& error) {  // A byte of the text that no token stands for.
    return Status::InvalidArgument(std::string("the model's vocabulary can't hold the text: ") +
                                   error.what());
  }
}

Result<std::vector<TokenId>> Tokenizer::TryTokenize(std::string_view text, bool add_special,
                                                    bool parse_special) const {
  if (text.size() > kTextBytesMax) {
    return Status::InvalidArgument("text of " + std::to_string(text.size()) +
                                   " bytes, at most 1 GiB can be tokenized at once");
  }
  // A token is a byte at least, but for the special ones at both ends.
  std::vector<TokenId> tokens(text.size() + 2);
  const auto tokenize = [&] {
    return llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                          static_cast<int32_t>(tokens.size()), add_special, parse_special);
  };
  int32_t count = tokenize();
  if (count == std::numeric_limits<int32_t>::min()) {
    return Status::InvalidArgument("text with more tokens than llama.cpp can count");
  }
  if (count < 0) {
    tokens.resize(static_cast<size_t>(-count));
    count = tokenize();
  }
  if (count < 0) return Status::Internal("llama_tokenize failed");
  tokens.resize(static_cast<size_t>(count));
  tokens.shrink_to_fit();
  return tokens;
}

Result<std::string> Tokenizer::Detokenize(std::span<const TokenId> tokens,
                                          bool render_special) const {
  ATTNDB_RETURN_IF_ERROR(CheckPresent());
  ATTNDB_RETURN_IF_ERROR(CheckIds(tokens));
  std::string text(tokens.size() * 8 + 16, '\0');
  const auto detokenize = [&] {
    return llama_detokenize(vocab_, tokens.data(), static_cast<int32_t>(tokens.size()), text.data(),
                            static_cast<int32_t>(text.size()), false, render_special);
  };
  int32_t length = detokenize();
  if (length < 0) {
    text.resize(static_cast<size_t>(-length));
    length = detokenize();
  }
  if (length < 0) return Status::Internal("llama_detokenize failed");
  text.resize(static_cast<size_t>(length));
  return text;
}

std::string Tokenizer::Piece(TokenId token) const {
  std::array<char, 64> buffer;
  const auto capacity = static_cast<int32_t>(buffer.size());
  const int32_t length =
      llama_token_to_piece(vocab_, token, buffer.data(), capacity, /*lstrip=*/0, false);
  if (length >= 0) return {buffer.data(), static_cast<size_t>(length)};
  std::string text(static_cast<size_t>(-length), '\0');
  llama_token_to_piece(vocab_, token, text.data(), -length, /*lstrip=*/0, false);
  return text;
}

std::vector<TokenId> Tokenizer::BeginOfText() const {
  if (!present_ || !llama_vocab_get_add_bos(vocab_)) return {};
  return {llama_vocab_bos(vocab_)};
}

bool Tokenizer::IsEndOfGeneration(TokenId token) const {
  return present_ && llama_vocab_is_eog(vocab_, token);
}

Status Tokenizer::CheckIds(std::span<const TokenId> tokens) const {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= vocab_size_) {
      return Status::InvalidArgument("token " + std::to_string(i) + " is id " +
                                     std::to_string(tokens[i]) + ", the vocabulary has ids 0 to " +
                                     std::to_string(vocab_size_ - 1));
    }
  }
  return Status::Ok();
}

}  // namespace attndb::llama
