// Internal: the table of the target that includes this.
#ifndef ATTNDB_KERNELS_TABLE_INL_H_
#define ATTNDB_KERNELS_TABLE_INL_H_

#include "kernels/attend-inl.h"
#include "kernels/attend_block-inl.h"
#include "kernels/bandwidth-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/hadamard-inl.h"
#include "kernels/kernel_table.h"
#include "kernels/planes-inl.h"
#include "kernels/select-inl.h"
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
    .select_top_k = SelectTopK,
    .exp_weights = ExpWeights,
    .sum_weights = SumWeights,
    .sum_not_below = SumNotBelow,
    .convert_rows = ConvertRows,
    .encode_planes = EncodePlanes,
    .encode_plane_query = EncodePlaneQuery,
    .scan_planes = ScanPlanes,
    .hadamard_rows = HadamardRows,
    .xor_words = XorWords,
};

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_TABLE_INL_H_
