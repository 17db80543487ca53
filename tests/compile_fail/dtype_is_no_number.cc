// A view's element type is named; a number in its place is a size that slipped.
// Error: cannot convert|cannot initialize
#include "attndb/tensor_view.h"

attndb::TensorView RowOf(const float* data) {
#ifdef ATTNDB_MISUSE
  return attndb::TensorView::Contiguous(data, 1, 1, 1, 8);
#else
  return attndb::TensorView::Contiguous(data, attndb::DType::kFloat32, 1, 1, 8);
#endif
}
