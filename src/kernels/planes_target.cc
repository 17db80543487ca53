// Quantized keys: planes.h, sign_plane.h.
#include "kernels/kernel_table.h"
#include "kernels/planes-inl.h"
#include "kernels/sign_plane-inl.h"

namespace attndb::kernels::ATTNDB_TARGET {

extern constexpr PlaneKernels kPlanes = {.encode_planes = EncodePlanes,
                                         .encode_plane_query = EncodePlaneQuery,
                                         .scan_planes = ScanPlanes,
                                         .scan_plane_blocks = ScanPlaneBlocks,
                                         .keep_planes = KeepPlanes};
extern constexpr SignKernels kSigns = {.encode_sign_query = EncodeSignQuery,
                                       .scan_signs = ScanSigns};

}  // namespace attndb::kernels::ATTNDB_TARGET
