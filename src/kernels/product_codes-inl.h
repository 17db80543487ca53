// Internal: lookup tables of product codes, and scores and weights from their sums.
#ifndef ATTNDB_KERNELS_PRODUCT_CODES_INL_H_
#define ATTNDB_KERNELS_PRODUCT_CODES_INL_H_

#include "kernels/code_sums-inl.h"
#include "kernels/keep-inl.h"
#include "kernels/product_codes.h"
#include "kernels/words-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// out[e] = q.c, for kVecs registers of centroids at a time.
template <size_t kVecs>
inline void ScoreCentroids(const float* centroids, size_t width, size_t num_entries, const float* q,
                           float* out) {
  for (size_t e = 0; e < num_entries; e += kVecs * kLanes) {
    Vec sums[kVecs];
#pragma GCC unroll 4
    for (size_t v = 0; v < kVecs; ++v) sums[v] = Zero();
    for (size_t j = 0; j < width; ++j) {
      const Vec x = Set1(q[j]);
      const float* const from = centroids + j * num_entries + e;
#pragma GCC unroll 4
      for (size_t v = 0; v < kVecs; ++v) sums[v] = Add(sums[v], Mul(x, Load(from + v * kLanes)));
    }
#pragma GCC unroll 4
    for (size_t v = 0; v < kVecs; ++v) Store(out + e + v * kLanes, sums[v]);
  }
}

// The products q.c of a row, before they are rounded to entries.
struct ExactRow {
  alignas(64) float products[kMaxSubspaces * kMaxCodeEntries];
  float least[kMaxSubspaces];
  float range = 0.0f;  // Largest range of a subspace.
};

inline void ScoreRow(const CodebookView& codebook, const float* q, ExactRow* row) {
  const size_t width = codebook.num_channels / codebook.num_subspaces;
  const size_t num_entries = CodeEntries(codebook.bits);
  row->range = 0.0f;
  for (size_t s = 0; s < codebook.num_subspaces; ++s) {
    const float* const centroids = codebook.centroids + s * width * num_entries;
    float* const out = row->products + s * num_entries;
    const auto score = num_entries == 16 ? ScoreCentroids<16 / kLanes> : ScoreCentroids<4>;
    score(centroids, width, num_entries, q + s * width, out);
    Vec most = Set1(-kInfinity), most_negative = most;
    for (size_t e = 0; e < num_entries; e += kLanes) {
      most = Max(most, Load(out + e));
      most_negative = Max(most_negative, Sub(Zero(), Load(out + e)));
    }
    row->least[s] = -ReduceMax(most_negative);
    const float range = ReduceMax(most) - row->least[s];
    row->range = row->range < range ? range : row->range;
  }
}

// Rounds the products of a subspace to entries; returns the largest entry.
inline uint32_t RoundEntries(const float* products, size_t num_entries, float least, float inverse,
                             uint8_t* entries) {
  alignas(64) float rounded[kMaxCodeEntries];
  Vec most = Zero();
  for (size_t e = 0; e < num_entries; e += kLanes) {
    const Vec steps = Round(Min(Mul(Sub(Load(products + e), Set1(least)), Set1(inverse)),
                                Set1(255.0f)));  // 255 of a NaN.
    Store(rounded + e, Max(steps, Zero()));
    most = Max(most, steps);
  }
  for (size_t e = 0; e < num_entries; ++e) {
    entries[e] = static_cast<uint8_t>(static_cast<int32_t>(rounded[e]));
  }
  return static_cast<uint32_t>(ReduceMax(most));
}

// Places a row's entries: as bytes one after another, or as words interleaved with three other
// rows.
inline void PlaceEntries(const uint8_t* from, size_t num_entries, bool are_bytes, size_t row,
                         size_t subspace, size_t num_subspaces, std::byte* tables) {
  if (are_bytes) {
    auto* const to =
        reinterpret_cast<uint8_t*>(tables) + (row * num_subspaces + subspace) * num_entries;
    __builtin_memcpy(to, from, num_entries);
    return;
  }
  const size_t pass = row / kTableRows;
  auto* const to = reinterpret_cast<uint16_t*>(tables) +
                   (pass * num_subspaces + subspace) * num_entries * kTableRows + row % kTableRows;
  for (size_t e = 0; e < num_entries; ++e) to[e * kTableRows] = from[e];
}

inline bool AreBytes(size_t bits) {
  return bits == 4 ? kShuffles<4> : bits == 6 ? kShuffles<6> : kShuffles<8>;
}

// The tables of the rows from `row` on; `row` is a multiple of kTableRows.
inline const uint8_t* TablesFrom(const LookupTables& tables, size_t row, size_t num_subspaces,
                                 size_t bits) {
  const size_t entry_bytes = AreBytes(bits) ? sizeof(uint8_t) : sizeof(uint16_t);
  return reinterpret_cast<const uint8_t*>(tables.entries) +
         row * num_subspaces * CodeEntries(bits) * entry_bytes;
}

inline void BuildRow(const CodebookView& codebook, const ExactRow& exact, size_t row,
                     std::byte* tables, TableRow* out) {
  constexpr float kLeastTableScale = 0x1p-126f;  // Its reciprocal is finite.
  constexpr float kRounding = 0x1p-24f;
  const size_t num_subspaces = codebook.num_subspaces;
  const size_t num_entries = CodeEntries(codebook.bits);
  const float wanted = exact.range / 255.0f;
  const float scale = exact.range == 0            ? 0.0f
                      : wanted < kLeastTableScale ? kLeastTableScale
                                                  : wanted;
  const float inverse = exact.range == 0 ? 0.0f : 1.0f / scale;
  float offset = 0.0f, magnitude = 0.0f;
  uint32_t max_sum = 0;
  for (size_t s = 0; s < num_subspaces; ++s) {
    uint8_t entries[kMaxCodeEntries];
    const float least = exact.least[s];
    max_sum += RoundEntries(exact.products + s * num_entries, num_entries, least, inverse, entries);
    PlaceEntries(entries, num_entries, AreBytes(codebook.bits), row, s, num_subspaces, tables);
    offset += least;
    magnitude += least < 0 ? -least : least;
  }
  const auto count = static_cast<float>(num_subspaces);
  magnitude += count * 255.0f * scale;
  out->scale = scale;
  out->offset = offset;
  out->max_sum = max_sum;
  out->max_score = static_cast<float>(static_cast<int32_t>(max_sum)) * scale + offset;
  out->rounding_max = 0.5f * count * scale + (count + 8.0f) * kRounding * magnitude;
}

void BuildLookupTables(const CodebookView& codebook, const float* q, size_t q_stride,
                       size_t num_q_rows, std::byte* entries, TableRow* rows) {
  if (!AreBytes(codebook.bits)) {  // Fills the places of missing rows.
    __builtin_memset(entries, 0,
                     LookupTableBytes(codebook.num_subspaces, codebook.bits, num_q_rows));
  }
  ExactRow exact;
  for (size_t r = 0; r < num_q_rows; ++r) {
    ScoreRow(codebook, q + r * q_stride, &exact);
    BuildRow(codebook, exact, r, entries, rows + r);
  }
}

// SumBlocks for one block, and for two.
struct SumFunctions {
  using Function = void (*)(const uint8_t* codes, const uint8_t* tables, size_t num_subspaces,
                            uint16_t* sums);
  Function one;
  Function two;
};

template <size_t kRows>
inline SumFunctions SumsOf(size_t bits) {
  if (bits == 4) return {SumBlocks<4, kRows, 1>, SumBlocks<4, kRows, 2>};
  if (bits == 6) return {SumBlocks<6, kRows, 1>, SumBlocks<6, kRows, 2>};
  return {SumBlocks<8, kRows, 1>, SumBlocks<8, kRows, 2>};
}

inline SumFunctions SumsOf(size_t bits, size_t num_rows) {
  switch (num_rows) {
    case 1:
      return SumsOf<1>(bits);
    case 2:
      return SumsOf<2>(bits);
    case 3:
      return SumsOf<3>(bits);
    default:
      return SumsOf<4>(bits);
  }
}

// Calls see(block, row, num_rows, sums) for each block of the keys [first_key, end_key) and at most
// kTableRows rows from `row` on, by rows and then by blocks; sums are kSumStride apart, and may be
// written.
template <typename See>
inline void ForBlockSums(const ProductCodesView& view, size_t first_key, size_t end_key,
                         const LookupTables& tables, const See& see) {
  if (first_key >= end_key) return;
  const size_t first = first_key / kCodeKeys;
  const size_t end = (end_key + kCodeKeys - 1) / kCodeKeys;
  const size_t block_bytes = CodeBlockBytes(view.num_subspaces, view.bits);
  alignas(64) uint16_t sums[kTableRows * kSumStride];
  for (size_t row = 0; row < tables.num_q_rows; row += kTableRows) {
    const size_t left = tables.num_q_rows - row;
    const size_t num_rows = left < kTableRows ? left : kTableRows;
    const SumFunctions functions = SumsOf(view.bits, num_rows);
    const uint8_t* const of_pass = TablesFrom(tables, row, view.num_subspaces, view.bits);
    for (size_t block = first; block < end; block += 2) {
      const bool are_two = block + 1 < end;
      (are_two ? functions.two : functions.one)(view.codes + block * block_bytes, of_pass,
                                                view.num_subspaces, sums);
      see(block, row, num_rows, sums);
      if (are_two) see(block + 1, row, num_rows, sums + kCodeKeys);
    }
  }
}

inline void ScoreSums(const uint16_t* sums, const TableRow& row, float* scores) {
  for (size_t i = 0; i < kCodeKeys; i += kLanes) {
    Store(scores + i, Add(Mul(WordsAsFloats(sums + i), Set1(row.scale)), Set1(row.offset)));
  }
}

void ScanProductCodes(const ProductCodesView& view, size_t first_key, size_t num_keys,
                      const LookupTables& tables, float* scores, size_t scores_stride) {
  const size_t end_key = first_key + num_keys;
  ForBlockSums(view, first_key, end_key, tables,
               [&](size_t block, size_t row, size_t num_rows, const uint16_t* sums) {
                 const size_t at = block * kCodeKeys;
                 const size_t begin = at < first_key ? first_key : at;
                 const size_t end = at + kCodeKeys < end_key ? at + kCodeKeys : end_key;
                 for (size_t r = 0; r < num_rows; ++r) {
                   float* const to = scores + (row + r) * scores_stride + (begin - first_key);
                   if (end - begin == kCodeKeys) {
                     ScoreSums(sums + r * kSumStride, tables.rows[row + r], to);
                     continue;
                   }
                   alignas(64) float all[kCodeKeys];
                   ScoreSums(sums + r * kSumStride, tables.rows[row + r], all);
                   __builtin_memcpy(to, all + (begin - at), (end - begin) * sizeof(float));
                 }
               });
}

// The weights of a block of keys.
struct BlockWeights {
  static constexpr size_t kRegisters = kCodeKeys / kWordLanes;

  // Weighs the keys that have these sums. Keys from num_keys on weigh 0; the sums are overwritten
  // then.
  [[gnu::always_inline]] void Weigh(const WeightRow& map, size_t num_keys, uint16_t* sums) {
    const Words16 max_sum = SetWords(map.max_sum), limit = SetWords(map.limit);
    const Words16 spread = SetWords(map.spread), slope = SetWords(map.slope);
    const Words16 top = SetWords(map.top);
#pragma GCC unroll 8
    for (size_t i = 0; i < kRegisters; ++i) {
      const Words16 below = MinWords(SubSaturated(max_sum, WordsAt(sums + i * kWordLanes)), limit);
      const Words16 weight = SubSaturated(top, MulHigh(MulLow(below, spread), slope));
      at[i] = MinWords(MaxWords(weight, SetWords(kLeastWeight)), SetWords(kLargestWeight));
    }
    if (num_keys < kCodeKeys) {
      Store(sums);
      for (size_t i = num_keys; i < kCodeKeys; ++i) sums[i] = 0;
      Load(sums);
    }
  }
  [[gnu::always_inline]] void Load(const uint16_t* from) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kRegisters; ++i) at[i] = WordsAt(from + i * kWordLanes);
  }
  [[gnu::always_inline]] void Store(uint16_t* to) const {
#pragma GCC unroll 8
    for (size_t i = 0; i < kRegisters; ++i) StoreWords(to + i * kWordLanes, at[i]);
  }
  [[gnu::always_inline]] void RaiseTo(const BlockWeights& other) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kRegisters; ++i) at[i] = MaxWords(at[i], other.at[i]);
  }
  // Adds the weights of keys 2l, 2l + 1, 2l + 32 and 2l + 33.
  [[gnu::always_inline]] void SumFours(Vec (&parts)[kVecsOf16]) const {
#pragma GCC unroll 4
    for (size_t i = 0; i < kVecsOf16; ++i) {
      const Words16 lower = at[i], upper = at[i + kRegisters / 2];
      parts[i] =
          Add(Add(EvenFloats(lower), OddFloats(lower)), Add(EvenFloats(upper), OddFloats(upper)));
    }
  }
  [[gnu::always_inline]] float Sum() const {
    Vec parts[kVecsOf16];
    SumFours(parts);
    return SumOf16(parts);
  }

  Words16 at[kRegisters];
};

// Writes the parts of `out` that are asked for, of a block, from its sums, for kRows rows from
// `row` on; keys and blocks are counted from the first.
template <size_t kRows>
[[gnu::always_inline]] inline void WeighBlock(uint16_t* sums, size_t row, size_t first_key,
                                              size_t num_keys, const WeightRow* maps,
                                              const CodeWeights& out) {
  BlockWeights most = {};
  Vec parts[kRows][kVecsOf16];
  if (out.maxima != nullptr && row > 0) most.Load(out.maxima + first_key);
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) {
    BlockWeights weights;
    weights.Weigh(maps[row + r], num_keys, sums + r * kSumStride);
    if (out.weights != nullptr) {
      weights.Store(out.weights + (row + r) * out.weights_stride + first_key);
    }
    weights.SumFours(parts[r]);
    most.RaiseTo(weights);
  }
  const size_t block = first_key / kCodeKeys;
  if (out.sums != nullptr) {
    float of_rows[kRows];
    SumsOf16<kRows>(parts, of_rows);
    float* const to = out.sums + row * out.sums_stride + block;
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) to[r * out.sums_stride] = of_rows[r];
  }
  if (out.maxima != nullptr) most.Store(out.maxima + first_key);
  if (out.maxima_sums != nullptr) out.maxima_sums[block] = most.Sum();
}

void WeighProductCodes(const ProductCodesView& view, size_t first_key, size_t num_keys,
                       const LookupTables& tables, const WeightRow* maps, const CodeWeights& out) {
  ForBlockSums(view, first_key, first_key + num_keys, tables,
               [&](size_t block, size_t row, size_t num_rows, uint16_t* sums) {
                 const size_t at = block * kCodeKeys - first_key;
                 WithRowCount(
                     num_rows, [&]<size_t kRows>() __attribute__((always_inline)) {
                       if constexpr (kRows != 0) {
                         WeighBlock<kRows>(sums, row, at, num_keys - at, maps, out);
                       }
                     });
               });
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_PRODUCT_CODES_INL_H_
