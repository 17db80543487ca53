// Which plans of a list are worth having: no other errs no more and costs less.
//
// Threads: stateless.
#ifndef ATTNDB_CLI_BENCH_FRONTIER_H_
#define ATTNDB_CLI_BENCH_FRONTIER_H_

#include <span>
#include <string>
#include <vector>

namespace attndb::cli {

struct PlanPoint {
  double error = 0;
  double cost = 0;
};

// Of each point, whether no other has at most its error and at most its cost, one of them smaller.
std::vector<bool> OnFrontier(std::span<const PlanPoint> points);

// Plans that span what attention can be: exact selection, planes, each remainder, auto.
std::vector<std::string> SweepPlans();

}  // namespace attndb::cli

#endif  // ATTNDB_CLI_BENCH_FRONTIER_H_
