// Value planes: the values of a run of tokens quantized to 2, 4 or 8 bits, and weighted sums of
// them.
//
// Block:   kValueBlock tokens share a mean (a bfloat16 a channel), a scale, and a bound of their
//          values' norms; the last block may have fewer. A row of codes is num_elements * bits / 8
//          bytes, rows lie in token order.
// Code:    2 and 4 bits: v = mean + scale * (c - (2^bits - 1) / 2), c of channel i in bits
//          [i * bits, ...) of its row, low ones first; the scale is the step that is best for
//          normal variates of the block's deviation, what lies beyond the last step is clipped.
//          8 bits: v = scale * c, c a signed byte of -127 to 127, so that a row can be read without
//          its block's mean; the scale is max|v| / 127. 0 bits: the means alone.
// Errors:  none; sizes are preconditions. Values are finite. *scale is not finite, and codes mean
//          nothing, where the block's squares overflow float32.
// Threads: stateless; concurrent calls must not share outputs.
// Source:  steps for normal variates: Max, Quantizing for minimum distortion, IRE Trans. IT-6,
//          1960, table II.
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
  uint32_t bits = 0;                // 0, 2, 4 or 8.
  size_t num_elements = 0;          // A multiple of 16, at most kMaxRowElements.
};

// One block to be written.
struct ValueBlock {
  uint8_t* codes = nullptr;
  uint16_t* mean = nullptr;
  float* scale = nullptr;
  float* norm = nullptr;
};

// Makes a block of rows [num_tokens, num_elements] of float32, `stride` elements apart. The rows
// are scratch: they hold something else afterwards. REQUIRES: 0 < num_tokens <= kValueBlock.
void EncodeValues(float* rows, size_t stride, size_t num_tokens, size_t num_elements, uint32_t bits,
                  const ValueBlock& block);

// Upper bound of the norms of rows, off by less than 2^-15 of itself; Inf where a square overflows.
float LongestRow(const RowsView& rows, size_t num_rows);

// out += sum of weights[i] * v of tokens i < num_tokens of a block. What weighs 0 is not read.
// out: num_elements.
void AddValueBlock(const ValuePlanesView& values, size_t block, const float* weights,
                   size_t num_tokens, float* out);

// out += weight * the mean of a block.
void AddValueMean(const ValuePlanesView& values, size_t block, float weight, float* out);

// As AttendScored (attend.h) with values of 8 bits. REQUIRES: bits 8; indices are not null.
void AttendCoded(const float* scores, size_t scores_stride, size_t num_q_rows,
                 const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                 const LogitSpec& logit, const StateRows& states);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_VALUE_PLANES_H_
