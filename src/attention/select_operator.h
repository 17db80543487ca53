// Session::Search: selects the tokens that a plan selects, by a scan or by an index, and attends to
// none.
//
// Output:  LayerCall::found, for each q head: the critical tokens and their exact scores.
// Memory:  the caller's lists grow.
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_SELECT_OPERATOR_H_
#define ATTNDB_ATTENTION_SELECT_OPERATOR_H_

#include "attention/scanning.h"
#include "attention/searching.h"

namespace attndb::attention {

class SelectByScan final : public Scanning {
 private:
  Status Conclude(SparseHead* head, uint32_t unit, uint32_t group_head, Part* part) const override;
};

class SelectByIndex final : public Searching {
 private:
  Status Conclude(IndexedGroup* group, const WorkUnit& unit, Part* part) const override;
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SELECT_OPERATOR_H_
