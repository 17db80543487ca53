// Internal to indexes: pieces of a byte form, and checks of the numbers in them.
//
// Errors:  kCorruption naming object, field and place, expected and found.
// Threads: pure functions.
#ifndef ATTNDB_INDEX_PIECE_CHECK_H_
#define ATTNDB_INDEX_PIECE_CHECK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "attndb/dtype.h"
#include "attndb/result.h"
#include "storage/vfs/field_check.h"

namespace attndb::index {

inline constexpr size_t kPieceAlignment = 64;

inline constexpr uint32_t kInfinityBits = 0x7f800000;
inline constexpr uint32_t kLeastNormalBits = 0x00800000;
inline constexpr uint16_t kFloat16Infinity = 0x7c00;
inline constexpr uint16_t kBFloat16Infinity = 0x7f80;

constexpr size_t RoundUpToPiece(size_t bytes) {
  return (bytes + kPieceAlignment - 1) / kPieceAlignment * kPieceAlignment;
}

// The numbers of a piece. Floats are read as their bits, so that NaN is compared like other
// numbers.
template <typename T>
std::span<const T> PieceOf(std::span<const std::byte> part, size_t offset, size_t count) {
  return {reinterpret_cast<const T*>(part.data() + offset), count};
}

// Ok if min <= x < limit for all `bits`, with their signs masked out by `mask`.
template <typename T>
Status ExpectBits(std::string_view object, std::string_view field, std::span<const T> bits, T mask,
                  T min, T limit) {
  const auto is_bad = [=](T x) { return (x & mask) < min || (x & mask) >= limit; };
  // Branchless first: honest bytes are looked at once, by vector instructions.
  bool any = false;
  for (const T x : bits) any |= is_bad(x);
  if (!any) return Status::Ok();
  const auto found = std::ranges::find_if(bits, is_bad);
  const std::string place = std::string(field) + '[' + std::to_string(found - bits.begin()) + ']';
  return storage::Mismatch(object, place,
                           min > 0 ? "a positive number" : "a finite number, >= 0 if a size",
                           "bits " + std::to_string(*found));
}

// Ok if all numbers of the piece, which are of this type, are finite.
inline Status ExpectFinite(std::string_view object, std::string_view field,
                           std::span<const std::byte> piece, DType dtype) {
  const auto expect = [&]<typename T>(T sign_mask, T infinity) {
    const auto bits = PieceOf<T>(piece, 0, piece.size() / sizeof(T));
    return ExpectBits<T>(object, field, bits, sign_mask, 0, infinity);
  };
  switch (dtype) {
    case DType::kFloat32:
      return expect(uint32_t{0x7fffffff}, kInfinityBits);
    case DType::kFloat16:
      return expect(uint16_t{0x7fff}, kFloat16Infinity);
    case DType::kBFloat16:
      return expect(uint16_t{0x7fff}, kBFloat16Infinity);
  }
  return Status::Internal("no such element type");
}

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PIECE_CHECK_H_
