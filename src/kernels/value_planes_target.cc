// Value planes: value_planes.h.
#include "kernels/kernel_table.h"
#include "kernels/value_planes-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr ValueKernels kValues = {.encode_values = EncodeValues,
                                         .mean_of_values = MeanOfValues,
                                         .longest_row = LongestRow,
                                         .add_value_mean = AddValueMean,
                                         .attend_coded = AttendCoded};

}  // namespace attndb::kernels::ATTNDB_TARGET
