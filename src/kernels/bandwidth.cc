#include "kernels/bandwidth.h"

#include "kernels/kernel_table.h"

namespace attndb::kernels {

uint64_t XorWords(const void* data, size_t num_bytes) {
  return Kernels().rows->xor_words(data, num_bytes);
}

}  // namespace attndb::kernels
