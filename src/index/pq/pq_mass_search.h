// Internal to pq: a search by mass. It finds keys that hold a share of each q row's softmax mass,
// by estimates of all weights and exact scores of the keys that it selects.
//
//   1. The search selects the keys that some row needs by estimates, and the outliers. It scores
//      them exactly.
//   2. It ends if these keys hold the share of the estimated mass, and index::LeastAudited of a
//      mass that is raised for blocks with larger errors. Else it leaves out half as much, up to
//      kMostRounds times.
//   3. It scores all keys if step 2 never ends, or if estimates do not tell the weights of keys:
//      there are too many outliers, or selected keys are too far from their estimates.
//
// Errors:  those of reads.
// Threads: one thread a search.
#ifndef ATTNDB_INDEX_PQ_PQ_MASS_SEARCH_H_
#define ATTNDB_INDEX_PQ_PQ_MASS_SEARCH_H_

#include <cstddef>

#include "attndb/result.h"
#include "index/key_index.h"
#include "index/pq/pq_estimates.h"
#include "index/search_scratch.h"

namespace attndb::index {

class PqMassSearch {
 public:
  // Null scratch: measures. The call must outlive it.
  PqMassSearch(const IndexCall& call, void* scratch, SearchCost* cost);

  size_t scratch_bytes() const { return scratch_.num_bytes(); }

  // All rows find the selected keys.
  Status Run(FoundKeys* found);

 private:
  struct RowMass {
    double max_logit = 0;
    double all = 0;  // The sum of its weights, relative to the weight of max_logit.
  };

  void RaiseScores();
  void Weigh(size_t row);
  const float* WeightsOf(size_t row) const { return weights_ + row * num_places_; }
  Status Find(FoundKeys* found);
  Status SelectAll(FoundKeys* found);
  void Select(double p);
  double LogMass(const float* exact) const;
  double LogMassLeft(size_t row) const;
  double LogMostLeft(size_t row, double log_left) const;
  double WeightLeft(size_t row, size_t begin, size_t end) const;
  bool ErrorsAreNormal(size_t row) const;
  float ShiftOf(float error) const { return 0.5f * call_.spec.logit.scale * error * error; }

  const IndexCall& call_;
  SearchCost* const cost_;
  SearchScratch scratch_;
  PqEstimates estimates_;
  const size_t num_places_;
  float* worth_ = nullptr;     // [place]: at least 0 where the place is selected.
  float* exact_ = nullptr;     // [q row][selected], num_places_ apart.
  float* weights_ = nullptr;   // [q row][place]: weights by estimates.
  float* spare_ = nullptr;     // Room for one row of weights.
  RowMass* masses_ = nullptr;  // [q row]
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_PQ_PQ_MASS_SEARCH_H_
