#include "engines/llama/text_cuts.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace attndb::llama {
namespace {

constexpr size_t kWindowBytes = 512;  // Tokenized on each side of a cut, to see.
constexpr int kMaxTries = 16;         // Places that may turn out to be none, before it gives up.

// The token's text: its special ones' as well.
std::string TextOf(const llama_vocab* vocab, TokenId token) {
  std::string text(32, '\0');
  for (;;) {
    const int32_t length = llama_token_to_piece(
        vocab, token, text.data(), static_cast<int32_t>(text.size()), /*lstrip=*/0, true);
    if (length >= 0) {
      text.resize(static_cast<size_t>(length));
      return text;
    }
    text.resize(static_cast<size_t>(-length));
  }
}

unsigned char Byte(char c) { return static_cast<unsigned char>(c); }

size_t PairOf(char before, char after) { return size_t{Byte(before)} * 256 + Byte(after); }

bool AddsSpace(const llama_vocab* vocab) {
  const std::vector<TokenId> ids = PlainIds(vocab, "a");
  return !ids.empty() && TextOf(vocab, ids.front()).starts_with(' ');
}

bool IsIn(uint32_t c, uint32_t first, uint32_t last) { return c >= first && c <= last; }

bool IsDigit(uint32_t c) { return IsIn(c, '0', '9'); }

// Letters of scripts that every tokenizer takes for letters. Not all of them: a text has enough.
bool IsLetter(uint32_t c) {
  return IsIn(c, 'A', 'Z') || IsIn(c, 'a', 'z') || IsIn(c, 0xC0, 0xD6) || IsIn(c, 0xD8, 0xF6) ||
         IsIn(c, 0xF8, 0x17F) || IsIn(c, 0x3B1, 0x3C9) || IsIn(c, 0x410, 0x44F) ||
         IsIn(c, 0x5D0, 0x5EA) || IsIn(c, 0x621, 0x63A) || IsIn(c, 0x641, 0x64A) ||
         IsIn(c, 0x3041, 0x3096) || IsIn(c, 0x30A1, 0x30FA) || IsIn(c, 0x4E00, 0x9FA5) ||
         IsIn(c, 0xAC00, 0xD7A3);
}

// The character that ends before `at`. REQUIRES: at > 0.
uint32_t CharBefore(std::string_view text, size_t at) {
  uint32_t c = 0;
  for (int shift = 0; shift < 24 && at > 0; shift += 6) {
    const auto byte = static_cast<unsigned char>(text[--at]);
    if (byte < 0x80) return shift == 0 ? byte : 0;
    if (byte >= 0xC0) return c | (byte & (shift == 6 ? 0x1FU : 0x0FU)) << shift;
    c |= (byte & 0x3FU) << shift;
  }
  return 0;
}

// Whether a match of letters or digits may end between these two, digits each by itself. An
// apostrophe is left to its word: "don't".
bool EndsWord(uint32_t before, unsigned char after) {
  const bool is_place = after == ' ' || after == '\n' || (IsIn(after, '!', '~') && after != '\'');
  if (!is_place) return false;
  return IsDigit(before) || (IsLetter(before) && !IsLetter(after));
}

// The end of the character that text[at] is in, or where it begins.
size_t CharBegin(std::string_view text, size_t at) {
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace

std::vector<TokenId> PlainIds(const llama_vocab* vocab, std::string_view text) {
  std::vector<TokenId> ids(text.size() + 2);
  const auto tokenize = [&] {
    return llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), ids.data(),
                          static_cast<int32_t>(ids.size()), false, false);
  };
  int32_t count = tokenize();
  if (count < 0) {
    ids.resize(static_cast<size_t>(-int64_t{count}));
    count = tokenize();
  }
  if (count < 0) throw std::runtime_error("more tokens than llama.cpp counts");
  ids.resize(static_cast<size_t>(count));
  return ids;
}

TextCuts::TextCuts(const llama_vocab* vocab) : vocab_(vocab), adds_space_(AddsSpace(vocab)) {
  const auto type = llama_vocab_type(vocab);
  can_cut_ = type == LLAMA_VOCAB_TYPE_BPE || type == LLAMA_VOCAB_TYPE_SPM;
  for (TokenId token = 0; can_cut_ && token < llama_vocab_n_tokens(vocab); ++token) {
    const int attributes = llama_vocab_get_attr(vocab, token);
    // These are found in a text before all others, and may take spaces around them.
    const bool strips = (attributes & (LLAMA_TOKEN_ATTR_LSTRIP | LLAMA_TOKEN_ATTR_RSTRIP)) != 0;
    if (strips && (attributes & LLAMA_TOKEN_ATTR_USER_DEFINED) != 0) can_cut_ = false;
    const std::string text = TextOf(vocab, token);
    for (size_t i = 1; i < text.size(); ++i) {
      joined_.set(PairOf(text[i - 1], text[i]));
      joins_digits_ |= IsDigit(Byte(text[i - 1])) && IsDigit(Byte(text[i]));
    }
  }
}

bool TextCuts::MayCut(std::string_view text, size_t at) const {
  if (joined_[PairOf(text[at - 1], text[at])] || (adds_space_ && text[at] != ' ')) return false;
  // Digits that some tokens hold together come in groups, which a cut would shift.
  if (joins_digits_ && IsDigit(Byte(text[at - 1])) && IsDigit(Byte(text[at]))) return false;
  return EndsWord(CharBefore(text, at), Byte(text[at]));
}

bool TextCuts::IsSameAround(std::string_view text, size_t at) const {
  const size_t begin = CharBegin(text, at - std::min(at, kWindowBytes));
  size_t end = std::min(at + kWindowBytes, text.size());
  if (end < text.size()) end = CharBegin(text, end);
  const std::string_view window = text.substr(begin, end - begin);
  std::vector<TokenId> ids = IdsOf(window, 0, at - begin);
  const std::vector<TokenId> rest = IdsOf(window, at - begin, window.size());
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids == PlainIds(vocab_, window);
}

size_t TextCuts::Next(std::string_view text, size_t least) const {
  int num_tries = 0;
  for (size_t at = std::max<size_t>(least, 1); can_cut_ && at < text.size(); ++at) {
    if (!MayCut(text, at)) continue;
    if (IsSameAround(text, at)) return at;
    if (++num_tries == kMaxTries) break;
  }
  return text.size();
}

std::vector<TokenId> TextCuts::IdsOf(std::string_view text, size_t begin, size_t end) const {
  const size_t first = begin > 0 && adds_space_ ? begin + 1 : begin;
  return PlainIds(vocab_, text.substr(first, end - first));
}

}  // namespace attndb::llama
