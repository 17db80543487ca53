// Random rows of K, V and q as they are stored: elements of a dtype, zeros as padding.
//
// Threads: pure functions but for the generator.
#ifndef ATTNDB_TESTING_KV_DATA_H_
#define ATTNDB_TESTING_KV_DATA_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attndb/dtype.h"
#include "common/aligned_buffer.h"
#include "common/random.h"

namespace attndb::test {

struct RowsSpec {
  DType dtype = DType::kFloat16;
  uint64_t num_rows = 0;
  uint32_t head_dim = 0;
};

// Normal numbers of mean 0 and variance 1, rounded to the dtype (towards zero: any value will do).
AlignedBuffer RandomRows(const RowsSpec& spec, Random* random);

// Element `column` of row `row` becomes NaN.
void SetNan(const RowsSpec& spec, uint64_t row, uint32_t column, std::byte* rows);

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_KV_DATA_H_
