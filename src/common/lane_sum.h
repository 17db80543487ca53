// A sum in several lanes, which processors add side by side: in one lane each term would wait for
// the one before it.
#ifndef ATTNDB_COMMON_LANE_SUM_H_
#define ATTNDB_COMMON_LANE_SUM_H_

#include <cmath>
#include <cstddef>
#include <span>

namespace attndb {

// term(0) + ... + term(count - 1), added in another order, always the same one.
template <typename Number, typename Term>
Number LaneSum(size_t count, const Term& term) {
  constexpr size_t kLanes = 8;
  Number lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  }
  for (size_t lane = 0; i < count; ++i, ++lane) lanes[lane] += term(i);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// The Euclidean norm.
inline double Norm(std::span<const float> x) {
  return std::sqrt(
      LaneSum<double>(x.size(), [&](size_t i) { return double{x[i]} * double{x[i]}; }));
}

}  // namespace attndb

#endif  // ATTNDB_COMMON_LANE_SUM_H_
