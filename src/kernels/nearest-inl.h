// Internal: finds the nearest of some centroids, for many keys.
//
// Lanes are centroids. kNearestKeys keys and a few registers of centroids are a tile of a matrix
// product, whose sums stay in registers; each lane keeps the best value that it has seen, and the
// number of its register.
#ifndef ATTNDB_KERNELS_NEAREST_INL_H_
#define ATTNDB_KERNELS_NEAREST_INL_H_

#include "kernels/math-inl.h"
#include "kernels/words-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kNearestKeys = 4;

// The best of each lane: x.c - |c|^2 / 2, and the number of the first centroid of its register, as
// a float.
struct Best {
  Vec gain;
  Vec first;
};

// Chooses the first of the best lanes.
inline void TakeBest(const Best& best, uint8_t* nearest, float* gain) {
  *gain = ReduceMax(best.gain);
  uint32_t lanes = MaskNotBelow(best.gain, Set1(*gain));
  alignas(64) float first[kLanes];
  Store(first, best.first);
  uint32_t least = 255;
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<uint32_t>(__builtin_ctz(lanes));
    const uint32_t number = static_cast<uint32_t>(first[lane]) + lane;
    least = number < least ? number : least;
  }
  *nearest = static_cast<uint8_t>(least);
}

// Takes kVecs registers of centroids at a time; rows[k] is the k-th key's run of channels.
template <size_t kVecs>
[[gnu::always_inline]] inline void FindNearestOfFour(const float* centroids,
                                                     const float* half_squares, size_t width,
                                                     size_t num_entries,
                                                     const float* const (&rows)[kNearestKeys],
                                                     Best (&best)[kNearestKeys]) {
#pragma GCC unroll 4
  for (size_t k = 0; k < kNearestKeys; ++k) best[k] = {Set1(-kInfinity), Zero()};
  for (size_t e = 0; e < num_entries; e += kVecs * kLanes) {
    Vec sums[kNearestKeys][kVecs];
#pragma GCC unroll 4
    for (size_t v = 0; v < kVecs; ++v) {
      const Vec begin = Sub(Zero(), Load(half_squares + e + v * kLanes));
#pragma GCC unroll 4
      for (size_t k = 0; k < kNearestKeys; ++k) sums[k][v] = begin;
    }
    for (size_t j = 0; j < width; ++j) {
      Vec of_channel[kVecs];
#pragma GCC unroll 4
      for (size_t v = 0; v < kVecs; ++v) {
        of_channel[v] = Once(Load(centroids + j * num_entries + e + v * kLanes));
      }
#pragma GCC unroll 4
      for (size_t k = 0; k < kNearestKeys; ++k) {
        const Vec x = Set1(rows[k][j]);
#pragma GCC unroll 4
        for (size_t v = 0; v < kVecs; ++v) sums[k][v] = Fma(x, of_channel[v], sums[k][v]);
      }
    }
#pragma GCC unroll 4
    for (size_t v = 0; v < kVecs; ++v) {
      const Vec first = Set1(static_cast<float>(static_cast<int32_t>(e + v * kLanes)));
#pragma GCC unroll 4
      for (size_t k = 0; k < kNearestKeys; ++k) {
        best[k].first = Choose(sums[k][v], best[k].gain, first, best[k].first);
        best[k].gain = Max(best[k].gain, sums[k][v]);
      }
    }
  }
}

template <size_t kVecs>
[[gnu::noinline]] void FindNearestTiled(const float* centroids, const float* half_squares,
                                        size_t width, size_t num_entries, const float* rows,
                                        size_t stride, size_t num_keys, uint8_t* nearest,
                                        float* gains) {
  for (size_t i = 0; i < num_keys; i += kNearestKeys) {
    const float* of_keys[kNearestKeys];
    for (size_t k = 0; k < kNearestKeys; ++k) {  // The last key takes the place of missing ones.
      const size_t key = i + k < num_keys ? i + k : num_keys - 1;
      of_keys[k] = rows + key * stride;
    }
    Best best[kNearestKeys];
    FindNearestOfFour<kVecs>(centroids, half_squares, width, num_entries, of_keys, best);
#pragma GCC unroll 4
    for (size_t k = 0; k < kNearestKeys; ++k) {
      if (i + k < num_keys) TakeBest(best[k], nearest + i + k, gains + i + k);
    }
  }
}

void FindNearest(const float* centroids, const float* half_squares, size_t width,
                 size_t num_entries, const float* rows, size_t stride, size_t num_keys,
                 uint8_t* nearest, float* gains) {
  constexpr size_t kMostVecs = kManyRegisters ? 4 : 2;
  constexpr size_t kFewVecs = 16 / kLanes < kMostVecs ? 16 / kLanes : kMostVecs;
  (num_entries == 16 ? FindNearestTiled<kFewVecs>
                     : FindNearestTiled<kMostVecs>)(centroids, half_squares, width, num_entries,
                                                    rows, stride, num_keys, nearest, gains);
}

void LowerDistances(const float* keys, size_t width, size_t num_blocks, const float* centroid,
                    float* distances) {
  constexpr size_t kVecs = kDistanceKeys / kLanes;
  for (size_t b = 0; b < num_blocks; ++b) {
    const float* const block = keys + b * width * kDistanceKeys;
    float* const to = distances + b * kDistanceKeys;
    Vec sums[kVecs];
    for (size_t v = 0; v < kVecs; ++v) sums[v] = Zero();
    for (size_t j = 0; j < width; ++j) {
      const Vec c = Set1(centroid[j]);
      for (size_t v = 0; v < kVecs; ++v) {
        const Vec difference = Sub(Load(block + j * kDistanceKeys + v * kLanes), c);
        sums[v] = Fma(difference, difference, sums[v]);
      }
    }
    for (size_t v = 0; v < kVecs; ++v) {
      Store(to + v * kLanes, Min(Load(to + v * kLanes), sums[v]));
    }
  }
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_NEAREST_INL_H_
