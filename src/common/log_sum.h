// Sums of numbers that are given by their logarithms.
#ifndef ATTNDB_COMMON_LOG_SUM_H_
#define ATTNDB_COMMON_LOG_SUM_H_

#include <algorithm>
#include <cmath>
#include <limits>

namespace attndb {

// log(exp(a) + exp(b)); -inf stands for an empty sum, NaN stays NaN.
inline double AddLogs(double a, double b) {
  const double most = std::max(a, b);
  if (most == -std::numeric_limits<double>::infinity()) return most;
  return most + std::log1p(std::exp(std::min(a, b) - most));
}

}  // namespace attndb

#endif  // ATTNDB_COMMON_LOG_SUM_H_
