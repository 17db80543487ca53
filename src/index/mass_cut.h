// The fewest of some weights that hold a mass.
//
// Threads: stateless.
#ifndef ATTNDB_INDEX_MASS_CUT_H_
#define ATTNDB_INDEX_MASS_CUT_H_

#include <cstddef>

namespace attndb::index {

// What is selected: all weights above `least`, and the first `num_equal` of those equal to it.
struct MassCut {
  float least = 0;
  size_t num_equal = 0;

  // Of weights one after another: whether the next one is selected.
  bool Takes(float weight) {
    if (weight != least || num_equal == 0) return weight > least;
    --num_equal;
    return true;
  }
};

// The highest cut that holds `need`, which is > 0; all, if they hold less. Weights are in [0, 1].
MassCut FindMassCut(const float* weights, size_t num_weights, double need);

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_MASS_CUT_H_
