#include "engines/llama/text_cuts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "engines/llama/utf8_bytes.h"

namespace attndb::llama {
namespace {

constexpr size_t kWindowBytes = 512;  // Tokenized on each side of a cut, to see.
constexpr int kMaxTries = 16;         // Places that may turn out to be none, before it gives up.
constexpr size_t kNearBytes = 16384;  // Behind a cut that is wanted, where most places are.
constexpr size_t kBackBytes = 2048;  // Before a cut that has to be, where a better place is sought.

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

// The kinds of characters that the regular expressions of llama.cpp's tokenizers tell apart.
enum class CharKind : uint8_t { kSpace, kDigit, kLetter, kOther };

// A character that is more than ASCII. Where the tables of Unicode have exceptions, a letter: a run
// is taken for longer than it is.
CharKind WideKind(uint32_t c) {
  const bool is_space = c == 0x85 || c == 0xA0 || c == 0x1680 || IsIn(c, 0x2000, 0x200A) ||
                        IsIn(c, 0x2028, 0x2029) || c == 0x202F || c == 0x205F || c == 0x3000;
  if (is_space) return CharKind::kSpace;
  const bool is_other = c <= 0xBF || c == 0xD7 || c == 0xF7 || IsIn(c, 0x200B, 0x2BFF) ||
                        IsIn(c, 0x3001, 0x303F) || IsIn(c, 0xFF00, 0xFF0F) ||
                        IsIn(c, 0xFF1A, 0xFF20) || IsIn(c, 0xFF3B, 0xFF40) ||
                        IsIn(c, 0xFF5B, 0xFF65) || IsIn(c, 0x1F000, 0x1FAFF);
  return is_other ? CharKind::kOther : CharKind::kLetter;
}

CharKind KindOfChar(uint32_t c) {
  if (c >= 0x80) return WideKind(c);
  if (c == ' ' || IsIn(c, '\t', '\r')) return CharKind::kSpace;
  if (IsDigit(c)) return CharKind::kDigit;
  return IsIn(c | 0x20U, 'a', 'z') ? CharKind::kLetter : CharKind::kOther;
}

// Whether the character ends a word for the expressions that take signs and letters together
// (BLOOM's and its kin's).
bool EndsAnyWord(uint32_t c, CharKind kind) {
  return kind == CharKind::kSpace || c == '.' || c == ',' || c == '!' || c == '?' || c == '|' ||
         c == '(' || c == ')' || c == 0x2026 || c == 0x3002 || c == 0xFF0C || c == 0x3001;
}

// The character at `at`, and how many bytes it has. What is no UTF-8 is a byte each.
struct Char {
  uint32_t code;
  size_t num_bytes;
};
Char CharAt(std::string_view text, size_t at) {
  const unsigned char first = Byte(text[at]);
  const size_t num_bytes = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
  if (num_bytes == 1 || at + num_bytes > text.size()) return {first, 1};
  uint32_t code = first & (0x7FU >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) code = code << 6 | (Byte(text[at + i]) & 0x3FU);
  return {code, num_bytes};
}

// Where the character begins that text[at] is in.
size_t CharBegin(std::string_view text, size_t at) {
  while (at > 0 && ContinuesUtf8Char(text[at])) --at;
  return at;
}

}  // namespace

size_t EndOfShortRuns(std::string_view text, size_t begin) {
  size_t num_alike = 0;
  size_t num_in_word = 0;
  size_t num_signs = 0;  // With characters that may be some: unknown scripts, private use.
  CharKind last = CharKind::kSpace;
  for (size_t at = begin; at < text.size();) {
    const Char c = CharAt(text, at);
    const CharKind kind = KindOfChar(c.code);
    num_alike = kind == last ? num_alike + 1 : 1;
    num_in_word = EndsAnyWord(c.code, kind) ? 0 : num_in_word + 1;
    const bool may_be_sign = kind == CharKind::kOther || (c.code >= 0x80 && !IsLetter(c.code));
    num_signs = may_be_sign && kind != CharKind::kSpace ? num_signs + 1 : 0;
    const size_t most_alike = kind == CharKind::kDigit ? kMostDigits : kMostRunChars;
    if (num_alike > most_alike || std::max(num_in_word, num_signs) > kMostWordChars) return at;
    last = kind;
    at += c.num_bytes;
  }
  return text.size();
}

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

bool AddsSpace(const llama_vocab* vocab) {
  const std::vector<TokenId> ids = PlainIds(vocab, "a");
  return !ids.empty() && TextOf(vocab, ids.front()).starts_with(' ');
}

TextCuts::TextCuts(const llama_vocab* vocab)
    : vocab_(vocab),
      adds_space_(AddsSpace(vocab)),
      has_expressions_(llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_BPE) {
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

std::optional<size_t> TextCuts::FirstPlace(std::string_view text, size_t least, size_t most,
                                           int* num_tries) const {
  for (size_t at = least; can_cut_ && at < most && *num_tries < kMaxTries; ++at) {
    if (!MayCut(text, at)) continue;
    if (IsSameAround(text, at)) return at;
    ++*num_tries;
  }
  return std::nullopt;
}

size_t TextCuts::LastPlace(std::string_view text, size_t begin, size_t most) const {
  const size_t least = std::max(begin, most - std::min(most, kBackBytes)) + 1;
  int num_tries = 0;
  for (size_t at = most; can_cut_ && at >= least && num_tries < kMaxTries; --at) {
    if (!MayCut(text, at)) continue;
    if (IsSameAround(text, at)) return at;
    ++num_tries;
  }
  for (size_t at = most; at >= least; --at) {
    if (text[at] == ' ' || text[at] == '\n') return at;
  }
  return std::max(CharBegin(text, most), begin + 1);
}

size_t TextCuts::Next(std::string_view text, size_t begin, size_t least) const {
  const size_t stop = std::min(text.size(), least + kMostPieceBytes);
  int num_tries = 0;
  // Most places are near: the rest is looked at where there is none.
  for (const size_t end : {std::min(stop, least + kNearBytes), stop}) {
    const size_t most = has_expressions_ ? EndOfShortRuns(text.substr(0, end), begin) : end;
    if (const auto place = FirstPlace(text, least, most, &num_tries)) return *place;
    if (most < end) return LastPlace(text, begin, most);
  }
  return stop < text.size() ? LastPlace(text, begin, stop) : stop;
}

std::vector<TokenId> TextCuts::IdsBehindText(std::string_view piece) const {
  const std::vector<TokenId> front = PlainIds(vocab_, "\n");
  std::vector<TokenId> ids = PlainIds(vocab_, "\n" + std::string(piece));
  const bool is_apart =
      ids.size() >= front.size() && std::equal(front.begin(), front.end(), ids.begin());
  if (!is_apart) return PlainIds(vocab_, piece);
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(front.size()));
  return ids;
}

std::optional<size_t> TextCuts::Last(std::string_view text, std::span<const size_t> places) const {
  int num_tries = 0;
  for (auto at = places.rbegin(); can_cut_ && at != places.rend(); ++at) {
    if (*at == 0 || *at >= text.size() || !MayCut(text, *at)) continue;
    if (IsSameAround(text, *at)) return *at;
    if (++num_tries == kMaxTries) break;
  }
  return std::nullopt;
}

std::vector<TokenId> TextCuts::IdsOf(std::string_view text, size_t begin, size_t end) const {
  const std::string_view piece = text.substr(begin, end - begin);
  if (begin == 0 || !adds_space_) return PlainIds(vocab_, piece);
  return piece.starts_with(' ') ? PlainIds(vocab_, piece.substr(1)) : IdsBehindText(piece);
}

}  // namespace attndb::llama
