#include "attndb/context_title.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "attndb/units.h"
#include "common/utf8.h"

namespace attndb {
namespace {

constexpr std::string_view kDots = "...";

// Controls (Cc), separators of lines, and marks that turn the direction of a line.
bool IsControl(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point < 0xA0) ||
         (code_point >= 0x2028 && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

std::string NameOf(uint32_t code_point) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string name = "U+";
  for (int shift = 12; shift >= 0; shift -= 4) name += kDigits[code_point >> shift & 0xF];
  return name;
}

// The end of a title of at most `max_bytes` that begins like `text`, with room for dots: behind a
// word, or behind a character if a long word would leave too little.
size_t EndOfTitle(std::string_view text, size_t max_bytes) {
  const size_t room = max_bytes - std::min(max_bytes, kDots.size());
  const size_t space = text.rfind(' ', room);
  if (space != std::string_view::npos && space >= room / 2) return space;
  size_t end = 0;
  while (end < text.size()) {
    const size_t num_bytes = FirstUtf8Char(text.substr(end)).num_bytes;
    if (end + num_bytes > room) break;
    end += num_bytes;
  }
  return end;
}

}  // namespace

Status CheckContextTitle(std::string_view title) {
  if (title.size() > kMaxContextTitleBytes) {
    return Status::InvalidArgument("title has " + Counted(title.size(), "byte") +
                                   ", expected at most " + std::to_string(kMaxContextTitleBytes));
  }
  for (size_t at = 0; at < title.size();) {
    const Utf8Char c = FirstUtf8Char(title.substr(at));
    if (c.num_bytes == 0) {
      return Status::InvalidArgument("title has a byte at " + std::to_string(at) +
                                     " that is no UTF-8");
    }
    if (IsControl(c.code_point)) {
      return Status::InvalidArgument("title has " + NameOf(c.code_point) + " at byte " +
                                     std::to_string(at) + ", expected no control characters");
    }
    at += c.num_bytes;
  }
  return Status::Ok();
}

std::string TitleOfText(std::string_view text, size_t max_bytes) {
  std::string title;
  bool is_visible = false;
  bool is_parted = false;  // A space is due before the next character.
  while (!text.empty() && title.size() <= max_bytes) {
    const Utf8Char c = FirstUtf8Char(text);
    const std::string_view piece = c.num_bytes == 0 ? "?" : text.substr(0, c.num_bytes);
    text.remove_prefix(std::max<size_t>(c.num_bytes, 1));
    if (piece != "?" && (c.code_point == ' ' || IsControl(c.code_point))) {
      is_parted = !title.empty();
      continue;
    }
    if (std::exchange(is_parted, false)) title += ' ';
    title += piece;
    is_visible = is_visible || c.code_point < 0x80 || IsVisible(c.code_point);
  }
  if (!is_visible) return "";
  if (title.size() <= max_bytes) return title;
  title.resize(EndOfTitle(title, max_bytes));
  return title.append(kDots.substr(0, max_bytes));
}

}  // namespace attndb
