#include "kernels/prefetch.h"

namespace attndb::kernels {
namespace {

bool IsIntel() {
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

}  // namespace

size_t StreamAheadBytes(size_t num_q_rows, size_t row_bytes) {
  static const bool kIsIntel = IsIntel();
  if (!kIsIntel || row_bytes > 256) return 8192;
  return num_q_rows <= 4 ? 3072 : 5120;
}

}  // namespace attndb::kernels
