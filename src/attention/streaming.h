// Base class of operators that attend to tokens without choosing among them: K and V as stored,
// float32 arithmetic, blocked for many q rows, shared by a group for few.
//
// Bits:    each range of a unit is folded into states of its own; these are merged in order.
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_STREAMING_H_
#define ATTNDB_ATTENTION_STREAMING_H_

#include <cstdint>
#include <vector>

#include "attention/operator.h"

namespace attndb::attention {

class Streaming : public Operator {
 public:
  void Begin(const CallView& call) override;
  void TakeShared(Arena* arena) override;
  void TakePart(uint32_t part, Arena* arena) override;
  Status RunItem(const WorkItem& item, Part* part) override;
  Status Finish(uint32_t unit, uint32_t group_head, Part* part) override;

 protected:
  const CallView& call() const { return *call_; }

 private:
  struct Scratch {
    void* block = nullptr;  // Scratch of kernels::AttendBlock.
    uint32_t* lo =
        nullptr;  // [rows of a unit * group]: the first token of a run that a q row sees.
    uint32_t* hi = nullptr;  // [rows of a unit * group]: the token after the last that it sees.
  };

  struct RowRange {
    uint64_t first = 0;
    uint64_t count = 0;
  };

  // Tokens that rows of the unit see but do not attend to.
  virtual TokenRange LeftOut(const WorkUnit& /*unit*/) const { return {}; }

  kernels::StateRows StatesOf(const WorkItem& item, Part* part) const;
  Status AttendTokens(const WorkUnit& unit, TokenRange range, const kernels::StateRows& states,
                      Part* part);
  Status AttendRun(const WorkUnit& unit, const HeadRun& run, TokenRange range,
                   const kernels::StateRows& states, Part* part);
  // Attends for some rows of the unit.
  Status AttendRows(const WorkUnit& unit, RowRange rows, const HeadRun& run, TokenRange range,
                    const kernels::StateRows& states, Part* part);
  // Finds the tokens of the range that each q row sees, relative to its begin. True if all rows see
  // all of them.
  bool FindVisible(RowRange rows, TokenRange range, const Scratch& scratch) const;

  const CallView* call_ = nullptr;
  std::vector<Scratch> parts_;
  size_t range_rows_ = 0;      // Rows of a range's states, rounded up to whole cache lines.
  kernels::StateRows shared_;  // [unit][range][range_rows_]
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_STREAMING_H_
