// Conversion and products of whole rows: convert.h, hadamard.h, centre.h, combine.h, byte_dot.h,
// bandwidth.h.
#include "kernels/bandwidth-inl.h"
#include "kernels/byte_dot-inl.h"
#include "kernels/centre-inl.h"
#include "kernels/combine-inl.h"
#include "kernels/convert-inl.h"
#include "kernels/hadamard-inl.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr RowKernels kRows = {.convert_rows = ConvertRows,
                                     .hadamard_rows = HadamardRows,
                                     .sum_rows = SumRows,
                                     .centre_rows = CentreRows,
                                     .add_combinations = AddCombinations,
                                     .dot_bytes = DotBytes,
                                     .xor_words = XorWords};

}  // namespace attndb::kernels::ATTNDB_TARGET
