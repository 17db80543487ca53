#include "index/coarse/block_bounds.h"

#include <algorithm>
#include <vector>

#include "kernels/convert.h"

namespace attndb::index {

void WriteBounds(const BlockSource& source, size_t block_keys, std::byte* rows) {
  const size_t num_channels = source.keys.num_elements;
  const size_t row_bytes = 2 * num_channels * DTypeBytes(source.keys.dtype);
  std::vector<float> keys(block_keys * num_channels);
  std::vector<float> bounds(2 * num_channels);
  float* const largest = bounds.data();
  float* const smallest = largest + num_channels;
  for (size_t first = 0; first < source.num_keys; first += block_keys, rows += row_bytes) {
    const size_t count = std::min(block_keys, source.num_keys - first);
    kernels::LoadRows(source.keys, first, count, keys.data());
    std::copy_n(keys.data(), num_channels, largest);
    std::copy_n(keys.data(), num_channels, smallest);
    for (size_t i = 1; i < count; ++i) {
      const float* const key = keys.data() + i * num_channels;
      for (size_t d = 0; d < num_channels; ++d) {
        largest[d] = std::max(largest[d], key[d]);
        smallest[d] = std::min(smallest[d], key[d]);
      }
    }
    kernels::ConvertRows(DType::kFloat32, bounds.data(), bounds.size(), source.keys.dtype, rows,
                         bounds.size(), 1, bounds.size(), bounds.size());
  }
}

void SplitQuery(const float* q, size_t num_channels, float* split) {
  for (size_t d = 0; d < num_channels; ++d) {
    split[d] = std::max(q[d], 0.0f);
    split[num_channels + d] = std::min(q[d], 0.0f);
  }
}

}  // namespace attndb::index
