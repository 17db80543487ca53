#include "common/quote.h"

#include "common/utf8.h"

namespace attndb {

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string shown;
  size_t at = 0;
  while (at < text.size() && at < kMaxShown) {
    const Utf8Char c = FirstUtf8Char(text.substr(at));
    const size_t num_bytes = c.num_bytes == 0 ? 1 : c.num_bytes;
    if (at + num_bytes > kMaxShown) break;
    const bool is_shown =
        c.code_point < 0x80 ? c.code_point >= ' ' && c.code_point <= '~' : IsVisible(c.code_point);
    shown += is_shown ? text.substr(at, num_bytes) : std::string_view("?");
    at += num_bytes;
  }
  return "'" + shown + (at < text.size() ? "...'" : "'");
}

}  // namespace attndb
