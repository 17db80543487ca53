// The interface of search: chooses the critical tokens of one q row. Each query type implements it;
// the exact searches (flat/) are the oracle of the others.
//
// A search has two steps, because scores may be estimates. Search chooses enough candidates that
// errors of the usual size lose no critical token. The caller scores these exactly, and Refine
// keeps the critical ones by exact scores. If scores are exact, the first step gives the answer.
//
// Shapes:  scores of all visible tokens of the row, over all segments and the tail (score_view.h).
// Units:   scores are inner products q.k, unscaled; larger is better.
// Filter:  `middle` is the range of tokens that is searched; sinks and window lie outside it.
// Output:  token indices, ascending, written to `indices`; returns their number.
// Errors:  none. A NaN score counts as the largest (kernels/select.h).
// Threads: constant after construction; concurrent calls must not share indices or scratch.
#ifndef ATTNDB_INDEX_CRITICAL_SEARCH_H_
#define ATTNDB_INDEX_CRITICAL_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "attndb/types.h"
#include "index/score_view.h"
#include "kernels/select.h"

namespace attndb::index {

// The scores of one row, and which of its tokens are searched.
struct SearchCall {
  ScoreView view;
  TokenRange middle;
  // Scores of the middle may be estimates: then each is normal around the exact score minus
  // score_shift, with standard deviation score_error. The shift makes mean weights right, as the
  // mean of exp(x) over a normal x is larger than exp of its mean. Both 0: exact.
  float score_error = 0.0f;
  float score_shift = 0.0f;
  // The logit of a weight that belongs to no token, but is part of the row's softmax (denominator
  // logit).
  float denominator_logit = -std::numeric_limits<float>::infinity();
  // The largest score of tokens that are attended to in any case and that the view hides, with
  // scores of -inf.
  float hidden_max = -std::numeric_limits<float>::infinity();
};

class CriticalSearch {
 public:
  virtual ~CriticalSearch() = default;

  // Elements that `indices` must have room for.
  static size_t NumIndices(size_t num_middle) {
    return num_middle + kernels::kWeightBlock + kernels::kSelectSlack;
  }
  virtual size_t ScratchBytes(size_t num_visible) const = 0;

  // Whether it reads the view's sums.
  virtual bool NeedsSums() const { return false; }

  // The share of the mass that its choice should hold; 0: the query names no share.
  virtual double share() const { return 0; }

  // Chooses candidates. REQUIRES: the view's summary is that of its scores.
  virtual size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const = 0;

  // Keeps the candidates that are critical by exact scores. The scores of candidates and of all
  // tokens outside the middle are exact now. `max` is the largest score outside the middle.
  virtual size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                        void* scratch) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CRITICAL_SEARCH_H_
