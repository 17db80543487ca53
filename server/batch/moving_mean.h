// A mean of what was measured lately: the newest weighs a fifth.
//
// Threads: pure.
#ifndef ATTNDB_SERVER_BATCH_MOVING_MEAN_H_
#define ATTNDB_SERVER_BATCH_MOVING_MEAN_H_

namespace attndb::server {

// Adds `value` to *mean, which is 0 before the first.
inline void Average(double value, double* mean) {
  constexpr double kNewShare = 0.2;
  *mean = *mean == 0 ? value : *mean + kNewShare * (value - *mean);
}

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_MOVING_MEAN_H_
