#include "common/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace attndb {
namespace {

// ISA-L takes the length as an int.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

}  // namespace

uint32_t Crc32cExtend(uint32_t crc, std::span<const std::byte> data) {
  uint32_t state = ~crc;
  while (!data.empty()) {
    const size_t num_bytes = std::min(data.size(), kMaxCallBytes);
    // ISA-L's signature lacks a const; it only reads.
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(data.data()));
    state = crc32_iscsi(bytes, static_cast<int>(num_bytes), state);
    data = data.subspan(num_bytes);
  }
  return ~state;
}

}  // namespace attndb
