// Exact scores and attention over a run of rows: attend.h, score.h.
#include "kernels/attend-inl.h"
#include "kernels/kernel_table.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr AttendKernels kAttendRows = {
    .attend = Attend<false>, .attend_scored = AttendScored<false>, .score = Score<false>};

}  // namespace attndb::kernels::ATTNDB_TARGET
