// Base class of operators that search an index which finds keys without scoring all of them, once
// for all q heads of a group (indexed_group.h). The operator decides what to do with the found
// tokens.
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
  // Does the operator's work on the tokens that the group's search found.
  virtual Status Conclude(IndexedGroup* group, const WorkUnit& unit, Part* part) const = 0;

  // The surplus over k in requests to the index, because some found keys may be static. Indexes
  // that select whole blocks are asked for k: static tokens of the blocks are attended to once.
  uint32_t NumSpare() const;

  const CallView* call_ = nullptr;
  size_t search_bytes_ = 0;  // Bytes of an index's scratch: the most that a kv head may need.
  size_t num_clusters_ = 0;  // Most clusters of a kv head, if the plan estimates by clusters.
  // The runs of a kv head, to ask how much scratch it needs.
  std::vector<index::IndexRun> indexes_;
  std::vector<IndexedScratch> parts_;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SEARCHING_H_
