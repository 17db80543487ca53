#include "engines/llama/tokenizer.h"

#include <algorithm>
#include <array>
#include <exception>
#include <limits>
#include <new>
#include <string>

namespace attndb::llama {
namespace {

constexpr size_t kTextBytesMax = size_t{1} << 30;  // llama.cpp counts in int32_t.

// False also for a vocabulary that can't hold a letter.
bool SetsSpace(const llama_vocab* vocab) {
  try {
    return AddsSpace(vocab);
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

Tokenizer::Tokenizer(const llama_vocab* vocab)
    : vocab_(vocab),
      present_(llama_vocab_type(vocab) != LLAMA_VOCAB_TYPE_NONE),
      adds_space_(present_ && SetsSpace(vocab)),
      vocab_size_(static_cast<uint32_t>(llama_vocab_n_tokens(vocab))) {}

Status Tokenizer::CheckPresent() const {
  if (present_) return Status::Ok();
  return Status::Unsupported("the model file has no tokenizer");
}

Result<std::vector<TokenId>> Tokenizer::Tokenize(std::string_view text, bool add_special,
                                                 bool parse_special,
                                                 const TokenizeLimits& limits) const {
  ATTNDB_RETURN_IF_ERROR(CheckPresent());
  if (text.size() > kTextBytesMax) {
    return Status::InvalidArgument("text of " + std::to_string(text.size()) +
                                   " bytes, at most 1 GiB can be tokenized");
  }
  const bool has_pieces = !parse_special && text.size() > limits.piece_bytes;
  const bool has_long_run = !has_pieces && HasLongRun(text);
  if (parse_special && has_long_run) {
    return Status::InvalidArgument("text with a word or a run of spaces of more than " +
                                   std::to_string(kMostRunChars) +
                                   " characters, where control tokens are looked for");
  }
  try {
    if (has_pieces || has_long_run) {
      return TryTokenizePieces(text, add_special, limits);
    }
    return TryTokenize(text, add_special, parse_special);
  } catch (const std::bad_alloc&) {
    return Status::ResourceExhausted("memory for the tokens of a text of " +
                                     std::to_string(text.size()) + " bytes");
  } catch (const std::exception& error) {  // A byte of the text that no token stands for.
    return Status::InvalidArgument(std::string("the model's vocabulary can't hold the text: ") +
                                   error.what());
  }
}

bool Tokenizer::HasLongRun(std::string_view text) const {
  return llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_BPE && EndOfShortRuns(text, 0) < text.size();
}

Result<std::vector<TokenId>> Tokenizer::TryTokenizePieces(std::string_view text, bool add_special,
                                                          const TokenizeLimits& limits) const {
  // What llama.cpp sets before and behind all of a text.
  ATTNDB_ASSIGN_OR_RETURN(std::vector<TokenId> tokens, TryTokenize("", add_special, false));
  const bool has_end = !tokens.empty() && add_special && llama_vocab_get_add_eos(vocab_);
  if (has_end) tokens.pop_back();
  for (size_t begin = 0; begin < text.size();) {
    const size_t least = std::min(begin + limits.piece_bytes, text.size());
    const size_t end = cuts().Next(text, begin, least);
    const std::vector<TokenId> piece = cuts().IdsOf(text, begin, end);
    tokens.insert(tokens.end(), piece.begin(), piece.end());
    begin = end;
    if (tokens.size() > limits.max_tokens) return tokens;
    if (limits.progress && !limits.progress(begin, text.size())) {
      return Status::Cancelled("stopped after " + std::to_string(begin) + " of " +
                               std::to_string(text.size()) + " bytes of the text");
    }
  }
  if (has_end) tokens.push_back(llama_vocab_eos(vocab_));
  return tokens;
}

Result<std::vector<TokenId>> Tokenizer::TryTokenize(std::string_view text, bool add_special,
                                                    bool parse_special) const {
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
  std::string text;
  if (!adds_space_) {
    ATTNDB_RETURN_IF_ERROR(AppendText(tokens, render_special, &text));
    return text;
  }
  for (size_t begin = 0; begin < tokens.size();) {
    size_t end = begin;
    while (end < tokens.size() && !IsBetweenTexts(tokens, end)) ++end;
    ATTNDB_RETURN_IF_ERROR(AppendText(tokens.subspan(begin, end - begin), render_special, &text));
    begin = end;
    while (end < tokens.size() && IsBetweenTexts(tokens, end)) ++end;
    ATTNDB_RETURN_IF_ERROR(AppendText(tokens.subspan(begin, end - begin), render_special, &text));
    begin = end;
  }
  return text;
}

Status Tokenizer::AppendText(std::span<const TokenId> tokens, bool render_special,
                             std::string* text) const {
  const size_t before = text->size();
  text->resize(before + tokens.size() * 8 + 16);
  const auto detokenize = [&] {
    return llama_detokenize(vocab_, tokens.data(), static_cast<int32_t>(tokens.size()),
                            text->data() + before, static_cast<int32_t>(text->size() - before),
                            false, render_special);
  };
  int32_t length = detokenize();
  if (length < 0) {
    text->resize(before + static_cast<size_t>(-length));
    length = detokenize();
  }
  if (length < 0) return Status::Internal("llama_detokenize failed");
  text->resize(before + static_cast<size_t>(length));
  return Status::Ok();
}

Result<std::string> Tokenizer::ReplyText(std::span<const TokenId> tokens) const {
  ATTNDB_RETURN_IF_ERROR(CheckPresent());
  ATTNDB_RETURN_IF_ERROR(CheckIds(tokens));
  std::string text;
  for (const TokenId token : tokens) text += Piece(token);
  return text;
}

std::string Tokenizer::Piece(TokenId token, bool render_special) const {
  std::array<char, 64> buffer;
  const auto capacity = static_cast<int32_t>(buffer.size());
  const int32_t length =
      llama_token_to_piece(vocab_, token, buffer.data(), capacity, /*lstrip=*/0, render_special);
  if (length >= 0) return {buffer.data(), static_cast<size_t>(length)};
  std::string text(static_cast<size_t>(-length), '\0');
  llama_token_to_piece(vocab_, token, text.data(), -length, /*lstrip=*/0, render_special);
  return text;
}

std::vector<TokenId> Tokenizer::BeginOfText() const {
  if (!present_ || !llama_vocab_get_add_bos(vocab_)) return {};
  return {llama_vocab_bos(vocab_)};
}

bool Tokenizer::IsEndOfGeneration(TokenId token) const {
  return present_ && llama_vocab_is_eog(vocab_, token);
}

std::span<const TokenId> Tokenizer::Suppressed() const {
  int32_t count = 0;
  const llama_token* const tokens = llama_vocab_get_suppress_tokens(vocab_, &count);
  return {tokens, static_cast<size_t>(count)};
}

bool Tokenizer::IsControl(TokenId token) const {
  return (llama_vocab_get_attr(vocab_, token) & LLAMA_TOKEN_ATTR_CONTROL) != 0;
}

bool Tokenizer::IsBetweenTexts(std::span<const TokenId> tokens, size_t idx) const {
  if (IsControl(tokens[idx])) return true;
  return idx == 0 && llama_vocab_get_add_bos(vocab_) && tokens[0] == llama_vocab_bos(vocab_);
}

bool Tokenizer::StripsLeft(TokenId token) const {
  return (llama_vocab_get_attr(vocab_, token) & LLAMA_TOKEN_ATTR_LSTRIP) != 0;
}

bool Tokenizer::StripsRight(TokenId token) const {
  return (llama_vocab_get_attr(vocab_, token) & LLAMA_TOKEN_ATTR_RSTRIP) != 0;
}

const SpecialTokens& Tokenizer::special() const {
  std::call_once(special_made_, [this] {
    std::vector<SpecialToken> tokens;
    for (TokenId id = 0; id < static_cast<TokenId>(vocab_size_); ++id) {
      constexpr int kSpecial =
          LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_UNKNOWN;
      if ((llama_vocab_get_attr(vocab_, id) & kSpecial) == 0) continue;
      tokens.push_back({llama_vocab_get_text(vocab_, id), id, IsControl(id)});
    }
    special_ = std::make_unique<SpecialTokens>(std::move(tokens));
  });
  return *special_;
}

const TextCuts& Tokenizer::cuts() const {
  std::call_once(cuts_made_, [this] { cuts_ = std::make_unique<const TextCuts>(vocab_); });
  return *cuts_;
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
