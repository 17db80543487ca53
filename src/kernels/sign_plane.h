// The sign plane: a copy of the sign bits of key planes, and the scan that scores all keys for the
// q rows of a group from one bit a channel.
//
// Estimate: q.k is taken as factor * sum of sign(c_i) q_i, with the codes c of the key (0 counts as
//           positive) and factor = |c|^2 / sum|c_i| times the key's scale: RaBitQ's correction.
//           Over random rotations of q and k its mean is q.k, and its deviation some 0.76 |q| |k|
//           / sqrt(num_channels). The factor is a bfloat16 of its own: the scale of the codes
//           follows the largest channel, and differs from it by some 11 % from key to key.
// Block:    kSignKeys keys, the blocks 2b and 2b + 1 of the planes, made with these by
//           EncodePlanes; missing keys have factor 0.
//           num_channels is a multiple of 16. A block is num_channels / 8 parts of 32 bytes, for
//           channels 8o to 8o + 7: byte 16 * h + 4 * t + j has channels 8o + 4h + i (bit i, set
//           if positive) of key 8t + j in its low half and of key 8t + 4 + j in its high half.
// Query:    codes of q are whole numbers; a table of 16 bytes holds what each pattern of four bits
//           adds to the least sum of those four channels. Magnitudes of codes of 128 channels,
//           from a multiple of 128 on, add up to at most 255, so that sums of entries fit a byte.
//           On normal rows of 128 channels that adds 2 % to the deviation.
// Bits:     integers are exact and floats go through the same operations on every ISA.
// Errors:   none; sizes are preconditions.
// Threads:  stateless.
// Source:   tables in registers as in Quicker ADC (Andre, Kermarrec, Le Scouarnec, TPAMI 2019);
//           signs with a factor for each key: RaBitQ (Gao and Long, SIGMOD 2024). Ours differs in
//           that q rows of a group share what is read, and that sums stay bytes to the end.
#ifndef ATTNDB_KERNELS_SIGN_PLANE_H_
#define ATTNDB_KERNELS_SIGN_PLANE_H_

#include <cstddef>
#include <cstdint>

#include "kernels/planes.h"

namespace attndb::kernels {

inline constexpr size_t kSignKeys = 2 * kPlaneKeys;  // Keys of a block.

constexpr size_t SignBlockBytes(size_t num_channels) { return kSignKeys * num_channels / 8; }
// Of the part of a block of planes, in bytes from the first block of signs on.
constexpr size_t SignOffset(size_t key, size_t num_channels) {
  return key / kSignKeys * SignBlockBytes(num_channels) + key % kSignKeys / kPlaneKeys * 8;
}
constexpr size_t SignTableBytes(size_t num_channels) { return num_channels / 4 * 16; }

// Blocks one after the other; not owned. Fastest if 64-byte aligned.
struct SignView {
  const uint8_t* signs = nullptr;
  const uint16_t* factors = nullptr;  // kSignKeys for each block, bfloat16.
  size_t num_channels = 0;
};

// A quantized q row and what to add to each of its scores.
struct SignQuery {
  const uint8_t* tables = nullptr;  // SignTableBytes(), 16 for each four channels. Not owned.
  float scale = 0.0f;
  float offset = 0.0f;
  int32_t magnitude_sum = 0;             // Of the codes.
  const float* block_offsets = nullptr;  // As of PlaneQuery.
};

// Makes the tables of a q row; *scale is 0 for a q of zeros, else at least 2^-126.
void EncodeSignQuery(const float* q, size_t num_channels, uint8_t* tables, float* scale,
                     int32_t* magnitude_sum);

// scores[r * scores_stride + i] = (q.scale * factor) * (2 * T - q.magnitude_sum) + offset for q =
// queries[r] and key first_key + i, i in [0, num_keys), with the offset of q and the key's block;
// T: sum of the table entries of the key.
// The keys are read once for all q rows.
// REQUIRES: num_channels <= kMaxRowElements; signs hold all blocks of these keys.
void ScanSigns(const SignView& signs, size_t first_key, size_t num_keys, const SignQuery* queries,
               size_t num_q_rows, float* scores, size_t scores_stride);

}  // namespace attndb::kernels

#endif  // ATTNDB_KERNELS_SIGN_PLANE_H_
