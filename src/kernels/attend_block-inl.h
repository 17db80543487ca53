// Internal: prefill attention as two blocked matrix products with an online softmax between.
//
// For a block of q rows (their q and out stay in L2) and a tile of 64 tokens: keys are transposed
// and values widened into scratch, then register tiles of 6 rows by 4 vectors run over them from
// L1.
//
// Bits:    as in attend-inl.h: products are summed in its order (sum_order-inl.h), and values token
//          by token.
// Source:  see attend_block.h.
#ifndef ATTNDB_KERNELS_ATTEND_BLOCK_INL_H_
#define ATTNDB_KERNELS_ATTEND_BLOCK_INL_H_

#include "kernels/attend_block_layout.h"
#include "kernels/dot-inl.h"
#include "kernels/softmax-inl.h"
#include "kernels/sum_order-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kPanelVecs = kManyRegisters ? 4 : 2;
inline constexpr size_t kPanel = kPanelVecs * kLanes;

// Elements of the next chunk of a row: 4 (if there are registers), 2 or 1 vectors.
inline size_t ChunkElements(size_t left) {
  return left >= kPanel ? kPanel : left >= 2 * kLanes ? 2 * kLanes : kLanes;
}

struct BlockScratch {
  float* keys;     // [kTile / kPanel][head_dim in the order of sums][kPanel]
  float* values;   // By chunks of up to kPanel elements: [kTile][chunk], chunk e at e * kTile.
  float* weights;  // [kBlockRows][kTile]
};

// The part of a tile that each row of a block sees: tokens [begin, end) of the tile.
struct BlockMask {
  int begin[kBlockRows];
  int end[kBlockRows];
};

// Some tokens of a tile: row `first` of a run has place `begin` in it, and they end at place `end`.
struct TileRows {
  size_t first;
  size_t begin;
  size_t end;

  // The row at a place; at places without a row, the nearest row: the mask drops it.
  size_t At(size_t place) const {
    const size_t last = place < end ? place : end - 1;
    return first + (last > begin ? last - begin : 0);
  }
};

// Transposes the rows of a tile into panels.
template <typename T>
void PackKeys(const RunRows<T>& keys, const TileRows& rows, size_t num_elements,
              const SumOrder& order, float* packed) {
  for (size_t j = 0; j < rows.end; j += kLanes) {
    float* const to = packed + j / kPanel * num_elements * kPanel + j % kPanel;
    for (size_t i = 0; i < num_elements; i += kLanes) {
      Vec tile[kLanes];
      for (size_t l = 0; l < kLanes; ++l) tile[l] = LoadRow(keys[rows.At(j + l)] + i);
      Transpose(tile);
      for (size_t l = 0; l < kLanes; ++l) Store(to + order.places[i + l] * kPanel, tile[l]);
    }
  }
}

// Widens the rows of a tile, chunk by chunk. Returns whether all of them are finite.
template <typename T>
bool PackValues(const RunRows<T>& values, const TileRows& rows, size_t num_elements,
                float* packed) {
  Vec zeros = Zero();
  for (size_t i = 0; i < num_elements;) {
    const size_t chunk = ChunkElements(num_elements - i);
    for (size_t j = 0; j < rows.end; ++j) {
      const T* const row = values[rows.At(j)] + i;
      for (size_t c = 0; c < chunk; c += kLanes) {
        const Vec value = LoadRow(row + c);
        zeros = Fma(value, Zero(), zeros);  // 0 * inf and 0 * NaN are NaN.
        Store(packed + i * kTile + j * chunk + c, value);
      }
    }
    i += chunk;
  }
  return ReduceAdd(zeros) == 0.0f;
}

// Sums of kRows q rows and the keys of a panel, in registers or aside.
template <size_t kRows>
struct PanelSums {
  Vec sums[kRows][kPanelVecs];

  [[gnu::always_inline]] void SetZero() {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t c = 0; c < kPanelVecs; ++c) sums[r][c] = Zero();
    }
  }
  // Adds elements [begin, end) of the order of sums.
  [[gnu::always_inline]] void AddProducts(const float* panel, const uint32_t* elements,
                                          size_t begin, size_t end, const float* q,
                                          size_t q_stride) {
    for (size_t i = begin; i < end; ++i) {
      const float* const at = q + elements[i];
      Vec key[kPanelVecs];
#pragma GCC unroll 16
      for (size_t c = 0; c < kPanelVecs; ++c) key[c] = Load(panel + i * kPanel + c * kLanes);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const Vec q_part = Set1(at[r * q_stride]);
#pragma GCC unroll 16
        for (size_t c = 0; c < kPanelVecs; ++c) sums[r][c] = Fma(q_part, key[c], sums[r][c]);
      }
    }
  }
  [[gnu::always_inline]] void AddSums(const float* others) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t c = 0; c < kPanelVecs; ++c) {
        sums[r][c] = Add(Load(others + (r * kPanelVecs + c) * kLanes), sums[r][c]);
      }
    }
  }
  [[gnu::always_inline]] void StoreSums(float* to, size_t stride) const {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t c = 0; c < kPanelVecs; ++c) {
        Store(to + r * stride + c * kLanes, sums[r][c]);
      }
    }
  }
};

// scores[r * kTile + j] = q_r . key j of a panel. Sums of a tree's left sides wait in memory. This
// and AddChunks are functions of their own, since inlined into a large one GCC 12 spills registers
// in their innermost loops.
template <size_t kRows, size_t kNumSums>
[[gnu::noinline]] void ScorePanel(const float* panel, const SumOrder& order, const float* q,
                                  size_t q_stride, float* scores) {
  constexpr size_t kWidth = kPanelVecs * kLanes;
  constexpr size_t kMaxWaiting = 4;  // A tree of 16 leaves.
  alignas(64) float waiting[kMaxWaiting][kRows * kWidth];
  size_t num_waiting = 0;
  PanelSums<kRows> sums;
  size_t begin = 0;
  for (size_t n = 0; n < kNumSums; ++n) {
    sums.SetZero();
    sums.AddProducts(panel, order.elements, begin, order.ends[n], q, q_stride);
    begin = order.ends[n];
    for (size_t bits = n; bits % 2 != 0; bits /= 2) sums.AddSums(waiting[--num_waiting]);
    if (n + 1 < kNumSums) sums.StoreSums(waiting[num_waiting++], kWidth);
  }
  sums.StoreSums(scores, kTile);
}

// out_r = out_r * rescale[r] + sum over tokens [begin, end) of weights[r][j] * chunk[j].
template <size_t kRows, size_t kVecs>
inline void AddChunk(const float* chunk, int begin, int end, const float* weights,
                     const float* rescale, float* out, size_t out_stride) {
  Vec sums[kRows][kVecs];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kVecs; ++c) {
      sums[r][c] = Mul(Load(out + r * out_stride + c * kLanes), Set1(rescale[r]));
    }
  }
  for (size_t j = static_cast<size_t>(begin); j < static_cast<size_t>(end); ++j) {
    Vec value[kVecs];
#pragma GCC unroll 16
    for (size_t c = 0; c < kVecs; ++c) value[c] = Load(chunk + (j * kVecs + c) * kLanes);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const Vec weight = Set1(weights[r * kTile + j]);
#pragma GCC unroll 16
      for (size_t c = 0; c < kVecs; ++c) sums[r][c] = Fma(weight, value[c], sums[r][c]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t c = 0; c < kVecs; ++c) Store(out + r * out_stride + c * kLanes, sums[r][c]);
  }
}

template <size_t kRows>
[[gnu::noinline]] void AddChunks(const float* values, size_t num_elements, int begin, int end,
                                 const float* weights, const float* rescale, float* out,
                                 size_t out_stride) {
  for (size_t i = 0; i < num_elements;) {
    const size_t chunk = ChunkElements(num_elements - i);
    const float* const from = values + i * kTile;
    if constexpr (kPanelVecs == 4) {
      if (chunk == 4 * kLanes) {
        AddChunk<kRows, 4>(from, begin, end, weights, rescale, out + i, out_stride);
      }
    }
    if (chunk == 2 * kLanes) {
      AddChunk<kRows, 2>(from, begin, end, weights, rescale, out + i, out_stride);
    }
    if (chunk == kLanes) {
      AddChunk<kRows, 1>(from, begin, end, weights, rescale, out + i, out_stride);
    }
    i += chunk;
  }
}

// Calls f<rows>(first row) for register tiles of 6, 4, 2 and 1 rows.
template <typename F>
inline void ForEachRowTile(size_t num_rows, F&& f) {
  size_t r = 0;
  for (; r + 6 <= num_rows; r += 6) f.template operator()<6>(r);
  for (; r + 4 <= num_rows; r += 4) f.template operator()<4>(r);
  for (; r + 2 <= num_rows; r += 2) f.template operator()<2>(r);
  for (; r < num_rows; ++r) f.template operator()<1>(r);
}

template <size_t kRows>
inline bool SeesAny(const BlockMask& mask, size_t r) {
  bool any = false;
  for (size_t i = r; i < r + kRows; ++i) any |= mask.begin[i] < mask.end[i];
  return any;
}

// Folds one packed tile into the states of a block of rows.
template <size_t kNumSums>
void AttendPackedTile(const BlockScratch& scratch, const SumOrder& order, const BlockMask& mask,
                      size_t num_keys, bool finite_values, const float* q, size_t q_stride,
                      size_t num_rows, size_t k_elements, size_t v_elements, const LogitSpec& logit,
                      const StateRows& states) {
  for (size_t j = 0; j < num_keys; j += kPanel) {
    ForEachRowTile(num_rows, [&]<size_t kRows>(size_t r) {
      if (!SeesAny<kRows>(mask, r)) return;
      ScorePanel<kRows, kNumSums>(scratch.keys + j * k_elements, order, q + r * q_stride, q_stride,
                                  scratch.weights + r * kTile + j);
    });
  }
  const int all = static_cast<int>(num_keys);
  ForEachRowTile(num_rows, [&]<size_t kRows>(size_t r) {
    if (!SeesAny<kRows>(mask, r)) return;
    float* const weights = scratch.weights + r * kTile;
    const StateRows state = StatesAt(states, r);
    float rescale[kRows];
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) {
      rescale[i] = SoftmaxTile(weights + i * kTile, mask.begin[r + i], mask.end[r + i], logit,
                               state.max + i, state.sum + i);
    }
    if (finite_values) {
      AddChunks<kRows>(scratch.values, v_elements, 0, all, weights, rescale, state.out,
                       state.out_stride);
      return;
    }
    // A weight of 0 does not hide a NaN: reads only the visible tokens of each row.
#pragma GCC unroll 16
    for (size_t i = 0; i < kRows; ++i) {
      const StateRows row = StatesAt(state, i);
      AddChunks<1>(scratch.values, v_elements, mask.begin[r + i], mask.end[r + i],
                   weights + i * kTile, rescale + i, row.out, row.out_stride);
    }
  });
}

// The tokens that at least one of some rows sees.
struct TokenRange {
  size_t begin;
  size_t end;
};
inline TokenRange SeenByAny(const uint32_t* lo, const uint32_t* hi, size_t num_rows,
                            size_t num_tokens) {
  size_t begin = lo ? num_tokens : 0;
  size_t end = hi ? 0 : num_tokens;
  for (size_t r = 0; r < num_rows; ++r) {
    if (lo && lo[r] < begin) begin = lo[r];
    if (hi && hi[r] > end) end = hi[r];
  }
  return {begin, end < num_tokens ? end : num_tokens};
}

// Fills `mask` for some tokens of a tile. Returns whether any row sees any of them.
inline bool MaskTile(const uint32_t* lo, const uint32_t* hi, size_t num_rows, const TileRows& rows,
                     BlockMask* mask) {
  const size_t last = rows.first + (rows.end - rows.begin);
  const auto place = [&](size_t token) {
    return token <= rows.first ? rows.begin
           : token >= last     ? rows.end
                               : rows.begin + (token - rows.first);
  };
  bool any = false;
  for (size_t r = 0; r < num_rows; ++r) {
    mask->begin[r] = static_cast<int>(lo ? place(lo[r]) : rows.begin);
    mask->end[r] = static_cast<int>(hi ? place(hi[r]) : rows.end);
    any |= mask->begin[r] < mask->end[r];
  }
  return any;
}

template <typename T>
void AttendBlockTyped(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                      const float* q, size_t q_stride, size_t num_q_rows, const uint32_t* lo,
                      const uint32_t* hi, const LogitSpec& logit, const StateRows& states,
                      float* scratch_floats) {
  const RunRows<T> keys = {static_cast<const T*>(k.data), k.stride};
  const RunRows<T> values = {static_cast<const T*>(v.data), v.stride};
  const BlockScratch scratch = {scratch_floats, scratch_floats + k.num_elements * kTile,
                                scratch_floats + (k.num_elements + v.num_elements) * kTile};
  SumOrder order;
  FindSumOrder<T>(k.num_elements, &order);
  for (size_t row = 0; row < num_q_rows; row += kBlockRows) {
    const size_t left = num_q_rows - row;
    const size_t num_rows = left < kBlockRows ? left : kBlockRows;
    const uint32_t* const row_lo = lo ? lo + row : nullptr;
    const uint32_t* const row_hi = hi ? hi + row : nullptr;
    const TokenRange seen = SeenByAny(row_lo, row_hi, num_rows, num_tokens);
    // Places count from the begin of the tile that holds token 0.
    const size_t end_place = first_key + num_tokens;
    for (size_t tile = (first_key + seen.begin) / kTile * kTile; tile < first_key + seen.end;
         tile += kTile) {
      const size_t begin = tile < first_key ? first_key : tile;
      const TileRows rows = {begin - first_key, begin - tile,
                             end_place - tile < kTile ? end_place - tile : kTile};
      BlockMask mask;
      if (!MaskTile(row_lo, row_hi, num_rows, rows, &mask)) continue;
      PackKeys(keys, rows, k.num_elements, order, scratch.keys);
      const bool finite = PackValues(values, rows, v.num_elements, scratch.values);
      AttendPackedTile<kSumsOfProduct<T>>(scratch, order, mask, rows.end, finite,
                                          q + row * q_stride, q_stride, num_rows, k.num_elements,
                                          v.num_elements, logit, StatesAt(states, row));
    }
  }
}

void AttendBlock(const RowsView& k, const RowsView& v, size_t first_key, size_t num_tokens,
                 const float* q, size_t q_stride, size_t num_q_rows, const uint32_t* lo,
                 const uint32_t* hi, const LogitSpec& logit, const StateRows& states,
                 void* scratch) {
  WithElement(k.dtype, [&]<typename T>() {
    AttendBlockTyped<T>(k, v, first_key, num_tokens, q, q_stride, num_q_rows, lo, hi, logit, states,
                        static_cast<float*>(scratch));
  });
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_ATTEND_BLOCK_INL_H_
