// Internal: inner products of a few q rows with a few keys, the core of scores and of decode.
//
// A key is loaded and widened once for all q rows of a pass. Partial sums stay in registers and
// four of them are reduced together (StoreSums4).
//
// Bits:    the element type determines the order in which a product is summed, whatever and however
//          many the rows beside it are. Each lane sums its elements from the first on, and lanes
//          are added in one tree. AttendBlock sums in the same order (sum_order-inl.h).
// Source: register tiles as in BLIS, with the roles of a memory-bound product: keys stream, q
//         stays.
#ifndef ATTNDB_KERNELS_DOT_INL_H_
#define ATTNDB_KERNELS_DOT_INL_H_

#include "kernels/layout.h"
#include "kernels/prefetch.h"
#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Keys of a tile; its scores lie in L1 between the phases.
inline constexpr size_t kTile = kKeysPerTile;
// How far ahead listed rows are fetched; a core has a few dozen lines under way. That is half as
// far as for a run (StreamAheadBytes) where memory is fast.
inline constexpr size_t kListedPrefetchBytes = 4096;

// Whether element i of a row begins a cache line: rows begin one, and are fetched line by line.
template <typename T>
inline bool StartsLine(size_t i) {
  return 2 * kLanes * sizeof(T) >= 64 || i * sizeof(T) % 64 == 0;
}

// Some neighbouring rows: by stride, which takes few address registers, or by pointer.
template <typename T>
struct RunGroup {
  using Element = T;
  const T* first;
  size_t stride;
  size_t ahead;  // Elements from a row to the one to fetch.

  const T* operator[](size_t j) const { return first + j * stride; }
  const T* Ahead(size_t j) const { return first + j * stride + ahead; }
};
template <typename T, size_t kCount>
struct ListedGroup {
  using Element = T;
  const T* row[kCount];
  const T* ahead[kCount];

  const T* operator[](size_t j) const { return row[j]; }
  const T* Ahead(size_t j) const { return ahead[j]; }
};

// Rows of a run, in order (RunRows) or by index (ListedRows). T: element type. Group(i, distance)
// is kCount rows from i on, with the rows `distance` further on for prefetch: these need not exist,
// since the prefetch of any address does no harm.
template <typename T>
struct RunRows {
  using Element = T;
  static constexpr bool kInOrder = true;
  const T* data;
  size_t stride;

  // How many rows ahead a pass of num_q_rows fetches.
  static size_t RowsAhead(size_t num_q_rows, size_t row_bytes) {
    return StreamAheadBytes(num_q_rows, row_bytes) / row_bytes;
  }
  // Fetches rows that nothing else would fetch before they are read.
  void Start(size_t) const {}

  const T* operator[](size_t i) const { return data + i * stride; }
  const T* Ahead(size_t i) const { return data + i * stride; }
  template <size_t kCount>
  RunGroup<T> Group(size_t i, size_t distance) const {
    return {data + i * stride, stride, distance * stride};
  }
};
template <typename T>
struct ListedRows {
  using Element = T;
  static constexpr bool kInOrder = false;
  const T* data;
  size_t stride;
  const uint32_t* indices;
  size_t num_indices;

  static size_t RowsAhead(size_t, size_t row_bytes) { return kListedPrefetchBytes / row_bytes; }
  void Start(size_t num_elements) const {
    const size_t num_ahead = RowsAhead(1, num_elements * sizeof(T));
    for (size_t i = 0; i < num_ahead && i < num_indices; ++i) {
      for (size_t e = 0; e < num_elements; e += 64 / sizeof(T)) Prefetch((*this)[i] + e);
    }
  }

  const T* operator[](size_t i) const { return data + indices[i] * stride; }
  const T* Ahead(size_t i) const {
    return data + indices[i < num_indices ? i : num_indices - 1] * stride;
  }
  template <size_t kCount>
  ListedGroup<T, kCount> Group(size_t i, size_t distance) const {
    ListedGroup<T, kCount> group;
    for (size_t j = 0; j < kCount; ++j) {
      group.row[j] = (*this)[i + j];
      group.ahead[j] = Ahead(i + j + distance);
    }
    return group;
  }
};
// The last group of a tile: its `n` < kCount rows, filled up with the first of them.
template <size_t kCount, typename Rows>
ListedGroup<typename Rows::Element, kCount> LastGroup(const Rows& rows, size_t i, size_t n) {
  ListedGroup<typename Rows::Element, kCount> group;
  for (size_t j = 0; j < kCount; ++j) group.row[j] = group.ahead[j] = rows[j < n ? i + j : i];
  return group;
}

// Calls f<T>() with the C++ type of `dtype`.
template <typename F>
inline void WithElement(DType dtype, F&& f) {
  if (dtype == DType::kFloat32) f.template operator()<float>();
  if (dtype == DType::kFloat16) f.template operator()<Float16>();
  if (dtype == DType::kBFloat16) f.template operator()<BFloat16>();
}

// Calls f(rows of `view`) with the element type that applies.
template <bool kListed, typename F>
inline void WithRows(const RowsView& view, const uint32_t* indices, size_t num_tokens, F&& f) {
  WithElement(view.dtype, [&]<typename T>() {
    const T* const data = static_cast<const T*>(view.data);
    if constexpr (kListed) {
      f(ListedRows<T>{data, view.stride, indices, num_tokens});
    } else {
      f(RunRows<T>{data, view.stride});
    }
  });
}

// Rows of q in the order of lanes that the products need; made once a call, since all tiles of a
// run use them. 64 KiB, on the stack.
inline constexpr size_t kMaxSweepRows = 16;
struct Queries {
  alignas(64) float lanes[kMaxSweepRows * kMaxRowElements];
};

// Defined in quads_avx512-inl.h, where kHasQuads.
template <typename T>
void SpreadQuery(const float* q, size_t num_elements, float* lanes);
template <size_t kRows, typename Group>
void DotQuads(const Group& keys, const float* q, size_t q_stride, size_t num_elements,
              float* scores);

// Whether keys are taken by quads: for all numbers of rows, so that they sum in one order, though
// it is from three rows on that it takes less time.
template <typename T>
constexpr bool UseQuads() {
  return kHasQuads && sizeof(T) == 2;
}

// Floats of q that meet a row of keys: with quads 4 for each element, in steps of 32 elements.
template <bool kQuads>
constexpr size_t QueryStride(size_t num_elements) {
  return kQuads ? 4 * ((num_elements + 31) / 32 * 32) : num_elements;
}

// Elements of a row that fill whole pairs of registers.
inline size_t PairedElements(size_t num_elements) {
  return num_elements / (2 * kLanes) * (2 * kLanes);
}

template <typename T>
[[gnu::noinline]] void PrepareQueries(const float* q, size_t q_stride, size_t num_rows,
                                      size_t num_elements, float* lanes) {
  constexpr bool kQuads = UseQuads<T>();
  for (size_t r = 0; r < num_rows; ++r, q += q_stride) {
    float* const to = lanes + r * QueryStride<kQuads>(num_elements);
    if constexpr (kQuads) {
      SpreadQuery<T>(q, num_elements, to);
    } else {
      const size_t paired = PairedElements(num_elements);
      for (size_t i = 0; i < paired; i += 2 * kLanes) {
        Vec a, b;
        LoadPair(static_cast<const T*>(nullptr), q + i, &a, &b);
        Store(to + i, a);
        Store(to + i + kLanes, b);
      }
      for (size_t i = paired; i < num_elements; ++i) to[i] = q[i];
    }
  }
}

// scores[r * kTile + j] = q_r . keys[j]. Goes row by row, in the order of memory, and fetches the
// rows ahead line by line, since a burst of prefetches would stall on the core's few miss buffers.
template <size_t kKeys, size_t kRows, typename Group>
inline void DotKeys(const Group& keys, const float* q, size_t num_elements, float* scores) {
  using T = typename Group::Element;
  Vec sums[kRows][kKeys];
#pragma GCC unroll 16
  for (size_t j = 0; j < kKeys; ++j) {
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) sums[r][j] = Zero();
    size_t i = 0;
    for (; i + 2 * kLanes <= num_elements; i += 2 * kLanes) {
      Vec key0, key1;
      if (StartsLine<T>(i)) Prefetch(keys.Ahead(j) + i);
      if constexpr (2 * kLanes * sizeof(T) > 64) Prefetch(keys.Ahead(j) + i + kLanes);
      WidenPair(keys[j] + i, &key0, &key1);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][j] = Fma(Load(q + r * num_elements + i), key0, sums[r][j]);
        sums[r][j] = Fma(Load(q + r * num_elements + i + kLanes), key1, sums[r][j]);
      }
    }
    for (; i < num_elements; i += kLanes) {
      const Vec key = LoadRow(keys[j] + i);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        sums[r][j] = Fma(Load(q + r * num_elements + i), key, sums[r][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t j = 0; j < kKeys; j += 4) {
      StoreSums4(sums[r][j], sums[r][j + 1], sums[r][j + 2], sums[r][j + 3],
                 scores + r * kTile + j);
    }
  }
}

// scores[r * kTile + j] = q_r . keys[j] for two keys, where registers are few: a part of q is
// loaded once for both keys.
template <size_t kRows, typename Group>
inline void DotKeyPair(const Group& keys, size_t j, const float* q, size_t num_elements,
                       float* scores) {
  Vec sums[kRows][2];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = Zero();
  size_t i = 0;
  for (; i + 2 * kLanes <= num_elements; i += 2 * kLanes) {
    if (StartsLine<typename Group::Element>(i)) {
      Prefetch(keys.Ahead(j) + i);
      Prefetch(keys.Ahead(j + 1) + i);
    }
    const auto add = [&]<int kHalf>() __attribute__((always_inline)) {
      const Vec key0 = WidenHalf<kHalf>(keys[j] + i);
      const Vec key1 = WidenHalf<kHalf>(keys[j + 1] + i);
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const Vec q_part = Once(Load(q + r * num_elements + i + kHalf * kLanes));
        sums[r][0] = Fma(q_part, key0, sums[r][0]);
        sums[r][1] = Fma(q_part, key1, sums[r][1]);
      }
    };
    add.template operator()<0>();
    add.template operator()<1>();
  }
  for (; i < num_elements; i += kLanes) {
    const Vec key0 = LoadRow(keys[j] + i), key1 = LoadRow(keys[j + 1] + i);
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
      const Vec q_part = Once(Load(q + r * num_elements + i));
      sums[r][0] = Fma(q_part, key0, sums[r][0]);
      sums[r][1] = Fma(q_part, key1, sums[r][1]);
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; r += 2) {
    const size_t next = r + 1 < kRows ? r + 1 : r;
    float four[4];
    StoreSums4(sums[r][0], sums[r][1], sums[next][0], sums[next][1], four);
    __builtin_memcpy(scores + r * kTile + j, four, 2 * sizeof(float));
    __builtin_memcpy(scores + next * kTile + j, four + 2, 2 * sizeof(float));
  }
}

// Writes scores of one tile of up to kTile keys for kRows q rows (`q` from PrepareQueries), up to
// the next multiple of the keys of a step; scores past num_keys repeat some key. Prefetches the
// rows behind the tile if `prefetch`.
template <size_t kRows, typename Rows>
[[gnu::noinline]] void DotTile(const Rows& keys, size_t first, size_t num_keys, const float* q,
                               size_t num_elements, bool prefetch, float* scores) {
  using T = typename Rows::Element;
  constexpr bool kQuads = UseQuads<T>();
  constexpr bool kEight = kQuads || (kLanes > 4 && kRows == 1) || (kManyRegisters && kRows < 4);
  constexpr size_t kKeys = kEight ? 8 : 4;
  const size_t distance = prefetch ? Rows::RowsAhead(kRows, num_elements * sizeof(T)) : 0;
  const auto dot = [&](const auto& group, float* to) __attribute__((always_inline)) {
    if constexpr (kQuads) {
      DotQuads<kRows>(group, q, QueryStride<kQuads>(num_elements), num_elements, to);
    } else if constexpr (!kManyRegisters && kRows >= 3) {
#pragma GCC unroll 16
      for (size_t pair = 0; pair < kKeys; pair += 2) {
        DotKeyPair<kRows>(group, pair, q, num_elements, to);
      }
    } else {
      DotKeys<kKeys, kRows>(group, q, num_elements, to);
    }
  };
  size_t j = 0;
  if constexpr (Rows::kInOrder) {
    for (; j + kKeys <= num_keys; j += kKeys) {
      dot(keys.template Group<kKeys>(first + j, distance), scores + j);
    }
    if (j < num_keys) dot(LastGroup<kKeys>(keys, first + j, num_keys - j), scores + j);
  } else {  // Both kinds of group have one type, so that there is one copy of the code.
    for (; j < num_keys; j += kKeys) {
      const size_t left = num_keys - j;
      dot(left >= kKeys ? keys.template Group<kKeys>(first + j, distance)
                        : LastGroup<kKeys>(keys, first + j, left),
          scores + j);
    }
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_DOT_INL_H_
