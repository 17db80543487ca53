// Exact scores and attention over listed rows: attend.h, score.h.
#include "kernels/attend-inl.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr AttendKernels kAttendListed = {
    .attend = Attend<true>, .attend_scored = AttendScored<true>, .score = Score<true>};

}  // namespace attndb::kernels::ATTNDB_TARGET
