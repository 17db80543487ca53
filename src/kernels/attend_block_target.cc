// Prefill: attend_block.h.
#include "kernels/attend_block-inl.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr AttendBlockKernels kAttendBlock = {.attend_block = AttendBlock};

}  // namespace attndb::kernels::ATTNDB_TARGET
