// Keeps the error of draws at what was asked for, as a mean over heads and rows: what samples find
// of their own error moves the error that the next ones aim at.
//
// Threads: one at a time.
#ifndef ATTNDB_PLANNER_DRAW_CONTROL_H_
#define ATTNDB_PLANNER_DRAW_CONTROL_H_

#include <cstdint>

namespace attndb::planner {

class DrawControl {
 public:
  // What to aim at instead of 1, the error asked for.
  double aim() const { return aim_; }

  // A head's error over the one asked for.
  void Observe(double error_ratio);

 private:
  // At first less than asked for: heads may be harder than those that budgets were made for.
  double aim_ = 0.7;
  double sum_ = 0;
  uint32_t count_ = 0;
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_DRAW_CONTROL_H_
