#include "cli/common/text_parts.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "engines/llama/utf8_bytes.h"

namespace attndb::cli {
namespace {

constexpr size_t kMostUnitBytes = 2000;  // Longer lines are cut.

// Places where a part may end; a later one in this list is better.
enum class TextBreak : uint8_t { kCharacter, kWord, kSentence, kLine, kParagraph, kHeading };

// A line with the empty lines behind it, or a piece of a long line.
struct TextUnit {
  size_t end = 0;
  TextBreak breaks = TextBreak::kLine;
};

// The line that begins at `at`, with its end; no more than `most_bytes` of it are looked at.
std::string_view LineAt(std::string_view text, size_t at, size_t most_bytes) {
  const std::string_view line = text.substr(at, most_bytes);
  return line.substr(0, std::min(line.find('\n'), line.size() - 1) + 1);
}

std::string_view Trimmed(std::string_view line) {
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r' || line.back() == ' ')) {
    line.remove_suffix(1);
  }
  return line;
}

// "## Title", as in Markdown.
bool IsTitle(std::string_view line) {
  const size_t num_signs = std::min(line.find_first_not_of('#'), line.size());
  return num_signs >= 1 && num_signs <= 6 && num_signs < line.size() && line[num_signs] == ' ';
}

// "=====" or "-----" below a title.
bool IsUnderline(std::string_view line) {
  return line.size() >= 3 && (line[0] == '=' || line[0] == '-') &&
         line.find_first_not_of(line[0]) == std::string_view::npos;
}

// Whether a heading stands at `at`, where a line begins.
bool HasHeading(std::string_view text, size_t at) {
  if (at >= text.size()) return false;
  const std::string_view whole = LineAt(text, at, kMostUnitBytes);
  const std::string_view line = Trimmed(whole);
  if (IsTitle(line)) return true;
  const size_t end = at + whole.size();
  if (line.empty() || IsUnderline(line) || end >= text.size()) return false;
  return IsUnderline(Trimmed(LineAt(text, end, kMostUnitBytes)));
}

// The end of a piece of the line text[begin, end), which is longer than a unit may be.
TextUnit PieceOfLine(std::string_view text, size_t begin, size_t most_bytes) {
  const std::string_view piece = text.substr(begin, most_bytes);
  const size_t half = most_bytes / 2;
  for (size_t i = piece.size() - 1; i >= half; --i) {
    const bool ends = piece[i - 1] == '.' || piece[i - 1] == '!' || piece[i - 1] == '?';
    if (piece[i] == ' ' && ends) return {begin + i, TextBreak::kSentence};
    if (piece.substr(0, i).ends_with("。")) return {begin + i, TextBreak::kSentence};
  }
  for (size_t i = piece.size() - 1; i >= half; --i) {
    if (piece[i] == ' ') return {begin + i, TextBreak::kWord};
  }
  size_t end = begin + piece.size();
  while (end > begin + 1 && llama::ContinuesUtf8Char(text[end])) --end;
  return {end, TextBreak::kCharacter};
}

TextUnit NextUnit(std::string_view text, size_t begin, size_t most_bytes, bool is_code) {
  TextUnit unit = {begin + LineAt(text, begin, most_bytes + 1).size(), TextBreak::kLine};
  if (unit.end - begin > most_bytes) return PieceOfLine(text, begin, most_bytes);
  while (unit.end < text.size() && unit.end - begin < most_bytes) {
    const std::string_view line = LineAt(text, unit.end, most_bytes);
    if (!Trimmed(line).empty()) break;
    unit = {unit.end + line.size(), TextBreak::kParagraph};
  }
  if (!is_code && HasHeading(text, unit.end)) unit.breaks = TextBreak::kHeading;
  return unit;
}

// Whether the line begins or ends a block of code: lines that begin with # in a block are no
// headings.
bool IsFence(std::string_view line) { return line.starts_with("```") || line.starts_with("~~~"); }

class TextParter {
 public:
  TextParter(std::string_view text, uint64_t most_tokens, const CountTokens& count)
      : text_(text), most_tokens_(most_tokens), count_(count) {}

  Result<std::vector<std::string_view>> Run() {
    std::vector<std::string_view> parts;
    while (begin_ < text_.size()) {
      if (parts.size() == kMostParts) {
        return Status::InvalidArgument("the text has more than " + std::to_string(kMostParts) +
                                       " parts of " + std::to_string(most_tokens_) + " tokens");
      }
      ATTNDB_ASSIGN_OR_RETURN(const size_t end, EndOfPart());
      parts.push_back(text_.substr(begin_, end - begin_));
      is_code_ = IsCodeAt(end);
      begin_ = end;
    }
    return parts;
  }

 private:
  // Pieces are counted one by one, which differs a little from their joint count. A part that turns
  // out too long is made shorter.
  Result<size_t> EndOfPart() const {
    for (uint64_t budget = most_tokens_;;) {
      ATTNDB_ASSIGN_OR_RETURN(const size_t end, EndWithin(budget));
      ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens,
                              count_(text_.substr(begin_, end - begin_)));
      if (num_tokens <= most_tokens_) return end;
      budget -= std::min(budget - 1, num_tokens - most_tokens_);
      if (budget == 1) return ShortestEnd();
    }
  }

  // The best end in the last half of `budget`; the last of several.
  Result<size_t> EndWithin(uint64_t budget) const {
    const size_t most_bytes = std::clamp<size_t>(budget / 4, 16, kMostUnitBytes);
    uint64_t num_tokens = 0;
    std::optional<TextUnit> best;
    bool is_code = is_code_;
    for (size_t at = begin_; at < text_.size();) {
      if (IsFence(text_.substr(at))) is_code = !is_code;
      const TextUnit unit = NextUnit(text_, at, most_bytes, is_code);
      ATTNDB_ASSIGN_OR_RETURN(const uint64_t more, count_(text_.substr(at, unit.end - at)));
      num_tokens += more;
      if (num_tokens > budget) return best ? best->end : unit.end;
      const bool is_better =
          !best || unit.breaks >= best->breaks || 2 * (num_tokens - more) < budget;
      if (is_better) best = unit;
      at = unit.end;
    }
    return text_.size();
  }

  // A character, which has to fit.
  Result<size_t> ShortestEnd() const {
    size_t end = begin_ + 1;
    while (end < text_.size() && llama::ContinuesUtf8Char(text_[end])) ++end;
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens, count_(text_.substr(begin_, end - begin_)));
    if (num_tokens <= most_tokens_) return end;
    return Status::InvalidArgument("a part of " + std::to_string(most_tokens_) +
                                   " tokens has no room for a character of " +
                                   std::to_string(num_tokens));
  }

  bool IsCodeAt(size_t end) const {
    bool is_code = is_code_;
    for (size_t at = begin_; at < end; at += LineAt(text_, at, text_.size()).size()) {
      if (IsFence(text_.substr(at))) is_code = !is_code;
    }
    return is_code;
  }

  const std::string_view text_;
  const uint64_t most_tokens_;
  const CountTokens& count_;
  size_t begin_ = 0;      // The begin of the next part.
  bool is_code_ = false;  // Whether it begins in a block of code.
};

}  // namespace

Result<std::vector<std::string_view>> PartsOf(std::string_view text, uint64_t most_tokens,
                                              const CountTokens& count) {
  return TextParter(text, most_tokens, count).Run();
}

}  // namespace attndb::cli
