// Values of a run of tokens in smaller forms: value planes, codes of 8 bits; and value means, a
// mean and a bound of the norms for each block.
//
// Block:   kValueBlock tokens; the last one may have fewer. Value planes have a scale for each
//          block, value means a mean (a bfloat16 a channel) and a norm.
// Code:    v = scale * c, c a signed byte of -127 to 127, so that a row can be read by itself; the
//          scale is max|v| / 127. A row of codes is num_elements bytes, rows lie in token order.
// Errors:  none; sizes are preconditions. Values are finite. A norm is not finite, and the mean may
//          be neither, where the block's squares overflow float32.
// Threads: stateless; concurrent calls must not share outputs.
#ifndef ATTNDB_KERNELS_VALUE_PLANES_H_
#define ATTNDB_KERNELS_VALUE_PLANES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/layout.h"

namespace attndb::kernels {

inline constexpr size_t kValueBlock = 64;  // The same as kWeightBlock.

constexpr size_t NumValueBlocks(size_t num_tokens) {
  return (num_tokens + kValueBlock - 1) / kValueBlock;
}

// Not owned. num_elements is a multiple of 16, at most kMaxRowElements.
struct ValuePlanesView {
  const uint8_t* codes = nullptr;  // [num_tokens][num_elements]. Fastest if 64-byte aligned.
  const float* scales = nullptr;   // [NumValueBlocks]
  size_t num_elements = 0;
};
struct ValueMeansView {
  const uint16_t* means = nullptr;  // [NumValueBlocks][num_elements]
  const float* norms = nullptr;     // [NumValueBlocks]: no value of the block is longer.
  size_t num_elements = 0;
};

// A block of float32 rows [num_tokens, num_elements], `stride` elements apart.
struct ValueRows {
  const float* rows = nullptr;
  size_t stride = 0;
  size_t num_tokens = 0;  // 1 to kValueBlock.
  size_t num_elements = 0;
};

// Makes the codes of a block.
void EncodeValues(const ValueRows& block, uint8_t* codes, float* scale);

// Makes the mean of a block, and the bound of its norms.
void MeanOfValues(const ValueRows& block, uint16_t* mean, float* norm);

// Upper bound of the norms of rows, too large by less than 2^-15 of itself; Inf where a square
// overflows.
float LongestRow(const RowsView& rows, size_t num_rows);

// out += weight * the mean of a block. out: num_elements.
void AddValueMean(const ValueMeansView& values, size_t block, float weight, float* out);

// Like AttendScored (attend.h) with codes. REQUIRES: indices are not null.
void AttendCoded(const float* scores, size_t scores_stride, size_t num_q_rows,
                 const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                 const LogitSpec& logit, const StateRows& states);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_VALUE_PLANES_H_
