// Internal: sums of the lookup tables' entries of two blocks of product codes, in 16 bits.
//
// By shuffles: the entries of a subspace are in registers, and one instruction looks up those of 32
// or 64 keys. It uses 16 entries on AVX2 and AVX-512, 64 with VBMI, and 256 by four such look-ups,
// among which the code's top bits choose. Found bytes are added as words of two keys: the sum of
// all words, modulo 2^16, and the sum of upper bytes give both keys' sums.
// By loads: entries are words, with four q rows side by side, so that one load of 64 bits and one
// addition serve four rows; no sum carries into its neighbour.
#ifndef ATTNDB_KERNELS_CODE_SUMS_INL_H_
#define ATTNDB_KERNELS_CODE_SUMS_INL_H_

#include "kernels/prefetch.h"
#include "kernels/product_codes.h"
#include "kernels/words-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// Rows of a pass, and the distance of their sums: two blocks.
inline constexpr size_t kTableRows = 4;
inline constexpr size_t kSumStride = 2 * kCodeKeys;

#if defined(__AVX512VBMI__)
template <size_t kBits>
inline constexpr bool kShuffles = true;
#elif defined(__AVX2__)
template <size_t kBits>
inline constexpr bool kShuffles = kBits == 4;
#else
template <size_t kBits>
inline constexpr bool kShuffles = false;
#endif

#if defined(__AVX2__)

// CodeIndex: the codes of a register of keys, in the form of look-ups. Entries: those of a
//            subspace.
template <size_t kBits>
struct CodeIndex;
template <size_t kBits>
struct Entries;

// Codes of two subspaces share a byte.
template <>
struct CodeIndex<4> {
  CodeIndex() = default;
  // `half`: 0 for the subspace in the low halves.
  [[gnu::always_inline]] CodeIndex(const uint8_t* line, size_t half) {
    const Words16 bytes = WordsAt(line);
#if defined(__AVX512BW__)
    const Words16 moved = half == 0 ? bytes : _mm512_srli_epi16(bytes, 4);
    codes = _mm512_and_si512(moved, _mm512_set1_epi8(15));
#else
    const Words16 moved = half == 0 ? bytes : _mm256_srli_epi16(bytes, 4);
    codes = _mm256_and_si256(moved, _mm256_set1_epi8(15));
#endif
  }
  Words16 codes;
};

template <>
struct Entries<4> {
  [[gnu::always_inline]] explicit Entries(const uint8_t* table) {
    const __m128i of_lane = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
#if defined(__AVX512BW__)
    entries = _mm512_broadcast_i32x4(of_lane);
#else
    entries = _mm256_broadcastsi128_si256(of_lane);
#endif
  }
  [[gnu::always_inline]] Words16 Find(const CodeIndex<4>& index) const {
#if defined(__AVX512BW__)
    return _mm512_shuffle_epi8(entries, index.codes);
#else
    return _mm256_shuffle_epi8(entries, index.codes);
#endif
  }
  Words16 entries;
};

#endif  // __AVX2__

#if defined(__AVX512VBMI__)

template <>
struct CodeIndex<6> {
  CodeIndex() = default;
  [[gnu::always_inline]] CodeIndex(const uint8_t* line, size_t) : codes(WordsAt(line)) {}
  Words16 codes;
};

template <>
struct Entries<6> {
  [[gnu::always_inline]] explicit Entries(const uint8_t* table) : entries(WordsAt(table)) {}
  [[gnu::always_inline]] Words16 Find(const CodeIndex<6>& index) const {
    return _mm512_permutexvar_epi8(index.codes, entries);
  }
  Words16 entries;
};

template <>
struct CodeIndex<8> {
  CodeIndex() = default;
  [[gnu::always_inline]] CodeIndex(const uint8_t* line, size_t)
      : codes(WordsAt(line)),
        is_upper(_mm512_movepi8_mask(codes)),
        is_odd(_mm512_movepi8_mask(AddWords(codes, codes))),
        is_last(_kand_mask64(is_upper, is_odd)) {}
  Words16 codes;
  __mmask64 is_upper, is_odd, is_last;  // Tell in which quarter of the centroids a code is.
};

template <>
struct Entries<8> {
  [[gnu::always_inline]] explicit Entries(const uint8_t* table)
      : quarters{WordsAt(table), WordsAt(table + 64), WordsAt(table + 128), WordsAt(table + 192)} {}
  // Four permutations of 64 bytes. Two permutations of 128 bytes, of two registers each, are three
  // instructions each on Intel's cores: a fifth of the time of a scan.
  [[gnu::always_inline]] Words16 Find(const CodeIndex<8>& index) const {
    Words16 found = _mm512_permutexvar_epi8(index.codes, quarters[0]);
    found = _mm512_mask_permutexvar_epi8(found, index.is_odd, index.codes, quarters[1]);
    found = _mm512_mask_permutexvar_epi8(found, index.is_upper, index.codes, quarters[2]);
    return _mm512_mask_permutexvar_epi8(found, index.is_last, index.codes, quarters[3]);
  }
  Words16 quarters[4];
};

#endif  // __AVX512VBMI__

#if defined(__AVX2__)

// A register of keys is a line of a block, or half of one.
inline constexpr size_t kUnitKeys = sizeof(Words16);
// Registers of keys that share the loads of entries: of two blocks, or of one half.
inline constexpr size_t kSharing = kManyRegisters ? 2 : 1;

// The lines of a block are read one by one, with work in between, and the hardware does not fetch
// them far enough ahead. With prefetch instructions 8 subspaces take 7 % less time, 32 take 20 %
// less.
inline constexpr size_t kCodeBlocksAhead = 4;

// Writes sums of kUnits registers of keys, the u-th from codes[u] on, to sums[u], rows kSumStride
// apart.
template <size_t kBits, size_t kRows, size_t kUnits>
[[gnu::always_inline]] inline void SumUnits(const uint8_t* const (&codes)[kUnits],
                                            const uint8_t* tables, size_t num_subspaces,
                                            uint16_t* const (&sums)[kUnits]) {
  constexpr size_t kEntries = CodeEntries(kBits);
  constexpr size_t kHalves = kBits == 4 ? 2 : 1;
  const size_t num_lines = num_subspaces / kHalves;
  Words16 all[kRows][kUnits], upper[kRows][kUnits];
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t u = 0; u < kUnits; ++u) all[r][u] = upper[r][u] = SetWords(0);
  }
  for (size_t line = 0; line < num_lines; ++line) {
#pragma GCC unroll 16
    for (size_t u = 0; u < kUnits; ++u) {
      PrefetchNear(codes[u] + (line + kCodeBlocksAhead * num_lines) * kCodeKeys);
    }
#pragma GCC unroll 2
    for (size_t half = 0; half < kHalves; ++half) {
      const uint8_t* const table = tables + (line * kHalves + half) * kEntries;
      CodeIndex<kBits> index[kUnits];
#pragma GCC unroll 16
      for (size_t u = 0; u < kUnits; ++u) index[u] = {codes[u] + line * kCodeKeys, half};
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
        const Entries<kBits> entries(table + r * num_subspaces * kEntries);
#pragma GCC unroll 16
        for (size_t u = 0; u < kUnits; ++u) {
          const Words16 found = entries.Find(index[u]);
          all[r][u] = AddWords(all[r][u], found);
          upper[r][u] = AddWords(upper[r][u], HighBytes(found));
        }
      }
    }
  }
#pragma GCC unroll 16
  for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
    for (size_t u = 0; u < kUnits; ++u) {
      uint16_t* const to = sums[u] + r * kSumStride;
      StoreWords(to, SubWords(all[r][u], RaisedBytes(upper[r][u])));
      StoreWords(to + kCodeKeys / 2, upper[r][u]);
    }
  }
}

template <size_t kBits, size_t kRows, size_t kBlocks>
inline void SumByShuffles(const uint8_t* codes, const uint8_t* tables, size_t num_subspaces,
                          uint16_t* sums) {
  const size_t block_bytes = CodeBlockBytes(num_subspaces, kBits);
  if constexpr (kBlocks == 2 && kSharing == 2) {
    SumUnits<kBits, kRows, 2>({codes, codes + block_bytes}, tables, num_subspaces,
                              {sums, sums + kCodeKeys});
  } else {
    for (size_t block = 0; block < kBlocks; ++block) {
      for (size_t key = 0; key < kCodeKeys; key += kUnitKeys) {
        SumUnits<kBits, kRows, 1>({codes + block * block_bytes + key}, tables, num_subspaces,
                                  {sums + block * kCodeKeys + key / 2});
      }
    }
  }
}

#endif  // __AVX2__

// Writes four rows' sums, side by side, for each key of a block. The function is not inlined and
// its outer loop is not unrolled: GCC would make 22 KB of code for each of twelve callers.
template <size_t kBits>
[[gnu::noinline]] void LoadSums(const uint8_t* codes, const uint64_t* table, size_t num_subspaces,
                                uint64_t* sums) {
  constexpr size_t kEntries = CodeEntries(kBits);
#pragma GCC unroll 1
  for (size_t i = 0; i < kCodeKeys / 2; i += 2) {
    const uint8_t* line = codes + 2 * i;
    const uint64_t* entries = table;
    uint64_t sum[4] = {};
    for (size_t s = 0; s < num_subspaces; s += kBits == 4 ? 2 : 1) {
      for (size_t key = 0; key < 4; ++key) {
        if constexpr (kBits == 4) {
          sum[key] += entries[line[key] & 15] + entries[kEntries + (line[key] >> 4)];
        } else {
          sum[key] += entries[line[key]];
        }
      }
      entries += (kBits == 4 ? 2 : 1) * kEntries;
      line += kCodeKeys;
    }
    sums[i] = sum[0];
    sums[i + kCodeKeys / 2] = sum[1];
    sums[i + 1] = sum[2];
    sums[i + 1 + kCodeKeys / 2] = sum[3];
  }
}

template <size_t kBits, size_t kRows, size_t kBlocks>
inline void SumByLoads(const uint8_t* codes, const uint8_t* tables, size_t num_subspaces,
                       uint16_t* sums) {
  uint64_t of_rows[kCodeKeys];
  for (size_t block = 0; block < kBlocks; ++block) {
    LoadSums<kBits>(codes + block * CodeBlockBytes(num_subspaces, kBits),
                    reinterpret_cast<const uint64_t*>(tables), num_subspaces, of_rows);
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      uint16_t* const to = sums + r * kSumStride + block * kCodeKeys;
      for (size_t i = 0; i < kCodeKeys; ++i) to[i] = static_cast<uint16_t>(of_rows[i] >> 16 * r);
    }
  }
}

// Writes sums of kBlocks blocks of codes for kRows rows, [kRows][kSumStride], from the tables of a
// pass.
template <size_t kBits, size_t kRows, size_t kBlocks>
[[gnu::noinline]] void SumBlocks(const uint8_t* codes, const uint8_t* tables, size_t num_subspaces,
                                 uint16_t* sums) {
  if constexpr (kShuffles<kBits>) {
    SumByShuffles<kBits, kRows, kBlocks>(codes, tables, num_subspaces, sums);
  } else {
    SumByLoads<kBits, kRows, kBlocks>(codes, tables, num_subspaces, sums);
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_CODE_SUMS_INL_H_
