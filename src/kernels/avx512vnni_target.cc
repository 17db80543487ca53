// The kernels compiled for AVX-512 with VNNI and VBMI, which the scans of quantized keys use; the
// others are those of AVX-512. The flags of this file are in CMakeLists.txt.
#include "kernels/kernel_table.h"

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#define ATTNDB_KERNELS_TARGET_AVX512
#include "kernels/planes-inl.h"
#include "kernels/sign_plane-inl.h"

namespace attndb::kernels {
namespace {

constexpr PlaneKernels kKernels = {.encode_planes = avx512::EncodePlanes,
                                   .encode_plane_query = avx512::EncodePlaneQuery,
                                   .scan_planes = avx512::ScanPlanes,
                                   .scan_plane_blocks = avx512::ScanPlaneBlocks,
                                   .keep_planes = avx512::KeepPlanes,
                                   .encode_sign_query = avx512::EncodeSignQuery,
                                   .scan_signs = avx512::ScanSigns};

}  // namespace

const PlaneKernels* Avx512VnniKernels() { return &kKernels; }

}  // namespace attndb::kernels

#else  // Not an x86-64 build.

namespace attndb::kernels {
const PlaneKernels* Avx512VnniKernels() { return nullptr; }
}  // namespace attndb::kernels

#endif
