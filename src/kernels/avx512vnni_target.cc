// The kernels compiled for AVX-512 with VNNI and VBMI, which the scans of quantized keys use; the
// others are those of AVX-512. The flags of this file are in CMakeLists.txt.
#include "kernels/kernel_table.h"

#if defined(__AVX512VNNI__) && defined(__AVX512VBMI__)
#define ATTNDB_KERNELS_TARGET_AVX512
#include "kernels/planes-inl.h"
#include "kernels/sign_plane-inl.h"

namespace attndb::kernels {
namespace {

KernelTable MakeTable() {
  KernelTable table = *Avx512Table();
  table.encode_planes = avx512::EncodePlanes;
  table.encode_plane_query = avx512::EncodePlaneQuery;
  table.scan_planes = avx512::ScanPlanes;
  table.encode_sign_query = avx512::EncodeSignQuery;
  table.scan_signs = avx512::ScanSigns;
  return table;
}

}  // namespace

const KernelTable* Avx512VnniTable() {
  static const KernelTable kTable = MakeTable();
  return &kTable;
}

}  // namespace attndb::kernels

#else  // Not an x86-64 build.

namespace attndb::kernels {
const KernelTable* Avx512VnniTable() { return nullptr; }
}  // namespace attndb::kernels

#endif
