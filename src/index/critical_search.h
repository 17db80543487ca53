// The interface of search: chooses the critical tokens of one q row. Each index implements it; the
// exact one (flat/) is the oracle of the others.
//
// Shapes:  scores [num_visible], one a token that the row sees, in token order over all segments
//          and the tail.
// Units:   scores are inner products q.k, unscaled; larger is better.
// Filter:  `middle` is the range of tokens that is searched; sinks and window lie outside it.
// Output:  token indices, ascending, written to `indices`; the number of them is returned.
// Errors:  none. A NaN score counts as the largest (kernels/select.h).
// Threads: constant after construction; concurrent calls must not share indices or scratch.
#ifndef ATTNDB_INDEX_CRITICAL_SEARCH_H_
#define ATTNDB_INDEX_CRITICAL_SEARCH_H_

#include <cstddef>
#include <cstdint>

#include "attndb/types.h"

namespace attndb::index {

class CriticalSearch {
 public:
  virtual ~CriticalSearch() = default;

  // Elements that `indices` must have room for, and bytes of 64-byte aligned scratch.
  virtual size_t NumIndices(size_t num_middle) const = 0;
  virtual size_t ScratchBytes(size_t num_middle) const = 0;

  virtual size_t Search(const float* scores, size_t num_visible, TokenRange middle,
                        uint32_t* indices, void* scratch) const = 0;
};

}  // namespace attndb::index

#endif  // ATTNDB_INDEX_CRITICAL_SEARCH_H_
