// The texts of a vocabulary's tokens, control tokens by their names.
//
// Threads: a pure function.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_PIECE_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_PIECE_H_

#include <llama.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace attndb::llama {

// Empty: the token has no text, or one of more than 256 bytes.
inline std::string PieceOf(const llama_vocab* vocab, llama_token token) {
  std::array<char, 256> buffer;
  const int32_t length = llama_token_to_piece(
      vocab, token, buffer.data(), static_cast<int32_t>(buffer.size()), /*lstrip=*/0, true);
  return length < 0 ? "" : std::string(buffer.data(), static_cast<size_t>(length));
}

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_PIECE_H_
