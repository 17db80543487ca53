// The median of measurements, as benchmarks print it.
//
// Threads: a pure function.
#ifndef ATTNDB_BENCH_MEDIAN_H_
#define ATTNDB_BENCH_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace attndb::bench {

// The upper one of the two in the middle, if there are two. REQUIRES: a value.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_MEDIAN_H_
