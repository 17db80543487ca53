// A set of tokens as bytes: token i is bit i % 8 of byte i / 8.
//
// Threads: pure functions.
#ifndef ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_MASK_H_
#define ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_MASK_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "attndb/types.h"

namespace attndb::llama {

// A mask of no token, for a vocabulary of so many.
inline std::string EmptyMask(size_t num_tokens) { return std::string((num_tokens + 7) / 8, '\0'); }

// REQUIRES: the token is in the vocabulary.
inline void AddToMask(TokenId token, std::string* mask) {
  const auto at = static_cast<size_t>(token);
  (*mask)[at / 8] = static_cast<char>((*mask)[at / 8] | 1 << at % 8);
}

// False for tokens outside of the vocabulary.
inline bool IsInMask(TokenId token, std::string_view mask) {
  const auto at = static_cast<size_t>(token);
  return at / 8 < mask.size() && (static_cast<unsigned char>(mask[at / 8]) >> at % 8 & 1) != 0;
}

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_CHAT_TOKEN_MASK_H_
