// Whether two kinds of calls can be told apart by their times.
//
// Threads: stateless.
// Source:  Hanley and McNeil, The Meaning and Use of the Area under a ROC Curve, Radiology 143,
//          1982: the area is the probability that a value of one kind is beyond one of the other.
#ifndef ATTNDB_BENCH_STORE_RANK_AREA_H_
#define ATTNDB_BENCH_STORE_RANK_AREA_H_

#include <vector>

namespace attndb::bench {

// The area under the ROC curve of who takes larger values for the first kind's: 0.5 if nothing can
// be told, 1 if each of `first` is larger than all of `second`. Equal values count half. O(n log
// n).
// REQUIRES: neither is empty.
double RankArea(const std::vector<double>& first, const std::vector<double>& second);

}  // namespace attndb::bench

#endif  // ATTNDB_BENCH_STORE_RANK_AREA_H_
