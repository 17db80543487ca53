// The fewest middle tokens that, with sinks and window, hold a share of the softmax mass.
//
// Denominator: the denominator logit's weight, which belongs to no token, is part of the mass, like
//          a sink's: tokens need not supply it.
// Estimated scores: a shift of the scores makes the mass right on average, if errors are about
//          equal for all tokens; the choice is kept. attention/mass_audit.h tells the mass that it
//          holds.
// Cost:        a pass over the blocks, and one over the scores of blocks with a token heavy enough
//              to matter (all lighter tokens together weigh less than may be left out).
// Threads:     constant after construction.
#ifndef ATTNDB_INDEX_FLAT_MASS_SEARCH_H_
#define ATTNDB_INDEX_FLAT_MASS_SEARCH_H_

#include "index/critical_search.h"
#include "kernels/attention_state.h"

namespace attndb::index {

class MassSearch final : public CriticalSearch {
 public:
  // p: share of the mass of all visible tokens and the denominator's, in (0, 1].
  MassSearch(double p, const kernels::LogitSpec& logit) : p_(p), logit_(logit) {}

  size_t ScratchBytes(size_t num_visible) const override;
  bool NeedsSums() const override { return true; }
  double share() const override { return p_; }
  size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const override;
  size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                void* scratch) const override;

 private:
  const double p_;
  const kernels::LogitSpec logit_;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_FLAT_MASS_SEARCH_H_
