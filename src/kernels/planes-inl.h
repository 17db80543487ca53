// Internal: the parts of key planes that all targets share: scales, and the pass over blocks.
#ifndef ATTNDB_KERNELS_PLANES_INL_H_
#define ATTNDB_KERNELS_PLANES_INL_H_

#include "kernels/dot-inl.h"
#include "kernels/float_bits-inl.h"
#include "kernels/keep-inl.h"
#include "kernels/layout.h"
#include "kernels/plane_pass-inl.h"
#include "kernels/planes.h"
#include "kernels/planes_avx2-inl.h"
#include "kernels/planes_avx512-inl.h"
#include "kernels/planes_block-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

// The least scale: the smallest normal number, whose reciprocal is finite.
inline constexpr uint32_t kLeastScale = 0x0080;  // A bfloat16.

inline float MaxMagnitude(const float* x, size_t num_channels) {
  Vec largest = Zero();
  for (size_t i = 0; i < num_channels; i += kLanes) largest = Max(largest, Abs(Load(x + i)));
  return ReduceMax(largest);
}

// The scale, a bfloat16 in the low bits.
inline uint32_t KeyScale(float max) {
  const uint32_t above = (BitsOfFloat(max / 127.5f) + 0xffffu) >> 16;
  return max == 0 ? 0 : above < kLeastScale ? kLeastScale : above;
}

void EncodePlanes(const float* rows, size_t stride, size_t num_keys, size_t num_channels,
                  const PlaneBlock& block) {
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
    block.scales[key] = static_cast<uint16_t>(bits);
    keys.scale[key] = FloatOfBits(bits << 16);
    keys.inverse[key] = max[key] == 0 ? 0.0f : 1.0f / keys.scale[key];
  }
  EncodeBlock(keys, num_channels, block);
}

// The largest |x[i] + x[i + 1]| / 2 of pairs of channels. Halved, as a sum may overflow.
inline float MaxPairMean(const float* x, size_t num_channels) {
  constexpr size_t kPairs = 8;  // Eight side by side, since one maximum would wait for the other.
  float max[kPairs] = {};
  for (size_t i = 0; i < num_channels; i += 2 * kPairs) {
    for (size_t p = 0; p < kPairs; ++p) {
      const float mean = 0.5f * x[i + 2 * p] + 0.5f * x[i + 2 * p + 1];
      const float magnitude = mean < 0 ? -mean : mean;
      max[p] = max[p] < magnitude ? magnitude : max[p];
    }
  }
  float largest = 0.0f;
  for (const float pair : max) largest = largest < pair ? pair : largest;
  return largest;
}

void EncodePlaneQuery(const float* q, size_t num_channels, int8_t* codes, float* scale,
                      int32_t* code_sum) {
  const float max = MaxMagnitude(q, num_channels);
  const float least = WidenBFloat16(kLeastScale);
  const float of_one = max / 127.0f, of_two = MaxPairMean(q, num_channels) / 63.5f;
  const float wanted = of_one < of_two ? of_two : of_one;
  *scale = max == 0 ? 0.0f : wanted < least ? least : wanted;
  const float inverse = max == 0 ? 0.0f : 1.0f / *scale;
  int32_t sum = 0;
  for (size_t i = 0; i < num_channels; ++i) {
    const float rounded = RoundOne(q[i] * inverse);
    // A NaN that got here after all gives a wrong code, not undefined behaviour.
    const float at_least = rounded >= -127.0f ? rounded : -127.0f;
    const auto code = static_cast<int32_t>(at_least < 127.0f ? at_least : 127.0f);
    codes[i] = static_cast<int8_t>(code);
    sum += code;
  }
  *code_sum = sum;
}

// Factor of a row's sums: see HighWeight().
template <int kBits>
inline float ScaleOf(const PlaneQuery& query) {
  return kBits == 8 ? query.scale : 0.5f * query.scale;
}
template <int kBits>
inline int32_t FirstSum(const PlaneQuery& query) {
  return (kBits == 8 ? -128 : -241) * query.code_sum;
}

// How far ahead planes are fetched: 2,560 to 8,192 bytes took the same time on a Xeon. With eight
// bits, both planes share the lines that can be under way at a time.
inline constexpr size_t kPlaneAheadBytes = 8192;
template <int kBits>
inline constexpr size_t kPlaneAhead = kBits == 4 ? kPlaneAheadBytes : kPlaneAheadBytes / 2;

template <int kBits, size_t kRows>
struct PassQueries {
  explicit PassQueries(const PlaneQuery* queries) {
    for (size_t r = 0; r < kRows; ++r) {
      codes.row[r] = queries[r].codes;
      terms.first_sum[r] = FirstSum<kBits>(queries[r]);
      terms.scale[r] = ScaleOf<kBits>(queries[r]);
    }
  }

  Codes<kRows> codes;
  RowTerms<kRows> terms;
};

// Scores the blocks [begin, end) of kPlaneKeys keys, for a scan that began at first_key, and kRows
// rows. Prefetches the bytes `ahead` in each plane. Scores of a block go to `scores`, rows `stride`
// apart. see(key) is called when they are written, and returns the place of the next ones.
template <int kBits, size_t kRows, typename See>
[[gnu::always_inline]] inline void ScoreBlocks(const PlanesView& planes, size_t first_key,
                                               size_t begin, size_t end, size_t ahead,
                                               const PlaneQuery* queries, float* scores,
                                               size_t stride, const See& see) {
  const size_t num_channels = planes.num_channels;
  PassQueries<kBits, kRows> pass(queries);
  for (size_t key = begin; key < end; key += kPlaneKeys) {
    if (key % kOffsetKeys == 0 || key == begin) {
      FindOffsets<kRows>(queries, key / kOffsetKeys - first_key / kOffsetKeys, pass.terms.offset);
    }
    const size_t at = key / kPlaneKeys * PlaneBlockBytes(num_channels);
    ScoreBlock<kBits, kRows>(planes.high + at, planes.low + (kBits == 8 ? at : 0), ahead,
                             pass.codes, num_channels, planes.scales + key, pass.terms, scores,
                             stride);
    scores = see(key);
  }
}

template <int kBits, size_t kRows>
[[gnu::noinline]] void ScanPass(const PlanesView& planes, size_t first_key, size_t begin,
                                size_t end, size_t ahead, const PlaneQuery* queries, float* scores,
                                size_t scores_stride) {
  ScoreBlocks<kBits, kRows>(planes, first_key, begin, end, ahead, queries, scores, scores_stride,
                            [&](size_t) { return scores += kPlaneKeys; });
}

// With VNNI, where a block of keys fills a vector, scores stay in registers.
template <int kBits, size_t kRows>
[[gnu::noinline]] void KeepScores(const PlanesView& planes, size_t first_key, size_t num_keys,
                                  const PlaneQuery* queries, const DrawRule& rule,
                                  const float* noise, uint32_t first_token, KeptTokens* kept) {
  Keeper<kRows, false> keeper(rule, kRows, *kept);
  alignas(64) float scores[kRows * kPlaneKeys];
  ScoreBlocks<kBits, kRows>(
      planes, first_key, first_key, first_key + num_keys, kPlaneAhead<kBits>, queries, scores,
      kPlaneKeys, [&](size_t key) __attribute__((always_inline)) {
        const size_t i = key - first_key;
        for (size_t k = 0; k < kPlaneKeys; k += kLanes) {
          keeper.KeepVector(noise + i + k, first_token + static_cast<uint32_t>(i + k),
                            [&](size_t r) { return Load(scores + r * kPlaneKeys + k); });
        }
        return scores;
      });
  kept->count = keeper.count();
}

// Lists the blocks of kPlaneKeys keys, as numbers of their first keys, in which some noise reaches
// the need. Returns their number.
inline size_t ListNeeded(const float* needs, const float* noise, size_t num_keys, uint32_t* list) {
  size_t count = 0;
  for (size_t i = 0; i < num_keys; i += kPlaneKeys) {
    const Vec need = Set1(needs[i / kOffsetKeys]);
    uint32_t any = 0;
    for (size_t k = 0; k < kPlaneKeys; k += kLanes) any |= MaskNotBelow(Load(noise + i + k), need);
    list[count] = static_cast<uint32_t>(i);
    count += static_cast<size_t>(any != 0);
  }
  return count;
}

// Like KeepScores, for listed blocks, which are numbers of keys from first_key on.
template <int kBits, size_t kRows>
[[gnu::noinline]] void KeepListed(const PlanesView& planes, size_t first_key, const uint32_t* list,
                                  size_t count, const PlaneQuery* queries, const DrawRule& rule,
                                  const float* noise, uint32_t first_token, KeptTokens* kept) {
  const size_t block_bytes = PlaneBlockBytes(planes.num_channels);
  const uint8_t* const high = planes.high + first_key / kPlaneKeys * block_bytes;
  const auto fetch = [&](size_t i) __attribute__((always_inline)) {
    PrefetchLines(high + list[i] / kPlaneKeys * block_bytes, block_bytes);
  };
  const size_t lead = kPlaneAheadBytes / block_bytes + 1;
  for (size_t i = 0; i < count && i < lead; ++i) fetch(i);
  Keeper<kRows, false> keeper(rule, kRows, *kept);
  PassQueries<kBits, kRows> pass(queries);
  alignas(64) float scores[kRows * kPlaneKeys];
  for (size_t i = 0; i < count; ++i) {
    const size_t key = list[i];
    if (i + lead < count) fetch(i + lead);
    FindOffsets<kRows>(queries, key / kOffsetKeys, pass.terms.offset);
    const size_t at = (first_key + key) / kPlaneKeys * block_bytes;
    ScoreBlock<kBits, kRows>(planes.high + at, planes.low + (kBits == 8 ? at : 0), 0, pass.codes,
                             planes.num_channels, planes.scales + first_key + key, pass.terms,
                             scores, kPlaneKeys);
    for (size_t k = 0; k < kPlaneKeys; k += kLanes) {
      keeper.KeepVector(noise + key + k, first_token + static_cast<uint32_t>(key + k),
                        [&](size_t r) { return Load(scores + r * kPlaneKeys + k); });
    }
  }
  kept->count = keeper.count();
}

template <int kBits>
void ScanBits(const PlanesView& planes, size_t first_key, size_t num_keys,
              const PlaneQuery* queries, size_t num_q_rows, float* scores, size_t scores_stride) {
  ForPasses(first_key, num_keys, num_q_rows, kPlaneAhead<kBits>,
            [&]<size_t kRows>(size_t begin, size_t end, size_t ahead, size_t r) {
              ForBlocks<kRows>(begin, end, scores + r * scores_stride + (begin - first_key),
                               scores_stride,
                               [&](size_t first, size_t last, float* to, size_t stride) {
                                 ScanPass<kBits, kRows>(planes, first_key, first, last, ahead,
                                                        queries + r, to, stride);
                               });
            });
}

void ScanPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                const PlaneQuery* queries, size_t num_q_rows, float* scores, size_t scores_stride) {
  if (bits == 4) {
    ScanBits<4>(planes, first_key, num_keys, queries, num_q_rows, scores, scores_stride);
  } else {
    ScanBits<8>(planes, first_key, num_keys, queries, num_q_rows, scores, scores_stride);
  }
}

// Fetches the high plane of a listed block.
inline void FetchListed(const PlanesView& planes, uint32_t block) {
  const size_t block_bytes = kOffsetKeys / kPlaneKeys * PlaneBlockBytes(planes.num_channels);
  PrefetchLines(planes.high + block * block_bytes, block_bytes);
}

// Fetches memory for blocks further down the list, as far as kPlaneAheadBytes.
template <int kBits, size_t kRows>
[[gnu::noinline]] void ScanListed(const PlanesView& planes, const PlaneBlocks& list,
                                  const PlaneQuery* queries, float* scores, size_t scores_stride) {
  const size_t num_channels = planes.num_channels;
  const size_t block_bytes = kOffsetKeys / kPlaneKeys * PlaneBlockBytes(num_channels);
  const size_t lead = kPlaneAheadBytes / block_bytes + 1;
  for (size_t i = 0; i < list.num_blocks && i < lead; ++i) FetchListed(planes, list.blocks[i]);
  PassQueries<kBits, kRows> pass(queries);
  for (size_t i = 0; i < list.num_blocks; ++i) {
    const size_t block = list.blocks[i];
    if (i + lead < list.num_blocks) FetchListed(planes, list.blocks[i + lead]);
    FindOffsets<kRows>(queries, i, pass.terms.offset);
    const size_t begin = block * kOffsetKeys;
    const size_t end = begin + kOffsetKeys < list.num_keys ? begin + kOffsetKeys : list.num_keys;
    float* to = scores + i * kOffsetKeys;
    for (size_t key = begin; key < end; key += kPlaneKeys, to += kPlaneKeys) {
      const size_t at = key / kPlaneKeys * PlaneBlockBytes(num_channels);
      ScoreBlock<kBits, kRows>(planes.high + at, planes.low + (kBits == 8 ? at : 0), 0, pass.codes,
                               num_channels, planes.scales + key, pass.terms, to, scores_stride);
    }
  }
}

void ScanPlaneBlocks(const PlanesView& planes, int bits, const PlaneBlocks& list,
                     const PlaneQuery* queries, size_t num_q_rows, float* scores,
                     size_t scores_stride) {
  for (size_t r = 0; r < num_q_rows;) {
    const size_t left = num_q_rows - r;
    const size_t num_passes = (left + kMaxPlaneRows - 1) / kMaxPlaneRows;
    const size_t num_rows = (left + num_passes - 1) / num_passes;
    WithRowCount(num_rows, [&]<size_t kRows>() {
      if constexpr (kRows != 0) {
        (bits == 4 ? ScanListed<4, kRows> : ScanListed<8, kRows>)(planes, list, queries + r,
                                                                  scores + r * scores_stride,
                                                                  scores_stride);
      }
    });
    r += num_rows;
  }
}

static_assert(kKeepRows == kMaxPlaneRows && kKeepRows == kMostUnrolledRows);

template <int kBits, size_t kRows>
size_t KeepBits(const PlanesView& planes, size_t first_key, size_t num_keys,
                const PlaneQuery* queries, const DrawRule& rule, const float* noise,
                uint32_t first_token, const float* needs, KeptTokens* kept) {
  if (needs != nullptr) {
    uint32_t list[kMostSkipping / kPlaneKeys];
    const size_t count = ListNeeded(needs, noise, num_keys, list);
    // If nearly all blocks are needed, reading them one after the other takes less time.
    if (4 * count * kPlaneKeys < 3 * num_keys) {
      KeepListed<kBits, kRows>(planes, first_key, list, count, queries, rule, noise, first_token,
                               kept);
      return count * kPlaneKeys;
    }
  }
  KeepScores<kBits, kRows>(planes, first_key, num_keys, queries, rule, noise, first_token, kept);
  return num_keys;
}

size_t KeepPlanes(const PlanesView& planes, int bits, size_t first_key, size_t num_keys,
                  const PlaneQuery* queries, size_t num_q_rows, const DrawRule& rule,
                  const float* noise, uint32_t first_token, const float* needs, KeptTokens* kept) {
  size_t num_scored = 0;
  WithRowCount(num_q_rows, [&]<size_t kRows>() {
    if constexpr (kRows != 0) {
      num_scored = (bits == 4 ? KeepBits<4, kRows>
                              : KeepBits<8, kRows>)(planes, first_key, num_keys, queries, rule,
                                                    noise, first_token, needs, kept);
    }
  });
  return num_scored;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_PLANES_INL_H_
