#include "testing/kv_data.h"

#include <bit>
#include <cstring>
#include <utility>

#include "common/check.h"
#include "kernels/layout.h"

namespace attndb::test {
namespace {

// Upper half of a binary32, or binary16 of a number between 2^-14 and 2^15 cut off; else 0.
uint16_t HalfBits(DType dtype, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (dtype == DType::kBFloat16) return static_cast<uint16_t>(bits >> 16);
  const uint32_t exponent = bits >> 23 & 0xff;
  if (exponent < 113 || exponent > 142) return 0;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) | (exponent - 112) << 10 |
                               (bits >> 13 & 0x3ffu));
}

void StoreElement(DType dtype, float value, std::byte* place) {
  if (dtype == DType::kFloat32) {
    std::memcpy(place, &value, sizeof(value));
  } else {
    const uint16_t bits = HalfBits(dtype, value);
    std::memcpy(place, &bits, sizeof(bits));
  }
}

size_t RowBytes(const RowsSpec& spec) {
  return kernels::RowElements(spec.head_dim) * DTypeBytes(spec.dtype);
}

}  // namespace

AlignedBuffer RandomRows(const RowsSpec& spec, Random* random) {
  Result<AlignedBuffer> rows = AlignedBuffer::AllocateZeroed(spec.num_rows * RowBytes(spec));
  ATTNDB_CHECK(rows.ok());
  for (uint64_t row = 0; row < spec.num_rows; ++row) {
    for (uint32_t column = 0; column < spec.head_dim; ++column) {
      StoreElement(spec.dtype, static_cast<float>(random->NextGaussian()),
                   rows->data() + row * RowBytes(spec) + column * DTypeBytes(spec.dtype));
    }
  }
  return *std::move(rows);
}

void SetNan(const RowsSpec& spec, uint64_t row, uint32_t column, std::byte* rows) {
  constexpr uint32_t kFloat32Nan = 0x7fc00000u;
  std::byte* const place = rows + row * RowBytes(spec) + column * DTypeBytes(spec.dtype);
  if (spec.dtype == DType::kFloat32) {
    std::memcpy(place, &kFloat32Nan, sizeof(kFloat32Nan));
  } else {
    const uint16_t bits = spec.dtype == DType::kFloat16 ? 0x7e00 : 0x7fc0;
    std::memcpy(place, &bits, sizeof(bits));
  }
}

}  // namespace attndb::test
