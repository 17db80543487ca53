// Internal: inner products of rows of bytes. Four rows at a time, so that one reduction makes four
// sums.
#ifndef ATTNDB_KERNELS_BYTE_DOT_INL_H_
#define ATTNDB_KERNELS_BYTE_DOT_INL_H_

#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

inline constexpr size_t kByteRows = 4;

#if defined(__AVX2__)

inline __m256i WidenBytes(const int8_t* p) {
  return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

inline void DotFourRows(const int8_t* row, const int8_t* const (&rows)[kByteRows],
                        size_t num_channels, int32_t* dots) {
  __m256i sums[kByteRows] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                             _mm256_setzero_si256()};
  for (size_t d = 0; d < num_channels; d += 16) {
    const __m256i of_row = WidenBytes(row + d);
#pragma GCC unroll 4
    for (size_t r = 0; r < kByteRows; ++r) {
      sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(of_row, WidenBytes(rows[r] + d)));
    }
  }
  const __m256i both =
      _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
  const __m128i all =
      _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(dots), all);
}

#else

inline void DotFourRows(const int8_t* row, const int8_t* const (&rows)[kByteRows],
                        size_t num_channels, int32_t* dots) {
  for (size_t r = 0; r < kByteRows; ++r) {
    int32_t sum = 0;
    for (size_t d = 0; d < num_channels; ++d) sum += int32_t{row[d]} * int32_t{rows[r][d]};
    dots[r] = sum;
  }
}

#endif

void DotBytes(const int8_t* row, const int8_t* rows, size_t stride, size_t num_channels,
              const uint32_t* indices, size_t num_indices, int32_t* dots) {
  size_t i = 0;
  for (; i + kByteRows <= num_indices; i += kByteRows) {
    const int8_t* const four[kByteRows] = {
        rows + indices[i] * stride, rows + indices[i + 1] * stride, rows + indices[i + 2] * stride,
        rows + indices[i + 3] * stride};
    DotFourRows(row, four, num_channels, dots + i);
  }
  if (i == num_indices) return;
  // The last group: missing rows are filled up with its first row.
  const int8_t* four[kByteRows];
  int32_t four_dots[kByteRows];
  for (size_t r = 0; r < kByteRows; ++r) {
    four[r] = rows + indices[i + r < num_indices ? i + r : i] * stride;
  }
  DotFourRows(row, four, num_channels, four_dots);
  for (size_t r = 0; i + r < num_indices; ++r) dots[i + r] = four_dots[r];
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_BYTE_DOT_INL_H_
