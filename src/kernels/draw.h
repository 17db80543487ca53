// Drawing tokens by weight: heavy ones for certain, light ones by chance.
//
// Units:   as weights.h; noise is added to logits, in nats.
// Values:  a NaN score has a margin of +inf and is always drawn; one of -inf never, unless a
//          threshold is that too.
// Errors:  none; num_scores < 2^31.
// Threads: stateless.
#ifndef ATTNDB_KERNELS_DRAW_H_
#define ATTNDB_KERNELS_DRAW_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"

namespace attndb::kernels {

// The sum of min(weight, limit).
float SumAtMost(const float* weights, size_t num_weights, float limit);

// The rule by which tokens are kept or drawn: for some q row, logit + noise is at least that row's
// threshold.
struct DrawRule {
  LogitSpec logit;
  const float* thresholds = nullptr;  // [q rows]
};

// The margin of a token, how far its logit lies above the threshold, for the q row where that is
// most: margins[i] = max over rows r of logit(scores[r * stride + i]) - thresholds[r]; +inf for
// NaN, and where a threshold is -inf.
void FindMargins(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                 size_t num_scores, float* margins);

// Tokens that were kept, ascending. Not owned: each array has room for every token that is offered.
struct KeptTokens {
  uint32_t* tokens = nullptr;
  float* noise = nullptr;
  float* scores = nullptr;  // [q row], stride apart.
  size_t stride = 0;
  size_t count = 0;
  // Logs of the probabilities by which tokens were kept, where scores make up for these. Null: the
  // probabilities that follow from noise and thresholds.
  const float* chances = nullptr;
};

// Appends token first_token + i, with its scores[r * stride + i] and noise[i], if the rule keeps
// it.
void KeepTokens(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                size_t num_scores, const float* noise, uint32_t first_token, KeptTokens* kept);

// Elements beyond the drawn tokens that PartDrawn may overwrite (whole-register stores).
inline constexpr size_t kDrawSlack = 16;

// Tokens that were drawn, ascending. Not owned: each array has room for all tokens that are
// offered, and kDrawSlack more; the two halves of light tokens have room for half of them and one,
// and kDrawSlack.
struct DrawnTokens {
  uint32_t* tokens = nullptr;
  float* logits = nullptr;   // [q row], stride apart: logits of the weights that tokens stand for.
  bool are_scores = false;   // Whether `logits` has scores instead, which are yet to be made exact.
  float* margins = nullptr;  // Logs of the probabilities of light tokens; null for others.
  size_t stride = 0;
  size_t count = 0;
};

struct DrawnLists {
  DrawnTokens certain;
  DrawnTokens heavy;  // Certain tokens with a margin of more than heavy_margin.
  DrawnTokens even;   // Light tokens by turns: each half is a draw of half of the tokens.
  DrawnTokens odd;
};

// Appends the kept tokens in [begin, end) that the rule draws, by their margins (FindMargins): from
// 0 on they are certain, below that light, and stand for more than their own weight. With
// `chances`, a token is certain only if its chance is, too.
void PartDrawn(const DrawRule& rule, const KeptTokens& kept, size_t begin, size_t end,
               size_t num_rows, float heavy_margin, DrawnLists* lists);

// Draws tokens by weights that are the bits of bfloat16 (product_codes.h), whose logarithms are
// integers. A token's margin is how many steps the weight of some q row is above that row's base;
// at least 0.
struct WordDraw {
  const uint16_t* weights = nullptr;  // [q row], stride apart.
  size_t stride = 0;
  const uint16_t* bases = nullptr;  // [q row]
  size_t num_rows = 0;
  const uint16_t* noise = nullptr;  // Noise of the tokens.
};

// Writes the tokens of [first_token, first_token + num_tokens) whose margin is at least their
// noise, ascending, with their margins. Returns their number; there must be room for all.
size_t DrawByWords(const WordDraw& draw, size_t num_tokens, uint32_t first_token, uint32_t* tokens,
                   uint16_t* margins);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_DRAW_H_
