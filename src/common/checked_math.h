// Arithmetic on sizes that came from outside: an overflow gives nullopt instead of a small number.
//
// Operands are optional too, so that terms nest: CheckedAdd(CheckedMul(rows, row_bytes), header).
//
// Threads: pure functions.
#ifndef ATTNDB_COMMON_CHECKED_MATH_H_
#define ATTNDB_COMMON_CHECKED_MATH_H_

#include <bit>
#include <cstdint>
#include <optional>

#include "common/check.h"

namespace attndb {

using CheckedSize = std::optional<uint64_t>;

constexpr CheckedSize CheckedAdd(CheckedSize a, CheckedSize b) {
  uint64_t sum = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &sum)) return std::nullopt;
  return sum;
}

constexpr CheckedSize CheckedMul(CheckedSize a, CheckedSize b) {
  uint64_t product = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
  return product;
}

// The next multiple of `alignment`. REQUIRES: alignment is a power of two.
constexpr CheckedSize CheckedRoundUp(CheckedSize a, uint64_t alignment) {
  ATTNDB_CHECK(std::has_single_bit(alignment));
  const CheckedSize padded = CheckedAdd(a, alignment - 1);
  if (!padded) return std::nullopt;
  return *padded & ~(alignment - 1);
}

// Like CheckedRoundUp, for sizes that are surely small.
constexpr uint64_t RoundUp(uint64_t a, uint64_t alignment) {
  return (a + alignment - 1) & ~(alignment - 1);
}

}  // namespace attndb

#endif  // ATTNDB_COMMON_CHECKED_MATH_H_
