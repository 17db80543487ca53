#include "engines/llama/special_tokens.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

namespace attndb::llama {
namespace {

size_t CharBytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

void AppendUtf8(uint32_t code, std::string* text) {
  if (code < 0x80) {
    *text += static_cast<char>(code);
    return;
  }
  int num_more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint8_t kLeads[] = {0, 0xC0, 0xE0, 0xF0};
  *text += static_cast<char>(kLeads[num_more] | (code >> (6 * num_more)));
  while (num_more-- > 0) *text += static_cast<char>(0x80 | ((code >> (6 * num_more)) & 0x3F));
}

// Reads the four digits behind "\u".
std::optional<uint32_t> HexCode(std::string_view text, size_t at) {
  if (at + 4 > text.size()) return std::nullopt;
  uint32_t code = 0;
  for (const char c : text.substr(at, 4)) {
    const size_t digit = std::string_view("0123456789abcdefABCDEF").find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    code = 16 * code + static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
  }
  return code;
}

// A text whose JSON escapes are read, however many backslashes they have, and where each of its
// bytes ends in the text as it was.
struct Unescaped {
  std::string text;
  std::vector<size_t> ends;

  void Append(std::string_view bytes, size_t end) {
    text += bytes;
    ends.resize(text.size(), end);
  }
};

// Reads an escape whose last backslash is before text[at]. Returns where it ends; nullopt: it is
// none.
std::optional<size_t> ReadEscape(std::string_view text, size_t at, Unescaped* to) {
  if (at >= text.size()) return std::nullopt;
  constexpr std::string_view kNames = "\"/bfnrt";
  constexpr std::string_view kMeanings = "\"/\b\f\n\r\t";
  if (const size_t name = kNames.find(text[at]); name != std::string_view::npos) {
    to->Append(kMeanings.substr(name, 1), at + 1);
    return at + 1;
  }
  const std::optional<uint32_t> code = text[at] == 'u' ? HexCode(text, at + 1) : std::nullopt;
  if (!code) return std::nullopt;
  std::string bytes;
  size_t end = at + 5;
  uint32_t whole = *code;
  if (whole >= 0xD800 && whole < 0xDC00) {  // The first half of a character.
    size_t low_at = end;
    while (low_at < text.size() && text[low_at] == '\\') ++low_at;
    const auto low = low_at > end && low_at < text.size() && text[low_at] == 'u'
                         ? HexCode(text, low_at + 1)
                         : std::nullopt;
    if (low && *low >= 0xDC00 && *low < 0xE000) {
      whole = 0x10000 + ((whole - 0xD800) << 10) + (*low - 0xDC00);
      end = low_at + 5;
    }
  }
  AppendUtf8(whole, &bytes);
  to->Append(bytes, end);
  return end;
}

Unescaped Unescape(std::string_view text) {
  Unescaped to;
  to.text.reserve(text.size());
  to.ends.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t behind = at;
    while (behind < text.size() && text[behind] == '\\') ++behind;
    const std::optional<size_t> end =
        behind > at ? ReadEscape(text, behind, &to) : std::optional<size_t>();
    if (end) {
      at = *end;
      continue;
    }
    to.Append(text.substr(at, 1), at + 1);
    ++at;
  }
  return to;
}

}  // namespace

SpecialTokens::SpecialTokens(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const SpecialToken& token) { return token.text.empty(); });
  std::ranges::stable_sort(tokens_, {}, &SpecialToken::text);
  for (const SpecialToken& token : tokens_) {
    ++first_[static_cast<unsigned char>(token.text.front()) + size_t{1}];
  }
  for (size_t byte = 1; byte < first_.size(); ++byte) first_[byte] += first_[byte - 1];
}

void SpecialTokens::FindAll(std::string_view text, std::vector<Place>* places) const {
  for (size_t begin = 0; begin < text.size(); ++begin) {
    const auto byte = static_cast<unsigned char>(text[begin]);
    const SpecialToken* low = tokens_.data() + first_[byte];
    const SpecialToken* high = tokens_.data() + first_[byte + size_t{1}];
    // All tokens in [low, high) begin with the first `depth` bytes from `begin` on.
    for (size_t depth = 1; low < high; ++depth) {
      if (low->text.size() == depth) {
        places->push_back({begin, begin + depth, low});
        while (low < high && low->text.size() == depth) ++low;
      }
      if (low == high || begin + depth >= text.size()) break;
      const auto byte_of = [depth](const SpecialToken& token) {
        return static_cast<unsigned char>(token.text[depth]);
      };
      const auto next = static_cast<unsigned char>(text[begin + depth]);
      low = std::ranges::lower_bound(low, high, next, {}, byte_of);
      high = std::ranges::upper_bound(low, high, next, {}, byte_of);
    }
  }
}

std::vector<SpecialTokens::Place> SpecialTokens::Find(std::string_view text) const {
  std::vector<Place> all;
  FindAll(text, &all);
  // llama.cpp cuts the text at the longest tokens first.
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Place& place) { return place.end - place.begin; });
  std::vector<Place> found;
  std::vector<bool> is_taken(all.empty() ? 0 : text.size());
  for (const Place& place : all) {
    // One that was taken before is no shorter: if it overlaps, it has one of the two ends.
    if (is_taken[place.begin] || is_taken[place.end - 1]) continue;
    for (size_t at = place.begin; at < place.end; ++at) is_taken[at] = true;
    found.push_back(place);
  }
  std::ranges::sort(found, {}, &Place::begin);
  return found;
}

std::string SpecialTokens::Marked(std::string_view text, std::string_view mark) const {
  std::vector<size_t> cuts;
  std::vector<Place> places;
  const auto is_long = [](const Place& place) {
    const std::string& name = place.token->text;
    return place.token->is_control && name.size() > CharBytes(name.front());
  };
  FindAll(text, &places);
  for (const Place& place : places) {
    if (is_long(place)) cuts.push_back(place.begin + CharBytes(text[place.begin]));
  }
  if (text.find('\\') != std::string_view::npos) {
    const Unescaped plain = Unescape(text);
    places.clear();
    FindAll(plain.text, &places);
    for (const Place& place : places) {
      const size_t last = place.begin + CharBytes(plain.text[place.begin]) - 1;
      if (is_long(place)) cuts.push_back(plain.ends[last]);
    }
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  std::string marked;
  marked.reserve(text.size() + cuts.size() * mark.size());
  size_t begin = 0;
  for (const size_t cut : cuts) {
    marked.append(text, begin, cut - begin).append(mark);
    begin = cut;
  }
  marked.append(text, begin);
  return marked;
}

}  // namespace attndb::llama
