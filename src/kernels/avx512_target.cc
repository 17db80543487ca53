// The kernels compiled for AVX512; the flags of this file are in CMakeLists.txt.
#include "kernels/kernel_table.h"

#if defined(__AVX512F__)
#define ATTNDB_KERNELS_TARGET_AVX512
#include "kernels/table-inl.h"

namespace attndb::kernels {
const KernelTable* Avx512Table() { return &avx512::kTable; }
}  // namespace attndb::kernels

#else  // Not an x86-64 build.

namespace attndb::kernels {
const KernelTable* Avx512Table() { return nullptr; }
}  // namespace attndb::kernels

#endif
