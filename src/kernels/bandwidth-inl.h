// Internal: the read-bandwidth probe.
#ifndef ATTNDB_KERNELS_BANDWIDTH_INL_H_
#define ATTNDB_KERNELS_BANDWIDTH_INL_H_

#include "kernels/simd.h"

namespace attndb::kernels::ATTNDB_TARGET {
namespace {

uint64_t XorWords(const void* data, size_t num_bytes) {
  constexpr size_t kUnroll = 8;
  constexpr size_t kStep = kUnroll * sizeof(Bits);
  const char* const bytes = static_cast<const char*>(data);
  Bits sums[kUnroll] = {};
  size_t i = 0;
  for (; i + kStep <= num_bytes; i += kStep) {
    for (size_t u = 0; u < kUnroll; ++u) {
      sums[u] = Xor(sums[u], LoadBits(bytes + i + u * sizeof(Bits)));
    }
  }
  uint64_t words[kStep / 8];
  __builtin_memcpy(words, sums, sizeof(sums));
  uint64_t result = 0;
  for (const uint64_t word : words) result ^= word;
  for (; i + 8 <= num_bytes; i += 8) {
    uint64_t word;
    __builtin_memcpy(&word, bytes + i, 8);
    result ^= word;
  }
  return result;
}

}  // namespace
}  // namespace attndb::kernels::ATTNDB_TARGET

#endif  // ATTNDB_KERNELS_BANDWIDTH_INL_H_
