// Attention over sink and window only: the middle is left out.
//
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_WINDOW_OPERATOR_H_
#define ATTNDB_ATTENTION_WINDOW_OPERATOR_H_

#include "attention/streaming.h"

namespace attndb::attention {

class WindowOperator final : public Streaming {
 public:
  // Each row has a window of its own.
  WorkCut cut() const override { return {.by_row = true}; }

 private:
  TokenRange LeftOut(const WorkUnit& unit) const override { return call().Middle(unit.first_row); }
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_WINDOW_OPERATOR_H_
