// The kernels compiled for AVX2; the flags of this file are in CMakeLists.txt.
#include "kernels/kernel_table.h"

#if defined(__AVX2__)
#define ATTNDB_KERNELS_TARGET_AVX2
#include "kernels/table-inl.h"

namespace attndb::kernels {
const KernelTable* Avx2Table() { return &avx2::kTable; }
}  // namespace attndb::kernels

#else  // Not an x86-64 build.

namespace attndb::kernels {
const KernelTable* Avx2Table() { return nullptr; }
}  // namespace attndb::kernels

#endif
