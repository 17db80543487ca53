// Bytes of UTF-8 texts that are read and cut. Inline: what reads requests and files is linked
// without an engine, too.
//
// Threads: pure functions.
#ifndef ATTNDB_ENGINES_LLAMA_UTF8_BYTES_H_
#define ATTNDB_ENGINES_LLAMA_UTF8_BYTES_H_

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

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_UTF8_BYTES_H_
