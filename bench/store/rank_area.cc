#include "bench/store/rank_area.h"

#include <algorithm>

namespace attndb::bench {

double RankArea(const std::vector<double>& first, const std::vector<double>& second) {
  std::vector<double> sorted = second;
  std::ranges::sort(sorted);
  double sum = 0;  // Values of `second` below each of `first`, and half of those equal to it.
  for (const double value : first) {
    const auto low = std::ranges::lower_bound(sorted, value);
    const auto high = std::ranges::upper_bound(sorted, value);
    sum += static_cast<double>(low - sorted.begin()) + static_cast<double>(high - low) / 2;
  }
  return sum / (static_cast<double>(first.size()) * static_cast<double>(second.size()));
}

}  // namespace attndb::bench
