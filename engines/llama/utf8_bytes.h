// Bytes of UTF-8 texts that are read and cut. Inline: what reads requests and files is linked
// without an engine, too.
//
// Threads: pure functions.
#ifndef ATTNDB_ENGINES_LLAMA_UTF8_BYTES_H_
#define ATTNDB_ENGINES_LLAMA_UTF8_BYTES_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace attndb::llama {

// A text without the byte order mark that some editors put in front.
inline std::string_view WithoutBom(std::string_view text) {
  constexpr std::string_view kBom = "\xEF\xBB\xBF";
  if (text.starts_with(kBom)) text.remove_prefix(kBom.size());
  return text;
}

// Whether the byte stands inside a character, behind its first byte.
inline bool ContinuesUtf8Char(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The beginning of a text, of at most so many bytes, that cuts no character.
inline std::string_view FirstUtf8Bytes(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t end = max_bytes;
  while (end > 0 && max_bytes - end < 3 && ContinuesUtf8Char(text[end])) --end;
  // More bytes than a character has behind its first one are no character.
  return text.substr(0, ContinuesUtf8Char(text[end]) ? max_bytes : end);
}

// Returns the bytes of the character that begins with `lead`; 1 for a byte that begins none.
inline size_t Utf8CharBytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte >= 0xF0 && byte < 0xF8) return 4;
  if (byte >= 0xE0 && byte < 0xF0) return 3;
  if (byte >= 0xC0 && byte < 0xE0) return 2;
  return 1;
}

// Returns the bytes of `text` before an unfinished character at its end.
inline size_t WholeUtf8Bytes(std::string_view text) {
  const size_t from = text.size() - std::min<size_t>(text.size(), 3);
  for (size_t i = text.size(); i-- > from;) {
    if (ContinuesUtf8Char(text[i])) continue;
    return i + Utf8CharBytes(text[i]) > text.size() ? i : text.size();
  }
  return text.size();
}

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_UTF8_BYTES_H_
