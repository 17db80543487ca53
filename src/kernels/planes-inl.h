// Internal: key planes. What is the same for every target: scales, the pass over blocks, and the
// step from integer sums to scores.
//
// A pass has up to four q rows, whose int16 sums for 16 keys take 8 of AVX2's 16 registers. More
// rows take more passes over each tile of keys, which then lies in the L1 cache.
#ifndef ATTNDB_KERNELS_PLANES_INL_H_
#define ATTNDB_KERNELS_PLANES_INL_H_

#include "kernels/dot-inl.h"
#include "kernels/float_bits-inl.h"
#include "kernels/layout.h"
#include "kernels/planes.h"
#include "kernels/planes_avx2-inl.h"
#include "kernels/planes_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kMaxPlaneRows = 4;
static_assert(kTile % kPlaneKeys == 0);

// The least scale: the smallest normal number, whose reciprocal is finite.
inline constexpr uint32_t kLeastScale = 0x0080;  // As bfloat16.

inline float MaxMagnitude(const float* x, size_t num_channels) {
  Vec largest = Zero();
  for (size_t i = 0; i < num_channels; i += kLanes) largest = Max(largest, Abs(Load(x + i)));
  return ReduceMax(largest);
}

// A bfloat16 in the low bits.
inline uint32_t KeyScale(float max) {
  const uint32_t above = (BitsOfFloat(max / 127.5f) + 0xffffu) >> 16;
  return max == 0 ? 0 : above < kLeastScale ? kLeastScale : above;
}

void EncodePlanes(const float* rows, size_t stride, size_t num_keys, size_t num_channels,
                  uint8_t* high, uint8_t* low, uint16_t* scales, float* residual_sq) {
  BlockRows keys;
  keys.num_keys = num_keys;
  float max[kPlaneKeys];
  for (size_t key = 0; key < kPlaneKeys; ++key) {
    const bool present = key < num_keys;
    keys.row[key] = present ? rows + key * stride : rows;
    max[key] = present ? MaxMagnitude(keys.row[key], num_channels) : 0.0f;
  }
  for (size_t key = 0; key < kPlaneKeys; ++key) {  // In registers: divisions are slow one by one.
    const uint32_t bits = KeyScale(max[key]);
    scales[key] = static_cast<uint16_t>(bits);
    keys.scale[key] = FloatOfBits(bits << 16);
    keys.inverse[key] = max[key] == 0 ? 0.0f : 1.0f / keys.scale[key];
  }
  EncodeBlock(keys, num_channels, high, low, residual_sq);
}

void EncodePlaneQuery(const float* q, size_t num_channels, int8_t* codes, float* scale,
                      int32_t* code_sum) {
  const float max = MaxMagnitude(q, num_channels);
  const float least = WidenBFloat16(kLeastScale);
  const float wanted = max / 127.0f;
  *scale = max == 0 ? 0.0f : wanted < least ? least : wanted;
  const float inverse = max == 0 ? 0.0f : 1.0f / *scale;
  int32_t sum = 0;
  for (size_t i = 0; i < num_channels; ++i) {
    const int32_t code = static_cast<int32_t>(RoundOne(q[i] * inverse));
    codes[i] = static_cast<int8_t>(code);
    sum += code;
  }
  *code_sum = sum;
}

template <int kBits>
inline RowTerms TermsOf(const PlaneQuery& query) {
  if (kBits == 8) return {128 * query.code_sum, query.scale, query.offset};
  return {241 * query.code_sum, 0.5f * query.scale, query.offset};  // See HighWeight().
}

// Keys [begin, end) and kRows rows; fetches what lies `ahead` bytes further on in each plane.
template <int kBits, size_t kRows>
[[gnu::noinline]] void ScanPass(const PlanesView& planes, size_t begin, size_t end, size_t ahead,
                                const PlaneQuery* queries, float* scores, size_t scores_stride) {
  const size_t num_channels = planes.num_channels;
  Codes<kRows> codes;
  RowTerms terms[kRows];
  for (size_t r = 0; r < kRows; ++r) {
    codes.row[r] = queries[r].codes;
    terms[r] = TermsOf<kBits>(queries[r]);
  }
  alignas(64) int32_t sums[kRows * kPlaneKeys];
  alignas(64) float parts[kRows * kPlaneKeys];  // Of a block at an end.
  const size_t first = begin / kPlaneKeys * kPlaneKeys;
  const uint8_t* high = planes.high + first / kPlaneKeys * PlaneBlockBytes(num_channels);
  const uint8_t* low = kBits == 8 ? planes.low + (high - planes.high) : nullptr;
  const uint16_t* scales = planes.scales + first;
  for (size_t key = first; key < end; key += kPlaneKeys, scales += kPlaneKeys) {
    SumBlock<kBits, kRows>(high, low, ahead, codes, num_channels, sums);
    high += PlaneBlockBytes(num_channels);
    if (kBits == 8) low += PlaneBlockBytes(num_channels);
    const bool whole = key >= begin && end - key >= kPlaneKeys;
    float* const out = whole ? scores + (key - begin) : parts;
    const size_t out_stride = whole ? scores_stride : kPlaneKeys;
    ScoreBlock<kRows>(sums, scales, terms, out, out_stride);
    if (whole) continue;
    for (size_t k = key < begin ? begin : key; k < end && k < key + kPlaneKeys; ++k) {
      for (size_t r = 0; r < kRows; ++r) {
        scores[r * scores_stride + (k - begin)] = parts[r * kPlaneKeys + (k - key)];
      }
    }
  }
}

template <int kBits>
void ScanBits(const PlanesView& planes, size_t first_key, size_t num_keys,
              const PlaneQuery* queries, size_t num_q_rows, float* scores, size_t scores_stride) {
  const size_t end = first_key + num_keys;
  // The planes share what can be on its way at a time.
  constexpr size_t kAhead = kBits == 4 ? kPrefetchBytes : kPrefetchBytes / 2;
  for (size_t begin = first_key; begin < end;) {
    const size_t next = (begin / kTile + 1) * kTile;
    const size_t tile_end = next < end && num_q_rows > kMaxPlaneRows ? next : end;
    float* const tile_scores = scores + (begin - first_key);
    size_t r = 0;
    while (r < num_q_rows) {
      const auto pass = [&]<size_t kRows>() {
        ScanPass<kBits, kRows>(planes, begin, tile_end, r == 0 ? kAhead : 0, queries + r,
                               tile_scores + r * scores_stride, scores_stride);
        r += kRows;
      };
      // Rows are spread evenly over the least number of passes: 5 are 3 + 2, 9 are 3 + 3 + 3.
      const size_t left = num_q_rows - r;
      const size_t num_passes = (left + kMaxPlaneRows - 1) / kMaxPlaneRows;
      const size_t num_rows = (left + num_passes - 1) / num_passes;
      if (num_rows == 4) pass.template operator()<4>();
      if (num_rows == 3) pass.template operator()<3>();
      if (num_rows == 2) pass.template operator()<2>();
      if (num_rows == 1) pass.template operator()<1>();
    }
    begin = tile_end;
  }
}

void ScanPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                const PlaneQuery* queries, size_t num_q_rows, float* scores, size_t scores_stride) {
  if (bits == 4) {
    ScanBits<4>(planes, first_key, num_keys, queries, num_q_rows, scores, scores_stride);
  } else {
    ScanBits<8>(planes, first_key, num_keys, queries, num_q_rows, scores, scores_stride);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_PLANES_INL_H_
