// UTF-8, character by character (RFC 3629: the shortest form, no surrogates, up to U+10FFFF).
//
// Threads: pure functions.
#ifndef ATTNDB_COMMON_UTF8_H_
#define ATTNDB_COMMON_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace attndb {

struct Utf8Char {
  uint32_t code_point = 0;
  size_t num_bytes = 0;  // 0: the text does not begin with a character.
};

// The character that `text` begins with.
Utf8Char FirstUtf8Char(std::string_view text);

// Whether all of `text` is UTF-8.
bool IsUtf8(std::string_view text);

// Whether the character outside ASCII may stand in a name or a message: it is visible, and a
// terminal does not act upon it. Spaces, controls, format and private-use characters may not.
bool IsVisible(uint32_t code_point);

}  // namespace attndb

#endif  // ATTNDB_COMMON_UTF8_H_
