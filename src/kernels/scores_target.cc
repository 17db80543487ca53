// Kernels that read scores: select.h, score_blocks.h, weights.h, draw.h.
#include "kernels/draw-inl.h"
#include "kernels/draw_words-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/score_blocks-inl.h"
#include "kernels/select-inl.h"
#include "kernels/weights-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr SelectKernels kSelect = {.max_score = MaxScore,
                                          .select_range = SelectRange,
                                          .take_not_below = TakeNotBelow,
                                          .mark_not_below = MarkNotBelow,
                                          .top_threshold = TopThreshold,
                                          .select_top_k = SelectTopK,
                                          .summarize_scores = SummarizeScores,
                                          .select_from_blocks = SelectFromBlocks};
extern constexpr WeightKernels kWeights = {.exp_weights = ExpWeights,
                                           .to_logits = ToLogits,
                                           .sum_weights = SumWeights,
                                           .sum_not_below = SumNotBelow};
extern constexpr DrawKernels kDraw = {.sum_at_most = SumAtMost,
                                      .find_margins = FindMargins,
                                      .keep_tokens = KeepTokens,
                                      .part_drawn = PartDrawn,
                                      .draw_by_words = DrawByWords};

}  // namespace attndb::kernels::ATTNDB_TARGET
