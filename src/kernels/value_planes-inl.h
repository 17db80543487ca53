// Internal: value planes and value means.
#ifndef ATTNDB_KERNELS_VALUE_PLANES_INL_H_
#define ATTNDB_KERNELS_VALUE_PLANES_INL_H_

#include "kernels/attend-inl.h"
#include "kernels/value_planes.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Scales whose reciprocal would overflow are 0.
inline constexpr float kLeastValueScale = 0x1p-120f;

// Upper bound of the rows' norms: roots of sums in float32. Each of at most 1024 / 4 additions, and
// each addition of lanes, loses 2^-24, and terms below the range of float32 may be missing.
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

inline float LargestOf(const ValueRows& block) {
  Vec largest = Zero();
  for (size_t i = 0; i < block.num_tokens; ++i) {
    for (size_t d = 0; d < block.num_elements; d += kLanes) {
      largest = Max(largest, Abs(Load(block.rows + i * block.stride + d)));
    }
  }
  return ReduceMax(largest);
}

void EncodeValues(const ValueRows& block, uint8_t* codes, float* scale) {
  const float wanted = LargestOf(block) / 127.0f;
  *scale = wanted < kLeastValueScale ? 0.0f : wanted;
  const Vec inverse = Set1(*scale == 0 ? 0.0f : 1.0f / *scale);
  float row[kMaxRowElements];
  for (size_t i = 0; i < block.num_tokens; ++i, codes += block.num_elements) {
    for (size_t d = 0; d < block.num_elements; d += kLanes) {
      const Vec code = Fma(Load(block.rows + i * block.stride + d), inverse, Zero());
      Store(row + d, Round(Max(Set1(-127.0f), Min(Set1(127.0f), code))));
    }
    for (size_t d = 0; d < block.num_elements; ++d) {
      codes[d] = static_cast<uint8_t>(static_cast<int32_t>(row[d]));
    }
  }
}

void MeanOfValues(const ValueRows& block, uint16_t* mean, float* norm) {
  *norm = LongestOf(block.rows, block.stride, block.num_tokens, block.num_elements);
  const Vec share = Set1(1.0f / static_cast<float>(block.num_tokens));
  for (size_t d = 0; d < block.num_elements; d += kLanes) {
    Vec sum = Zero();
    for (size_t i = 0; i < block.num_tokens; ++i) {
      sum = Add(sum, Load(block.rows + i * block.stride + d));
    }
    StoreRow(reinterpret_cast<BFloat16*>(mean) + d, Mul(sum, share));
  }
}

void AddValueMean(const ValueMeansView& values, size_t block, float weight, float* out) {
  const auto* const mean =
      reinterpret_cast<const BFloat16*>(values.means) + block * values.num_elements;
  for (size_t d = 0; d < values.num_elements; d += kLanes) {
    Store(out + d, Fma(Set1(weight), LoadRow(mean + d), Load(out + d)));
  }
}

// Folds a tile of tokens into the states of kRows q rows.
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
