// Internal to graph: scores that can be put in order.
//
// Threads: a pure function.
#ifndef ATTNDB_INDEX_GRAPH_ORDERED_SCORE_H_
#define ATTNDB_INDEX_GRAPH_ORDERED_SCORE_H_

#include <limits>

namespace attndb::index {

// The score, or the least of all for NaN, which sums of huge numbers may be: NaN would have no
// place in an order.
inline float Ordered(float score) {
  return score == score ? score : -std::numeric_limits<float>::infinity();
}

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_GRAPH_ORDERED_SCORE_H_
