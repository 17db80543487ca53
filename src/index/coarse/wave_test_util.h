// Clusters for tests, and their contents, in plain float64.
#ifndef ATTNDB_INDEX_COARSE_WAVE_TEST_UTIL_H_
#define ATTNDB_INDEX_COARSE_WAVE_TEST_UTIL_H_

#include <vector>

#include "index/coarse/wave_keys.h"
#include "kernels/convert.h"

namespace attndb::index::test {

// The keys of a cluster.
inline std::vector<size_t> KeysOf(const ClusterSums& sums, size_t cluster) {
  std::vector<size_t> keys;
  for (size_t place = sums.FirstPlace(cluster); place < sums.ends[cluster]; ++place) {
    keys.push_back(sums.KeyAt(place));
  }
  return keys;
}

inline std::vector<double> RowOf(const kernels::RowsView& rows, size_t i) {
  std::vector<float> row(rows.num_elements);
  kernels::LoadRows(rows, i, 1, row.data());
  return {row.begin(), row.end()};
}

inline std::vector<double> MeanOf(const kernels::RowsView& rows, const std::vector<size_t>& keys) {
  std::vector<double> mean(rows.num_elements);
  for (const size_t key : keys) {
    const std::vector<double> row = RowOf(rows, key);
    for (size_t d = 0; d < mean.size(); ++d) mean[d] += row[d] / static_cast<double>(keys.size());
  }
  return mean;
}

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_COARSE_WAVE_TEST_UTIL_H_
