// Internal: value planes. A block's tokens are summed a few channels at a time, in registers; its
// mean and scale are applied once.
#ifndef ATTNDB_KERNELS_VALUE_PLANES_INL_H_
#define ATTNDB_KERNELS_VALUE_PLANES_INL_H_

#include "kernels/attend-inl.h"
#include "kernels/value_planes.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// The step that loses least of normal variates of deviation 1 (Max 1960).
inline constexpr float kStep2 = 0.9957f;
inline constexpr float kStep4 = 0.3352f;

// Codes of 2 and 4 bits stand for steps around this.
template <uint32_t kBits>
inline constexpr float kMiddleCode = static_cast<float>((1u << kBits) - 1) / 2;

// Scales whose reciprocal would overflow are 0.
inline constexpr float kLeastValueScale = 0x1p-120f;

inline const BFloat16* MeanOf(const ValuePlanesView& values, size_t block) {
  return reinterpret_cast<const BFloat16*>(values.means) + block * values.num_elements;
}

// Writes a block's mean; what it leaves of the rows, in their place if `centres`. Returns the sum
// of the squares of that.
inline float TakeMean(float* rows, size_t stride, size_t num_tokens, size_t num_elements,
                      bool centres, BFloat16* mean) {
  const Vec share = Set1(1.0f / static_cast<float>(num_tokens));
  Vec squares = Zero();
  for (size_t d = 0; d < num_elements; d += kLanes) {
    Vec sum = Zero();
    for (size_t i = 0; i < num_tokens; ++i) sum = Add(sum, Load(rows + i * stride + d));
    StoreRow(mean + d, Mul(sum, share));
    const Vec stored = LoadRow(mean + d);
    for (size_t i = 0; i < num_tokens; ++i) {
      float* const at = rows + i * stride + d;
      const Vec x = Sub(Load(at), stored);
      squares = Fma(x, x, squares);
      if (centres) Store(at, x);
    }
  }
  return ReduceAdd(squares);
}

// No row is longer: upper bound of the roots of sums in float32, of which each of at most 1024 / 4
// additions, and those of the lanes, loses 2^-24, and terms below its range may be missing.
template <typename T>
inline float LongestOf(const T* rows, size_t stride, size_t num_rows, size_t num_elements) {
  float largest = 0.0f;
  for (size_t i = 0; i < num_rows; ++i) {
    Vec sum = Zero();
    for (size_t d = 0; d < num_elements; d += kLanes) {
      const Vec x = LoadRow(rows + i * stride + d);
      sum = Fma(x, x, sum);
    }
    const float square = ReduceAdd(sum);
    if (!(square <= largest)) largest = square;
  }
  const double square =
      static_cast<double>(largest) * (1 + 0x1p-15) + static_cast<double>(num_elements) * 0x1p-140;
  return static_cast<float>(__builtin_sqrt(square) * (1 + 0x1p-23));
}

float LongestRow(const RowsView& rows, size_t num_rows) {
  float longest = 0.0f;
  WithElement(rows.dtype, [&]<typename T>() {
    longest = LongestOf(static_cast<const T*>(rows.data), rows.stride, num_rows, rows.num_elements);
  });
  return longest;
}

inline float LargestOf(const float* rows, size_t stride, size_t num_tokens, size_t num_elements) {
  Vec largest = Zero();
  for (size_t i = 0; i < num_tokens; ++i) {
    for (size_t d = 0; d < num_elements; d += kLanes) {
      largest = Max(largest, Abs(Load(rows + i * stride + d)));
    }
  }
  return ReduceMax(largest);
}

// Whole numbers round(x * inverse + shift) in [low, high].
inline void QuantizeRow(const float* x, size_t num_elements, float inverse, float shift, float low,
                        float high, float* codes) {
  for (size_t d = 0; d < num_elements; d += kLanes) {
    const Vec clipped =
        Max(Set1(low), Min(Set1(high), Fma(Load(x + d), Set1(inverse), Set1(shift))));
    Store(codes + d, Round(clipped));
  }
}

// Codes of a row, `8 / kBits` to a byte.
template <uint32_t kBits>
inline void PackRow(const float* codes, size_t num_elements, uint8_t* out) {
  constexpr size_t kCount = 8 / kBits;
  for (size_t i = 0; i < num_elements / kCount; ++i) {
    uint32_t byte = 0;
    for (size_t j = 0; j < kCount; ++j) {
      byte |= static_cast<uint32_t>(static_cast<int32_t>(codes[i * kCount + j])) << (j * kBits);
    }
    out[i] = static_cast<uint8_t>(byte);
  }
}

template <uint32_t kBits>
inline void EncodeRows(const float* rows, size_t stride, size_t num_tokens, size_t num_elements,
                       float scale, uint8_t* codes) {
  constexpr bool kSigned = kBits == 8;
  constexpr float kLow = kSigned ? -127.0f : 0.0f;
  constexpr float kHigh = kSigned ? 127.0f : static_cast<float>((1u << kBits) - 1);
  const float inverse = scale == 0 ? 0.0f : 1.0f / scale;
  float row[kMaxRowElements];
  for (size_t i = 0; i < num_tokens; ++i) {
    QuantizeRow(rows + i * stride, num_elements, inverse, kSigned ? 0.0f : kMiddleCode<kBits>, kLow,
                kHigh, row);
    PackRow<kBits>(row, num_elements, codes + i * ValueRowBytes(num_elements, kBits));
  }
}

// The step of codes of 2 and 4 bits, by the squares of what the mean left.
inline float StepFor(uint32_t bits, float squares, size_t count) {
  const float deviation = __builtin_sqrtf(squares / static_cast<float>(count));
  return (bits == 2 ? kStep2 : kStep4) * deviation;
}

void EncodeValues(float* rows, size_t stride, size_t num_tokens, size_t num_elements, uint32_t bits,
                  const ValueBlock& block) {
  const bool centres = bits == 2 || bits == 4;
  *block.norm = LongestOf(rows, stride, num_tokens, num_elements);
  const float squares = TakeMean(rows, stride, num_tokens, num_elements, centres,
                                 reinterpret_cast<BFloat16*>(block.mean));
  float scale = 0.0f;
  if (centres) scale = StepFor(bits, squares, num_tokens * num_elements);
  if (bits == 8) scale = LargestOf(rows, stride, num_tokens, num_elements) / 127.0f;
  if (scale < kLeastValueScale) scale = 0.0f;
  if (!(squares < kInfinity)) scale = kInfinity;
  *block.scale = scale;
  if (bits == 2) EncodeRows<2>(rows, stride, num_tokens, num_elements, scale, block.codes);
  if (bits == 4) EncodeRows<4>(rows, stride, num_tokens, num_elements, scale, block.codes);
  if (bits == 8) EncodeRows<8>(rows, stride, num_tokens, num_elements, scale, block.codes);
}

// sums[c] += sum of weights[i] * code of token i, channels from `element` on.
template <uint32_t kBits, size_t kVecs>
inline void SumCodes(const uint8_t* codes, size_t row_bytes, const float* weights,
                     size_t num_tokens, size_t element, Vec (&sums)[kVecs]) {
  const uint8_t* row = codes + element * kBits / 8;
  for (size_t i = 0; i < num_tokens; ++i, row += row_bytes) {
    if (weights[i] == 0) continue;
    const Vec weight = Set1(weights[i]);
#pragma GCC unroll 16
    for (size_t c = 0; c < kVecs; ++c) {
      sums[c] = Fma(weight, LoadCodes<kBits>(row + c * kLanes * kBits / 8), sums[c]);
    }
  }
}

// What a block's tokens weigh, as AddBlock needs it.
struct BlockWeights {
  const float* weights;
  size_t num_tokens;
  float sum;
};

// AddBlock of kVecs registers of channels from `element` on.
template <uint32_t kBits, size_t kVecs>
inline void AddBlockPart(const ValuePlanesView& values, size_t block, const BlockWeights& tokens,
                         size_t element, float* out) {
  const size_t row_bytes = ValueRowBytes(values.num_elements, kBits);
  const uint8_t* const codes = values.codes + block * kValueBlock * row_bytes;
  const BFloat16* const mean = MeanOf(values, block) + element;
  Vec sums[kVecs];
  for (Vec& sum : sums) sum = Set1(kBits == 8 ? 0.0f : -kMiddleCode<kBits> * tokens.sum);
  SumCodes<kBits>(codes, row_bytes, tokens.weights, tokens.num_tokens, element, sums);
  const Vec scale = Set1(values.scales[block]);
#pragma GCC unroll 16
  for (size_t c = 0; c < kVecs; ++c) {
    float* const to = out + element + c * kLanes;
    Vec sum = Fma(scale, sums[c], Load(to));
    if (kBits != 8) sum = Fma(Set1(tokens.sum), LoadRow(mean + c * kLanes), sum);
    Store(to, sum);
  }
}

template <uint32_t kBits>
inline void AddBlock(const ValuePlanesView& values, size_t block, const BlockWeights& tokens,
                     float* out) {
  constexpr size_t kNarrow = 16 / kLanes;
  constexpr size_t kWide = kLanes < 8 ? kNarrow : 8;
  size_t d = 0;
  for (; d + kWide * kLanes <= values.num_elements; d += kWide * kLanes) {
    AddBlockPart<kBits, kWide>(values, block, tokens, d, out);
  }
  for (; d < values.num_elements; d += kNarrow * kLanes) {
    AddBlockPart<kBits, kNarrow>(values, block, tokens, d, out);
  }
}

inline void AddMean(const ValuePlanesView& values, size_t block, float weight, float* out) {
  const BFloat16* const mean = MeanOf(values, block);
  for (size_t d = 0; d < values.num_elements; d += kLanes) {
    Store(out + d, Fma(Set1(weight), LoadRow(mean + d), Load(out + d)));
  }
}

void AddValueBlock(const ValuePlanesView& values, size_t block, const float* weights,
                   size_t num_tokens, float* out) {
  BlockWeights tokens = {weights, num_tokens, 0.0f};
  for (size_t i = 0; i < num_tokens; ++i) tokens.sum += weights[i];
  if (values.bits == 2) AddBlock<2>(values, block, tokens, out);
  if (values.bits == 4) AddBlock<4>(values, block, tokens, out);
  if (values.bits == 8) AddBlock<8>(values, block, tokens, out);
  if (values.bits == 0) AddMean(values, block, tokens.sum, out);
}

void AddValueMean(const ValuePlanesView& values, size_t block, float weight, float* out) {
  AddMean(values, block, weight, out);
}

// A tile of tokens into the states of kRows q rows.
template <size_t kRows>
[[gnu::noinline]] void AttendCodedTile(const float* scores, size_t scores_stride,
                                       const ListedRows<Int8>& rows, const float* scales,
                                       size_t first, size_t num_keys, size_t num_elements,
                                       bool prefetch, const LogitSpec& logit,
                                       const StateRows& states) {
  alignas(64) float weights[kRows * kTile];
  float rescale[kRows];
  WeighScored(scores, scores_stride, kRows, first, num_keys, logit, states, weights, rescale);
  float tile_scales[kTile];
  for (size_t j = 0; j < num_keys; ++j) {
    tile_scales[j] = scales[rows.indices[first + j] / kValueBlock];
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t j = 0; j < num_keys; ++j) weights[r * kTile + j] *= tile_scales[j];
  }
  AddValuesTile<kRows>(rows, first, num_keys, num_elements, prefetch, weights, rescale, states.out,
                       states.out_stride);
}

void AttendCoded(const float* scores, size_t scores_stride, size_t num_q_rows,
                 const ValuePlanesView& values, const uint32_t* indices, size_t num_indices,
                 const LogitSpec& logit, const StateRows& states) {
  const ListedRows<Int8> rows = {reinterpret_cast<const Int8*>(values.codes), values.num_elements,
                                 indices, num_indices};
  rows.Start(values.num_elements);
  for (size_t first = 0; first < num_indices; first += kTile) {
    const size_t num_keys = num_indices - first < kTile ? num_indices - first : kTile;
    ForEachPass<false>(num_q_rows, [&]<size_t kRows>(size_t r) {
      AttendCodedTile<kRows>(scores + r * scores_stride, scores_stride, rows, values.scales, first,
                             num_keys, values.num_elements, r == 0, logit, StatesAt(states, r));
    });
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_VALUE_PLANES_INL_H_
