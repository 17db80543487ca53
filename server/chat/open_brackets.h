// Counts the brackets that are open in a text. Readers of replies call themselves for each open
// bracket, so a text with too many of them must not reach a reader.
#ifndef ATTNDB_SERVER_CHAT_OPEN_BRACKETS_H_
#define ATTNDB_SERVER_CHAT_OPEN_BRACKETS_H_

#include <cstddef>
#include <string_view>

namespace attndb::server {

inline constexpr size_t kMaxOpenBrackets = 256;

class OpenBrackets {
 public:
  // Adds a piece of the text.
  void Add(std::string_view text) {
    for (const char c : text) {
      if (c == '[' || c == '{') ++num_open_;
      if ((c == ']' || c == '}') && num_open_ > 0) --num_open_;
      is_too_deep_ = is_too_deep_ || num_open_ > kMaxOpenBrackets;
    }
  }
  // Whether more than kMaxOpenBrackets were open at once.
  bool is_too_deep() const { return is_too_deep_; }

 private:
  size_t num_open_ = 0;
  bool is_too_deep_ = false;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_CHAT_OPEN_BRACKETS_H_
