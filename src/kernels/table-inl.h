// Internal: the table of the target that includes this.
#ifndef ATTNDB_KERNELS_TABLE_INL_H_
#define ATTNDB_KERNELS_TABLE_INL_H_

#include "kernels/attend-inl.h"
#include "kernels/attend_block-inl.h"
#include "kernels/bandwidth-inl.h"
#include "kernels/byte_dot-inl.h"
#include "kernels/centre-inl.h"
#include "kernels/combine-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/draw-inl.h"
#include "kernels/hadamard-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/planes-inl.h"
#include "kernels/score_blocks-inl.h"
#include "kernels/select-inl.h"
#include "kernels/sign_plane-inl.h"
#include "kernels/value_planes-inl.h"
#include "kernels/weights-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

constexpr KernelTable kTable = {
    .attend = Attend,
    .attend_scored = AttendScored,
    .score = Score,
    .attend_block = AttendBlock,
    .max_score = MaxScore,
    .select_range = SelectRange,
    .take_not_below = TakeNotBelow,
    .mark_not_below = MarkNotBelow,
    .top_threshold = TopThreshold,
    .select_top_k = SelectTopK,
    .exp_weights = ExpWeights,
    .to_logits = ToLogits,
    .sum_weights = SumWeights,
    .sum_not_below = SumNotBelow,
    .sum_at_most = SumAtMost,
    .lift_scores = LiftScores,
    .keep_tokens = KeepTokens,
    .part_drawn = PartDrawn,
    .summarize_scores = SummarizeScores,
    .select_from_blocks = SelectFromBlocks,
    .convert_rows = ConvertRows,
    .encode_planes = EncodePlanes,
    .encode_plane_query = EncodePlaneQuery,
    .scan_planes = ScanPlanes,
    .scan_plane_blocks = ScanPlaneBlocks,
    .keep_planes = KeepPlanes,
    .encode_sign_query = EncodeSignQuery,
    .scan_signs = ScanSigns,
    .hadamard_rows = HadamardRows,
    .sum_rows = SumRows,
    .centre_rows = CentreRows,
    .add_combinations = AddCombinations,
    .encode_values = EncodeValues,
    .longest_row = LongestRow,
    .add_value_block = AddValueBlock,
    .add_value_mean = AddValueMean,
    .attend_coded = AttendCoded,
    .dot_bytes = DotBytes,
    .xor_words = XorWords,
};

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_TABLE_INL_H_
