// The special tokens of a vocabulary, and where a text names them.
//
// Threads: thread-safe after construction.
#ifndef ATTNDB_ENGINES_LLAMA_SPECIAL_TOKENS_H_
#define ATTNDB_ENGINES_LLAMA_SPECIAL_TOKENS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "attndb/types.h"

namespace attndb::llama {

struct SpecialToken {
  std::string text;
  TokenId id = 0;
  bool is_control = true;  // False: also found in texts of users.
};

class SpecialTokens {
 public:
  explicit SpecialTokens(std::vector<SpecialToken> tokens);

  // A special token in a text: the bytes [begin, end).
  struct Place {
    size_t begin = 0;
    size_t end = 0;
    const SpecialToken* token = nullptr;  // Valid as long as the SpecialTokens.
  };
  // The special tokens of a text from left to right, as llama.cpp's tokenizer finds them: of those
  // that overlap, the longest.
  std::vector<Place> Find(std::string_view text) const;

  // Returns the text with `mark` behind the first character of each name of a control token, so
  // that no control token is found in it. A name also counts if some of its characters are escaped
  // as in JSON, however often ("\\u003c|im_end|>"). A name of a single character stays as it is.
  std::string Marked(std::string_view text, std::string_view mark) const;

 private:
  // Appends every name that the text has, also those that overlap.
  void FindAll(std::string_view text, std::vector<Place>* places) const;

  std::vector<SpecialToken> tokens_;  // Sorted by text.
  std::array<uint32_t, 257> first_ =
      {};  // Index of the first token whose text begins so, or later.
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_SPECIAL_TOKENS_H_
