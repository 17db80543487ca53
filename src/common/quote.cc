#include "common/quote.h"

namespace attndb {

std::string Quoted(std::string_view text) {
  constexpr size_t kMaxShown = 80;
  std::string shown(text.substr(0, kMaxShown));
  for (char& c : shown) {
    if (c < ' ' || c > '~') c = '?';
  }
  return "'" + shown + (text.size() > kMaxShown ? "...'" : "'");
}

}  // namespace attndb
