// Quantized keys: planes.h. This family is compiled for every target, so it tells
// what for.
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
