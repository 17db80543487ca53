// Searches an index that finds keys without scoring all of them, once for all q heads of a group,
// and attends to what it found (indexed_group.h).
//
// Threads: as operator.h. A unit is one item: a search sees all runs of the chain at once.
#ifndef ATTNDB_ATTENTION_INDEX_OPERATOR_H_
#define ATTNDB_ATTENTION_INDEX_OPERATOR_H_

#include <cstdint>
#include <vector>

#include "attention/indexed_group.h"
#include "attention/operator.h"

namespace attndb::attention {

class IndexOperator : public Operator {
 public:
  WorkCut cut() const final { return {.by_row = true, .uncut = true}; }
  void Begin(const CallView& call) final;
  void TakePart(uint32_t part, Arena* arena) final;
  Status RunItem(const WorkItem& item, Part* part) final;

 protected:
  const CallView& call() const { return *call_; }

 private:
  // What becomes of the tokens that the group's search found: attention over them.
  virtual Status Conclude(IndexedGroup* group, const WorkUnit& unit, Part* part) const;

  const CallView* call_ = nullptr;
  size_t search_bytes_ = 0;  // Of an index's scratch: the most that a kv head may need.
  std::vector<index::IndexRun> indexes_;  // Of a kv head, to ask for that.
  std::vector<IndexedScratch> parts_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_INDEX_OPERATOR_H_
