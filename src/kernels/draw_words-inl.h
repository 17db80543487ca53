// Internal: drawing tokens by weights that are bits of bfloat16.
#ifndef ATTNDB_KERNELS_DRAW_WORDS_INL_H_
#define ATTNDB_KERNELS_DRAW_WORDS_INL_H_

#include "kernels/draw.h"
#include "kernels/keep-inl.h"
#include "kernels/words-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Draws register after register of words. kRows: 0 for any number of q rows.
template <size_t kRows>
class WordDrawer {
 public:
  WordDrawer(const WordDraw& draw, uint32_t* tokens, uint16_t* margins)
      : draw_(draw), tokens_(tokens), margins_(margins) {}

  size_t count() const { return count_; }

  // Draws the first num_present words from token i on, which may be fewer than a register's.
  [[gnu::always_inline]] void DrawRegister(size_t i, size_t num_present, uint32_t first_token) {
    const bool is_whole = num_present == kWordLanes;
    const auto load = [&](const uint16_t* from) __attribute__((always_inline)) {
      return is_whole ? WordsAt(from) : FirstWords(from, num_present);
    };
    Words16 margin = SetWords(0);
    for (size_t r = 0; r < NumRows(); ++r) {
      const Words16 weight = load(draw_.weights + r * draw_.stride + i);
      margin = MaxWords(margin, SubSaturated(weight, SetWords(draw_.bases[r])));
    }
    uint32_t marks = MarkNotBelow(margin, load(draw_.noise + i));
    if (!is_whole) marks &= (1u << num_present * kMarks) - 1;
    if (marks == 0) return;
    alignas(64) uint16_t all[kWordLanes];
    StoreWords(all, margin);
    for (; marks != 0; marks &= marks - 1) {
      const auto lane = static_cast<unsigned>(__builtin_ctz(marks)) / kMarks;
      tokens_[count_] = first_token + static_cast<uint32_t>(i) + lane;
      margins_[count_] = all[lane];
      ++count_;
    }
  }

 private:
  size_t NumRows() const { return kRows == 0 ? draw_.num_rows : kRows; }

  static Words16 FirstWords(const uint16_t* from, size_t count) {
    alignas(64) uint16_t words[kWordLanes] = {};
    __builtin_memcpy(words, from, count * sizeof(uint16_t));
    return WordsAt(words);
  }

  const WordDraw draw_;
  uint32_t* const tokens_;
  uint16_t* const margins_;
  size_t count_ = 0;
};

size_t DrawByWords(const WordDraw& draw, size_t num_tokens, uint32_t first_token, uint32_t* tokens,
                   uint16_t* margins) {
  size_t count = 0;
  WithRowCount(draw.num_rows, [&]<size_t kRows>() {
    WordDrawer<kRows> drawer(draw, tokens, margins);
    size_t i = 0;
    for (; i + kWordLanes <= num_tokens; i += kWordLanes) {
      drawer.DrawRegister(i, kWordLanes, first_token);
    }
    if (i < num_tokens) drawer.DrawRegister(i, num_tokens - i, first_token);
    count = drawer.count();
  });
  return count;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_DRAW_WORDS_INL_H_
