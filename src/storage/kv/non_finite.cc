#include "storage/kv/non_finite.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "common/check.h"

namespace attndb::storage {
namespace {

constexpr size_t kBlockBytes = 2048;

// True if some element has the largest exponent, all ones. Signed, because SSE2 has only the signed
// maximum. No early exit inside a block, so that the compiler vectorizes it.
template <typename Bits>
bool AnyExponentAllOnes(std::span<const std::byte> rows, Bits exponent_mask) {
  Bits block[kBlockBytes / sizeof(Bits)];
  while (!rows.empty()) {
    const size_t num_bytes = std::min(rows.size(), kBlockBytes);
    if (num_bytes < kBlockBytes) std::memset(block, 0, sizeof(block));
    std::memcpy(block, rows.data(), num_bytes);
    Bits largest = 0;
    for (const Bits bits : block) {
      largest = std::max(largest, static_cast<Bits>(bits & exponent_mask));
    }
    if (largest == exponent_mask) return true;
    rows = rows.subspan(num_bytes);
  }
  return false;
}

}  // namespace

bool HasNonFinite(DType dtype, std::span<const std::byte> rows) {
  ATTNDB_CHECK(rows.size() % DTypeBytes(dtype) == 0);
  switch (dtype) {
    case DType::kFloat32:
      return AnyExponentAllOnes<int32_t>(rows, 0x7f800000);
    case DType::kFloat16:
      return AnyExponentAllOnes<int16_t>(rows, 0x7c00);
    case DType::kBFloat16:
      return AnyExponentAllOnes<int16_t>(rows, 0x7f80);
  }
  ATTNDB_CHECK(false);
}

}  // namespace attndb::storage
