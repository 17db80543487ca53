// Finds the fewest of some weights that hold a given mass, and the mass of some scores.
//
// Threads: stateless.
#ifndef ATTNDB_INDEX_MASS_CUT_H_
#define ATTNDB_INDEX_MASS_CUT_H_

#include <algorithm>
#include <cstddef>

#include "kernels/attention_state.h"

namespace attndb::index {

// The selected weights: all above `least`, and the first `num_equal` ones equal to it.
struct MassCut {
  float least = 0;
  size_t num_equal = 0;

  // Whether a weight is selected. To be asked about all weights, in their order.
  bool Takes(float weight) {
    if (weight != least || num_equal == 0) return weight > least;
    --num_equal;
    return true;
  }
};

// The highest cut whose weights sum to `need`, which is > 0; all, if they sum to less. Weights are
// in [0, 1].
MassCut FindMassCut(const float* weights, size_t num_weights, double need);

// The share of the mass that a search by estimates for the share p is to hold at least, as
// docs/plan.md states it.
inline double LeastHeld(double p) { return std::max(0.85 * p, 2 * p - 1); }
// The share that audits of such a search ask for: some more, as audits err.
inline double LeastAudited(double p) { return std::max(0.9 * p, 1.75 * p - 0.75); }

// log of the sum of exp(logit) over the scores; -inf if there are none. weights [num_scores] is
// written.
double LogMassOf(const float* scores, size_t num_scores, const kernels::LogitSpec& logit,
                 float* weights);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_MASS_CUT_H_
