#include "kernels/draw.h"

#include "kernels/kernel_table.h"

namespace attndb::kernels {

float SumAtMost(const float* weights, size_t num_weights, float limit) {
  return Kernels().draw->sum_at_most(weights, num_weights, limit);
}

void FindMargins(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                 size_t num_scores, float* margins) {
  Kernels().draw->find_margins(rule, scores, stride, num_rows, num_scores, margins);
}

void KeepTokens(const DrawRule& rule, const float* scores, size_t stride, size_t num_rows,
                size_t num_scores, const float* noise, uint32_t first_token, KeptTokens* kept) {
  Kernels().draw->keep_tokens(rule, scores, stride, num_rows, num_scores, noise, first_token, kept);
}

void PartDrawn(const DrawRule& rule, const KeptTokens& kept, size_t begin, size_t end,
               size_t num_rows, float heavy_margin, DrawnLists* lists) {
  Kernels().draw->part_drawn(rule, kept, begin, end, num_rows, heavy_margin, lists);
}

size_t DrawByWords(const WordDraw& draw, size_t num_tokens, uint32_t first_token, uint32_t* tokens,
                   uint16_t* margins) {
  return Kernels().draw->draw_by_words(draw, num_tokens, first_token, tokens, margins);
}

}  // namespace attndb::kernels
