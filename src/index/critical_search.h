// The interface of search: chooses the critical tokens of one q row. Each index implements it; the
// exact one (flat/) is the oracle of the others.
//
// Two steps, because scores may be estimates: Search chooses candidates so generously that errors
// of the usual size lose no critical token, the caller scores these exactly, and Refine keeps what
// is critical by the exact scores. With exact scores the first step is the answer.
//
// Shapes:  scores of all tokens that the row sees, over all segments and the tail (score_view.h).
// Units:   scores are inner products q.k, unscaled; larger is better.
// Filter:  `middle` is the range of tokens that is searched; sinks and window lie outside it.
// Output:  token indices, ascending, written to `indices`; the number of them is returned.
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

// What is searched.
struct SearchCall {
  ScoreView view;
  TokenRange middle;
  // Middle scores may be estimates: normal around the exact score minus score_shift, with standard
  // deviation score_error. The shift makes the mean weight right: exp of a normal variate is larger
  // in the mean than exp of its mean. Both 0: exact.
  float score_error = 0.0f;
  float score_shift = 0.0f;
  // One more weight, of no token of the view, that the row attends to in any case: its logit.
  float denominator_logit = -std::numeric_limits<float>::infinity();
  // The largest score of tokens that the view hides, by scores of -inf: they are attended to in any
  // case.
  float hidden_max = -std::numeric_limits<float>::infinity();
};

class CriticalSearch {
 public:
  virtual ~CriticalSearch() = default;

  // Elements that `indices` must have room for, and bytes of 64-byte aligned scratch.
  static size_t NumIndices(size_t num_middle) {
    return num_middle + kernels::kWeightBlock + kernels::kSelectSlack;
  }
  virtual size_t ScratchBytes(size_t num_visible) const = 0;

  // Whether it reads the sums of the view.
  virtual bool NeedsSums() const { return false; }

  // REQUIRES: the view's summary is of its scores.
  virtual size_t Search(const SearchCall& call, uint32_t* indices, void* scratch) const = 0;

  // Keeps those of the candidates that are critical now that their scores, and those of all tokens
  // outside the middle, are exact; `max` is the largest of these.
  virtual size_t Refine(const SearchCall& call, float max, uint32_t* indices, size_t num_indices,
                        void* scratch) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CRITICAL_SEARCH_H_
