// Where a text can be cut so that its pieces, tokenized one by one, have the ids of one call.
//
// A cut stands behind letters or digits, before what is none of them: a space, a sign, a line's
// end; between letters and digits; and between digits, where no token has two of them. There
//   - the regular expressions by which llama.cpp splits texts for BPE end a match, and begin the
//     next without a look at what was before;
//   - no token of the vocabulary has the bytes on both sides next to each other, so that no merge
//     goes across, also where texts are not split at all (SentencePiece, words of several words);
//   - and a few hundred bytes around are tokenized both ways, alike: a tokenizer that none of this
//     fits is not cut.
// One long word, or a line of signs alone, is not cut.
//
// Threads: thread-safe after construction. Cost: the constructor reads the vocabulary.
// Errors:  llama.cpp may throw.
#ifndef ATTNDB_ENGINES_LLAMA_TEXT_CUTS_H_
#define ATTNDB_ENGINES_LLAMA_TEXT_CUTS_H_

#include <llama.h>

#include <bitset>
#include <cstddef>
#include <string_view>
#include <vector>

#include "attndb/types.h"

namespace attndb::llama {

// The ids of `text`, without special ones.
std::vector<TokenId> PlainIds(const llama_vocab* vocab, std::string_view text);

class TextCuts {
 public:
  // `vocab` outlives this.
  explicit TextCuts(const llama_vocab* vocab);

  // Where to cut `text` at `least` or behind; its length, if that is nowhere. The text is UTF-8.
  size_t Next(std::string_view text, size_t least) const;
  // The ids of text[begin, end), where both are cuts or the text's ends.
  std::vector<TokenId> IdsOf(std::string_view text, size_t begin, size_t end) const;

 private:
  bool MayCut(std::string_view text, size_t at) const;
  bool IsSameAround(std::string_view text, size_t at) const;

  const llama_vocab* const vocab_;
  // Whether the tokenizer sets a space before each text that it gets: cuts are before spaces then,
  // and a piece leaves its own to it.
  const bool adds_space_;
  bool can_cut_ = false;
  bool joins_digits_ = false;  // Some token has two digits side by side.
  // Whether two bytes stand side by side in some token: before * 256 + after.
  std::bitset<256 * 256> joined_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TEXT_CUTS_H_
