// Quantized keys: planes.h. Every target compiles this family, so it also names the target's
// instruction sets.
#include "kernels/kernel_table.h"
#include "kernels/planes-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr PlaneKernels kPlanes = {.encode_planes = EncodePlanes,
                                         .encode_plane_query = EncodePlaneQuery,
                                         .scan_planes = ScanPlanes,
                                         .scan_plane_blocks = ScanPlaneBlocks,
                                         .keep_planes = KeepPlanes};
extern constexpr char kInstructionSets[] = ATTNDB_KERNELS_INSTRUCTION_SETS;

}  // namespace attndb::kernels::ATTNDB_TARGET
