// The kernels in plain C++, for every CPU.
#include "kernels/kernel_table.h"
#include "kernels/table-inl.h"

namespace attndb::kernels {
const KernelTable* ScalarTable() { return &portable::kTable; }
}  // namespace attndb::kernels
