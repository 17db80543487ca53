// Value planes: the values of a run of tokens quantized to 8 bits, and their means.
//
// Block:   kValueBlock tokens share a mean (a bfloat16 a channel), a scale, and a bound of their
//          values' norms; the last block may have fewer. A row of codes is num_elements bytes, rows
//          lie in token order.
// Code:    v = scale * c, c a signed byte of -127 to 127, so that a row can be read without its
//          block's mean; the scale is max|v| / 127. 0 bits: the means alone.
// Errors:  none; sizes are preconditions. Values are finite. *scale is not finite, and codes mean
//          nothing, where the block's squares overflow float32.
// Threads: stateless; concurrent calls must not share outputs.
#ifndef ATTNDB_KERNELS_VALUE_PLANES_H_
#define ATTNDB_KERNELS_VALUE_PLANES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/attention_state.h"
#include "kernels/layout.h"

namespace attndb::kernels {

inline constexpr size_t kValueBlock = 64;  // As kWeightBlock.

constexpr size_t NumValueBlocks(size_t num_tokens) {
  return (num_tokens + kValueBlock - 1) / kValueBlock;
}

// Bytes of a row of codes.
constexpr size_t ValueRowBytes(size_t num_elements, uint32_t bits) {
  return num_elements * bits / 8;
}

// Not owned. Fastest if codes are 64-byte aligned.
struct ValuePlanesView {
  const uint8_t* codes = nullptr;   // [num_tokens][ValueRowBytes]; null for 0 bits.
  const uint16_t* means = nullptr;  // [NumValueBlocks][num_elements]
  const float* scales = nullptr;    // [NumValueBlocks]
  const float* norms = nullptr;     // [NumValueBlocks]: no value of the block is longer.
  uint32_t bits = 0;                // 0 or 8.
  size_t num_elements = 0;          // A multiple of 16, at most kMaxRowElements.
};

// One block to be written.
struct ValueBlock {
  uint8_t* codes = nullptr;
  uint16_t* mean = nullptr;
  float* scale = nullptr;
  float* norm = nullptr;
};

// Makes a block of rows [num_tokens, num_elements] of float32, `stride` elements apart.
// REQUIRES: 0 < num_tokens <= kValueBlock.
void EncodeValues(const float* rows, size_t stride, size_t num_tokens, size_t num_elements,
                  uint32_t bits, const ValueBlock& block);

// Upper bound of the norms of rows, off by less than 2^-15 of itself; Inf where a square overflows.
float LongestRow(const RowsView& rows, size_t num_rows);

// out += weight * the mean of a block. out: num_elements.
void AddValueMean(const ValuePlanesView& values, size_t block, float weight, float* out);

// As AttendScored (attend.h) with values of 8 bits. REQUIRES: bits 8; indices are not null.
void AttendCoded(const float* scores, size_t scores_stride, size_t num_q_rows,
                 const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                 const LogitSpec& logit, const StateRows& states);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_VALUE_PLANES_H_
