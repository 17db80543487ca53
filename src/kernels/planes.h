// Key planes: keys quantized to 8 bits and kept as two planes of nibbles, and the scan that scores
// all keys for the q rows of a group from the high plane alone (4 bits) or from both (8 bits).
//
// Code:    c = x / scale of the key, to nearest, ties to even, in [-128, 127]; u = c + 128. The
//          high plane holds u >> 4, the low plane u & 15. (The computation multiplies x by the
//          float32 reciprocal of the scale, and 128 becomes 127; |x - scale * c| <= scale / 2,
//          except for that rounding.)
// Scales:  a bfloat16 for each key: the smallest normal one that is at least max|x| / 127.5, or 0
//          if all x are 0. So keys below about 2^-119 have few or no codes other than 0, and no
//          reciprocal of a scale overflows.
// Block:   kPlaneKeys keys; those past the end have code 0 and scale 0. num_channels is a multiple
//          of 16. A plane of a block is num_channels / 8 lines of 64 bytes. Line o holds channels
//          8o to 8o + 7: byte 4 * key + i has channel 8o + i in its low half and channel
//          8o + 4 + i in its high half.
// Bits:    integers are exact and floats go through the same operations on every ISA, so codes and
//          scores have the same bits everywhere.
// Errors:  none; sizes are preconditions. All inputs are finite: the caller keeps NaN and inf out.
// Threads: stateless.
// Source:  nibble planes of one code serve two precisions as in bit-sliced scans (BitWeaving, Li
//          and Patel, SIGMOD 2013). Ours differs in that keys lie side by side in 32-bit lanes, so
//          that a product of bytes never crosses keys and no sum is reduced across lanes.
#ifndef ATTNDB_KERNELS_PLANES_H_
#define ATTNDB_KERNELS_PLANES_H_

#include <cstddef>
#include <cstdint>

#include "kernels/draw.h"

namespace attndb::kernels {

inline constexpr size_t kPlaneKeys = 16;   // Keys of a block.
inline constexpr size_t kOffsetKeys = 64;  // Keys that may have an offset of their own.

// Bytes of one plane of one block.
constexpr size_t PlaneBlockBytes(size_t num_channels) { return kPlaneKeys * num_channels / 2; }

// Blocks one after another, each plane by itself; not owned. Fastest if 64-byte aligned.
struct PlanesView {
  const uint8_t* high = nullptr;
  const uint8_t* low = nullptr;      // May be null for scans of 4 bits.
  const uint16_t* scales = nullptr;  // kPlaneKeys of them for each block.
  size_t num_channels = 0;
};

// A quantized q row, and an addition to each of its scores (q times the mean of the keys, if the
// keys were centred).
struct PlaneQuery {
  const int8_t* codes = nullptr;  // [num_channels], from EncodePlaneQuery. Not owned.
  float scale = 0.0f;
  float offset = 0.0f;
  int32_t code_sum = 0;
  // Null, or q times the mean of the keys of block b, which begins at kOffsetKeys * b; added to the
  // offset, and found at [b - block of the scan's first key]. Not owned.
  const float* block_offsets = nullptr;
};

// The output for one block of keys, made in one pass over them. Not owned.
struct PlaneBlock {
  uint8_t* high = nullptr;     // [PlaneBlockBytes()]
  uint8_t* low = nullptr;      // [PlaneBlockBytes()]
  uint16_t* scales = nullptr;  // [kPlaneKeys]
  // [num_keys]: squared norm of x - scale * c (8 bits), in float32; inf where it overflows.
  float* residual_sq = nullptr;
};

// Encodes one block: rows [num_keys, num_channels], `stride` elements apart.
// REQUIRES: 0 < num_keys <= kPlaneKeys; nothing in `block` is null.
void EncodePlanes(const float* rows, size_t stride, size_t num_keys, size_t num_channels,
                  const PlaneBlock& block);

// Encodes a q row: codes are q divided by *scale, which is 0 if q is all zeros. A code is in [-127,
// 127], and codes of channels 2i and 2i + 1 add up to at most 128 in magnitude, so that the sum of
// their products with bytes fits 16 bits: *scale is the largest |q| or |sum of two| over 127, at
// least 2^-126. For normal variates that is 1.33 times what single channels would need.
void EncodePlaneQuery(const float* q, size_t num_channels, int8_t* codes, float* scale,
                      int32_t* code_sum);

// scores[r * scores_stride + i] = (q.scale * k.scale) * sum + offset for q = queries[r] and key
// first_key + i, i in [0, num_keys), with the offset of q and the key's block, where, over all
// channels,
//   bits 8: sum = 16 * S_high + S_low - 128 * q.code_sum     S_x = sum of nibble times q code
//   bits 4: sum = 16 * S_high + (7.5 - 128) * q.code_sum     (the middle of what S_low may be)
// The sum is exact up to its one rounding to float32. The keys are read once for all q rows.
// REQUIRES: bits 4 or 8; num_channels <= kMaxRowElements; planes hold all blocks of these keys.
void ScanPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                const PlaneQuery* queries, size_t num_q_rows, float* scores, size_t scores_stride);

// A list of blocks of kOffsetKeys keys: block b is keys [b * kOffsetKeys, (b + 1) * kOffsetKeys),
// as far as they are below num_keys. Not owned.
struct PlaneBlocks {
  const uint32_t* blocks = nullptr;
  size_t num_blocks = 0;
  size_t num_keys = 0;  // Number of keys of the planes.
};

// Like ScanPlanes, for the keys of listed blocks: the i-th block's scores are at scores[r *
// scores_stride + i * kOffsetKeys], with block_offsets[i] of its query. Scores of keys from
// num_keys on are meaningless. REQUIRES: scores have kOffsetKeys elements for every block.
void ScanPlaneBlocks(const PlanesView& planes, int bits, const PlaneBlocks& list,
                     const PlaneQuery* queries, size_t num_q_rows, float* scores,
                     size_t scores_stride);

// Most q rows of KeepPlanes.
inline constexpr size_t kKeepRows = 4;

// Most keys of a scan that skips some.
inline constexpr size_t kMostSkipping = 4096;

// ScanPlanes and, with its scores, KeepTokens (draw.h), in one pass that writes only the scores of
// kept tokens. noise and first_token belong to first_key. needs: null, or for block b of
// kOffsetKeys keys, counted from first_key's, the least noise by which one of its keys may be kept:
// where no noise comes up to that, keys are not scored. Returns how many were scored.
// REQUIRES: as ScanPlanes; 1 <= num_q_rows <= kKeepRows; first_key and num_keys are multiples of
// kPlaneKeys; the rule's logits have no cap; with needs, first_key is a multiple of kOffsetKeys and
// num_keys at most kMostSkipping.
size_t KeepPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                  const PlaneQuery* queries, size_t num_q_rows, const DrawRule& rule,
                  const float* noise, uint32_t first_token, const float* needs, KeptTokens* kept);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_PLANES_H_
