// Internal: decode attention. Tile by tile: scores, online softmax, weighted sum of values.
//
// Source: online softmax per tile as in FlashAttention-2 (arXiv:2307.08691); see attention_state.h.
#ifndef ATTNDB_KERNELS_ATTEND_INL_H_
#define ATTNDB_KERNELS_ATTEND_INL_H_

#include "kernels/attention_state.h"
#include "kernels/dot-inl.h"
#include "kernels/quads_avx512-inl.h"
#include "kernels/softmax-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// out_r[0, kVecs * kLanes) = out_r * rescale[r] + sum over keys of weights[r][key] * values[key].
// kVecs is even or 1. Fetches the same elements of the rows `distance` further on.
template <size_t kRows, size_t kVecs, typename Rows>
inline void AddValues(const Rows& values, size_t first, size_t num_keys, size_t element,
                      size_t distance, const float* weights, const float* rescale, float* out,
                      size_t out_stride) {
  using T = typename Rows::Element;
  constexpr const T* kType = nullptr;
  Vec sums[kRows][kVecs];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    const float* const from = out + r * out_stride + element;
#pragma GCC unroll 16
    for (size_t c = 0; c + 2 <= kVecs; c += 2) {
      LoadPair(kType, from + c * kLanes, &sums[r][c], &sums[r][c + 1]);
    }
    if constexpr (kVecs == 1) sums[r][0] = Load(from);
#pragma GCC unroll 16
    for (size_t c = 0; c < kVecs; ++c) sums[r][c] = Mul(sums[r][c], Set1(rescale[r]));
  }
  for (size_t j = 0; j < num_keys; ++j) {
    const T* const row = values[first + j] + element;
    const T* const ahead = values.Ahead(first + j + distance) + element;
#pragma GCC unroll 16
    for (size_t c = 0; c < kVecs * kLanes; c += 64 / sizeof(T)) Prefetch(ahead + c);
    Vec weight[kRows];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) weight[r] = Set1(weights[r * kTile + j]);
#pragma GCC unroll 16
    for (size_t c = 0; c + 2 <= kVecs; c += 2) {
      Vec value0, value1;
      WidenPair(row + c * kLanes, &value0, &value1);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][c] = Fma(weight[r], value0, sums[r][c]);
        sums[r][c + 1] = Fma(weight[r], value1, sums[r][c + 1]);
      }
    }
    if constexpr (kVecs == 1) {
      const Vec value = LoadRow(row);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) sums[r][0] = Fma(weight[r], value, sums[r][0]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
    float* const to = out + r * out_stride + element;
#pragma GCC unroll 16
    for (size_t c = 0; c + 2 <= kVecs; c += 2) {
      StorePair(kType, to + c * kLanes, sums[r][c], sums[r][c + 1]);
    }
    if constexpr (kVecs == 1) Store(to, sums[r][0]);
  }
}

// Vectors of a row of values that are summed at a time: as many as registers hold, and at most four
// for several q rows. More of them compute faster and fetch worse (measured at 256 elements).
template <size_t kRows>
constexpr size_t ValueVecs() {
  if (!kManyRegisters) return kRows == 1 ? 8 : kRows <= 3 ? 4 : 2;
  if (kRows <= 2) return 16 / kRows;
  return kRows <= 4 ? 4 : 2;
}
// Rows of a run that one sweep goes over where a row takes several sweeps: few, so that memory is
// read almost in order and at an even pace. (Listed rows have no order to keep: sweeps over a whole
// tile take a quarter less time at 128 elements.) Eight q rows, three where vectors are short, are
// bound by arithmetic and take longer sweeps.
template <size_t kRows>
inline size_t SweepRows(size_t row_bytes) {
  const size_t bytes = kRows >= 8 ? 8192 : !kManyRegisters && kRows >= 3 ? 4096 : 0;
  return bytes <= 8 * row_bytes ? 8 : bytes / row_bytes;
}

// Adds num_keys weighted rows of values, all their elements, to the states' `out`.
template <size_t kRows, typename Rows>
[[gnu::noinline]] void AddValuesTile(const Rows& values, size_t first, size_t num_keys,
                                     size_t num_elements, bool prefetch, const float* weights,
                                     const float* rescale, float* out, size_t out_stride) {
  constexpr size_t kVecs = ValueVecs<kRows>();
  const size_t row_bytes = num_elements * sizeof(typename Rows::Element);
  const size_t distance = prefetch ? Rows::RowsAhead(kRows, row_bytes) : 0;
  const bool sweeps = num_elements > kVecs * kLanes && Rows::kInOrder;
  const size_t step = sweeps ? SweepRows<kRows>(row_bytes) : num_keys;
  float ones[kRows];
  for (float& one : ones) one = 1.0f;
  for (size_t j = 0; j < num_keys; j += step, rescale = ones) {
    const size_t count = num_keys - j < step ? num_keys - j : step;
    size_t i = 0;
    const auto add = [&]<size_t kCount>() {
      for (; i + kCount * kLanes <= num_elements; i += kCount * kLanes) {
        AddValues<kRows, kCount>(values, first + j, count, i, distance, weights + j, rescale, out,
                                 out_stride);
      }
    };
    add.template operator()<kVecs>();
    if constexpr (kVecs > 8) add.template operator()<8>();
    if constexpr (kVecs > 4) add.template operator()<4>();
    if constexpr (kVecs > 2) add.template operator()<2>();
    add.template operator()<1>();
  }
}

// Moves the scores of a tile's num_keys keys from its begin to `place`.
template <size_t kRows>
[[gnu::noinline]] void MoveScores(float* scores, size_t place, size_t num_keys) {
  for (size_t r = 0; r < kRows; ++r) {
    float* const row = scores + r * kTile;
    __builtin_memmove(row + place, row, num_keys * sizeof(float));
  }
}

// Folds one tile of tokens, num_keys from `place` on, into the states of kRows q rows.
template <size_t kRows, typename Rows>
[[gnu::noinline]] void AttendTile(const Rows& keys, const Rows& values, size_t first,
                                  size_t num_keys, size_t place, const float* q, size_t k_elements,
                                  size_t v_elements, bool prefetch, const LogitSpec& logit,
                                  const StateRows& states) {
  alignas(64) float weights[kRows * kTile];
  if (num_keys < kTile) __builtin_memset(weights, 0, sizeof(weights));
  float rescale[kRows];
  DotTile<kRows>(keys, first, num_keys, q, k_elements, prefetch, weights);
  if (place != 0) MoveScores<kRows>(weights, place, num_keys);
  for (size_t r = 0; r < kRows; ++r) {
    rescale[r] =
        SoftmaxTile(weights + r * kTile, static_cast<int>(place),
                    static_cast<int>(place + num_keys), logit, states.max + r, states.sum + r);
  }
  AddValuesTile<kRows>(values, first, num_keys, v_elements, prefetch, weights + place, rescale,
                       states.out, states.out_stride);
}

// Calls f<rows>(first row) for passes of 8, 4, 3, 2 or 1 q rows; 5 rows are 3 + 2 and 6 are 3 + 3,
// which is cheaper with quads than 4 + 1 and 4 + 2.
template <bool kQuads, typename F>
inline void ForEachPass(size_t num_q_rows, F&& f) {
  size_t r = 0;
  while (r < num_q_rows) {
    const size_t left = num_q_rows - r;
    if constexpr (kManyRegisters) {
      if (kQuads && left >= 8) {
        f.template operator()<8>(r);
        r += 8;
        continue;
      }
    }
    if (left == 4 || left >= 7) {
      f.template operator()<4>(r);
      r += 4;
    } else if (left >= 3) {
      f.template operator()<3>(r);
      r += 3;
    } else if (left == 2) {
      f.template operator()<2>(r);
      r += 2;
    } else {
      f.template operator()<1>(r);
      r += 1;
    }
  }
}

// Calls tile<rows>(first, num_keys, place, row, prepared q, is first pass) for each tile and pass,
// with up to kMaxSweepRows q rows a sweep. Token 0 has place first_key in its tile; tokens that
// begin a tile have place 0.
template <typename T, typename F>
inline void ForEachTile(const float* q, size_t q_stride, size_t num_q_rows, size_t num_elements,
                        size_t first_key, size_t num_tokens, F&& tile) {
  constexpr bool kQuads = UseQuads<T>();
  Queries queries;
  const size_t row_lanes = QueryStride<kQuads>(num_elements);
  const size_t fit = kMaxSweepRows * kMaxRowElements / row_lanes;
  const size_t sweep = fit < kMaxSweepRows ? fit : kMaxSweepRows;
  for (size_t row = 0; row < num_q_rows; row += sweep) {
    const size_t num_rows = num_q_rows - row < sweep ? num_q_rows - row : sweep;
    PrepareQueries<T>(q + row * q_stride, q_stride, num_rows, num_elements, queries.lanes);
    size_t place = first_key;
    for (size_t first = 0, num_keys = 0; first < num_tokens; first += num_keys, place = 0) {
      const size_t left = num_tokens - first;
      num_keys = left < kTile - place ? left : kTile - place;
      ForEachPass<kQuads>(num_rows, [&]<size_t kRows>(size_t r) {
        tile.template operator()<kRows>(first, num_keys, place, row + r,
                                        queries.lanes + r * row_lanes, r == 0);
      });
    }
  }
}

template <bool kListed>
void Attend(const RowsView& k, const RowsView& v, const uint32_t* indices, size_t first_key,
            size_t num_tokens, const float* q, size_t q_stride, size_t num_q_rows,
            const LogitSpec& logit, const StateRows& states) {
  WithRows<kListed>(k, indices, num_tokens, [&]<typename Rows>(const Rows& keys) {
    using T = typename Rows::Element;
    Rows values = keys;
    values.data = static_cast<const T*>(v.data);
    values.stride = v.stride;
    keys.Start(k.num_elements);
    values.Start(v.num_elements);
    ForEachTile<T>(q, q_stride, num_q_rows, k.num_elements, first_key, num_tokens,
                   [&]<size_t kRows>(size_t first, size_t num_keys, size_t place, size_t row,
                                     const float* lanes, bool is_first_pass) {
                     AttendTile<kRows>(keys, values, first, num_keys, place, lanes, k.num_elements,
                                       v.num_elements, is_first_pass, logit, StatesAt(states, row));
                   });
  });
}

// weights[r * kTile + j]: weight of token first + j by its score, 0 for the rest of the tile.
// Updates max and sum of the states. rescale: factors for the states' `out`.
[[gnu::noinline]] void WeighScored(const float* scores, size_t scores_stride, size_t num_rows,
                                   size_t first, size_t num_keys, const LogitSpec& logit,
                                   const StateRows& states, float* weights, float* rescale) {
  for (size_t r = 0; r < num_rows; ++r) {
    float* const row = weights + r * kTile;
    __builtin_memcpy(row, scores + r * scores_stride + first, num_keys * sizeof(float));
    __builtin_memset(row + num_keys, 0, (kTile - num_keys) * sizeof(float));
    rescale[r] =
        SoftmaxTile(row, 0, static_cast<int>(num_keys), logit, states.max + r, states.sum + r);
  }
}

// Folds one tile of tokens whose scores are known into the states of kRows q rows.
template <size_t kRows, typename Rows>
[[gnu::noinline]] void AttendScoredTile(const float* scores, size_t scores_stride,
                                        const Rows& values, size_t first, size_t num_keys,
                                        size_t num_elements, bool prefetch, const LogitSpec& logit,
                                        const StateRows& states) {
  alignas(64) float weights[kRows * kTile];
  float rescale[kRows];
  WeighScored(scores, scores_stride, kRows, first, num_keys, logit, states, weights, rescale);
  AddValuesTile<kRows>(values, first, num_keys, num_elements, prefetch, weights, rescale,
                       states.out, states.out_stride);
}

template <bool kListed>
void AttendScored(const float* scores, size_t scores_stride, size_t num_q_rows, const RowsView& v,
                  const uint32_t* indices, size_t num_tokens, const LogitSpec& logit,
                  const StateRows& states) {
  WithRows<kListed>(v, indices, num_tokens, [&]<typename Rows>(const Rows& values) {
    constexpr bool kQuads = UseQuads<typename Rows::Element>();
    values.Start(v.num_elements);
    for (size_t first = 0; first < num_tokens; first += kTile) {
      const size_t num_keys = num_tokens - first < kTile ? num_tokens - first : kTile;
      ForEachPass<kQuads>(num_q_rows, [&]<size_t kRows>(size_t r) {
        AttendScoredTile<kRows>(scores + r * scores_stride, scores_stride, values, first, num_keys,
                                v.num_elements, r == 0, logit, StatesAt(states, r));
      });
    }
  });
}

template <bool kListed>
void Score(const RowsView& k, const uint32_t* indices, size_t num_tokens, const float* q,
           size_t q_stride, size_t num_q_rows, float* scores, size_t scores_stride) {
  WithRows<kListed>(k, indices, num_tokens, [&]<typename Rows>(const Rows& keys) {
    keys.Start(k.num_elements);
    ForEachTile<typename Rows::Element>(
        q, q_stride, num_q_rows, k.num_elements, 0, num_tokens,
        [&]<size_t kRows>(size_t first, size_t num_keys, size_t, size_t row, const float* lanes,
                          bool is_first_pass) {
          alignas(64) float tile[kRows * kTile];
          DotTile<kRows>(keys, first, num_keys, lanes, k.num_elements, is_first_pass, tile);
          for (size_t r = 0; r < kRows; ++r) {
            float* const to = scores + (row + r) * scores_stride + first;
            __builtin_memcpy(to, tile + r * kTile, num_keys * sizeof(float));
          }
        });
  });
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_ATTEND_INL_H_
