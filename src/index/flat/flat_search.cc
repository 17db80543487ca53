#include "index/flat/flat_search.h"

#include "common/check.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

size_t ShiftIndices(size_t num_indices, uint64_t by, uint32_t* indices) {
  for (size_t i = 0; i < num_indices; ++i) indices[i] += static_cast<uint32_t>(by);
  return num_indices;
}

}  // namespace

size_t FlatTopK::NumIndices(size_t num_middle) const { return num_middle + kernels::kSelectSlack; }

size_t FlatTopK::ScratchBytes(size_t num_middle) const {
  return kernels::SelectTopKScratchBytes(num_middle);
}

size_t FlatTopK::Search(const float* scores, size_t num_visible, TokenRange middle,
                        uint32_t* indices, void* scratch) const {
  ATTNDB_CHECK(middle.begin <= middle.end && middle.end <= num_visible);
  const size_t num_selected =
      kernels::SelectTopK(scores + middle.begin, middle.end - middle.begin, k_, indices, scratch);
  return ShiftIndices(num_selected, middle.begin, indices);
}

size_t FlatDipr::NumIndices(size_t num_middle) const { return num_middle + kernels::kSelectSlack; }

size_t FlatDipr::ScratchBytes(size_t) const { return 0; }

size_t FlatDipr::Search(const float* scores, size_t num_visible, TokenRange middle,
                        uint32_t* indices, void*) const {
  ATTNDB_CHECK(middle.begin <= middle.end && middle.end <= num_visible);
  const float threshold = kernels::MaxScore(scores, num_visible) - beta_;
  const size_t num_selected =
      kernels::SelectRange(scores + middle.begin, middle.end - middle.begin, threshold, indices);
  return ShiftIndices(num_selected, middle.begin, indices);
}

}  // namespace attndb::index
