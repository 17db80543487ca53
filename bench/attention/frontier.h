// Which plans of a list are worth having: no other errs no more and costs less.
//
// Threads: stateless.
#ifndef ATTNDB_BENCH_ATTENTION_FRONTIER_H_
#define ATTNDB_BENCH_ATTENTION_FRONTIER_H_

#include <span>
#include <string>
#include <vector>

namespace attndb::bench {

struct PlanPoint {
  double error = 0;
  double cost = 0;
};

// [point]: whether no other point has at most its error and at most its cost, one of them smaller.
std::vector<bool> OnFrontier(std::span<const PlanPoint> points);

// Plans that span what attention can be: exact selection, planes, each remainder, auto.
std::vector<std::string> SweepPlans();

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_ATTENTION_FRONTIER_H_
