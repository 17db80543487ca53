// What operators have in common that search an index which finds keys without scoring all of them,
// once for all q heads of a group (indexed_group.h): the operator says what becomes of what is
// found.
//
// Threads: as operator.h. A unit is one item: a search sees all runs of the chain at once.
#ifndef ATTNDB_ATTENTION_SEARCHING_H_
#define ATTNDB_ATTENTION_SEARCHING_H_

#include <cstdint>
#include <vector>

#include "attention/indexed_group.h"
#include "attention/operator.h"

namespace attndb::attention {

class Searching : public Operator {
 public:
  WorkCut cut() const final { return {.by_row = true, .uncut = true}; }
  void Begin(const CallView& call) final;
  void TakePart(uint32_t part, Arena* arena) final;
  Status RunItem(const WorkItem& item, Part* part) final;

 protected:
  const CallView& call() const { return *call_; }

 private:
  // What becomes of the tokens that the group's search found.
  virtual Status Conclude(IndexedGroup* group, const WorkUnit& unit, Part* part) const = 0;

  // How many more keys than k an index finds, where some of them may be static. Whole blocks are
  // selected as they are: their static tokens are attended to once.
  uint32_t NumSpare() const;

  const CallView* call_ = nullptr;
  size_t search_bytes_ = 0;  // Of an index's scratch: the most that a kv head may need.
  size_t num_clusters_ = 0;  // The most that a kv head has, if the plan estimates by them.
  std::vector<index::IndexRun> indexes_;  // Of a kv head, to ask for that.
  std::vector<IndexedScratch> parts_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SEARCHING_H_
