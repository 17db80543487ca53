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
// A text that has no such place is cut all the same, and has other ids there than one call gives:
//   - for BPE inside a run of more than kMostRunChars characters of one kind, or kMostDigits, and
//     of more than kMostWordChars without a space or a full stop. llama.cpp's regular expressions
//     recurse for each character of a match: one of 28,000 overflows a stack of 8 MiB. Where they
//     look ahead, digits take time by the square of their number;
//   - for all tokenizers kMostPieceBytes behind the place where a cut was wanted, so that no call
//     takes long.
//
// Threads: thread-safe after construction. Cost: the constructor reads the vocabulary.
// Errors:  llama.cpp may throw.
#ifndef ATTNDB_ENGINES_LLAMA_TEXT_CUTS_H_
#define ATTNDB_ENGINES_LLAMA_TEXT_CUTS_H_

#include <llama.h>

#include <bitset>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/types.h"

namespace attndb::llama {

inline constexpr size_t kMostRunChars = 4095;   // Letters, spaces or other signs alone.
inline constexpr size_t kMostDigits = 1023;     // A multiple of 3: many tokenizers have threes.
inline constexpr size_t kMostWordChars = 8192;  // Without a space, a comma or a full stop.
inline constexpr size_t kMostPieceBytes = size_t{1} << 20;

// The first byte, from `begin` on, at which a run of similar characters becomes longer than
// llama.cpp's regular expressions can take. text.size(): no run does.
size_t EndOfShortRuns(std::string_view text, size_t begin);

// The ids of `text`, without special ones.
std::vector<TokenId> PlainIds(const llama_vocab* vocab, std::string_view text);

// Whether the tokenizer sets a space before each text that it gets.
bool AddsSpace(const llama_vocab* vocab);

class TextCuts {
 public:
  // `vocab` outlives this.
  explicit TextCuts(const llama_vocab* vocab);

  // Where the piece of `text` ends that begins at `begin`: at the first place from `least` on, or
  // where it has to be cut before that. At the end of a character, if the text is UTF-8.
  // REQUIRES: begin < least <= text.size().
  size_t Next(std::string_view text, size_t begin, size_t least) const;
  // The last of `places` that is a cut of `text`; nullopt if none is. `places` ascend.
  std::optional<size_t> Last(std::string_view text, std::span<const size_t> places) const;
  // The ids of text[begin, end), where both are cuts or the text's ends.
  std::vector<TokenId> IdsOf(std::string_view text, size_t begin, size_t end) const;

 private:
  bool MayCut(std::string_view text, size_t at) const;
  bool IsSameAround(std::string_view text, size_t at) const;
  // The first place in [least, most), and the places that turned out to be none.
  std::optional<size_t> FirstPlace(std::string_view text, size_t least, size_t most,
                                   int* num_tries) const;
  // Where the piece ends that must not go beyond `most`: at a place, if there is one a little
  // before; else before a space; else between two characters.
  size_t LastPlace(std::string_view text, size_t begin, size_t most) const;
  // The ids of a piece that the tokenizer must not set a space before.
  std::vector<TokenId> IdsBehindText(std::string_view piece) const;

  const llama_vocab* const vocab_;
  // With AddsSpace, cuts are before spaces, and a piece leaves its own space to the tokenizer.
  const bool adds_space_;
  const bool has_expressions_;  // Texts are split by regular expressions: BPE.
  bool can_cut_ = false;
  bool joins_digits_ = false;  // Some token has two digits side by side.
  // Whether two bytes stand side by side in some token: before * 256 + after.
  std::bitset<256 * 256> joined_;
};

}  // namespace attndb::llama

#endif  // ATTNDB_ENGINES_LLAMA_TEXT_CUTS_H_
