// Attends to the tokens that an index finds for a group (searching.h).
//
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_INDEX_OPERATOR_H_
#define ATTNDB_ATTENTION_INDEX_OPERATOR_H_

#include "attention/searching.h"

namespace attndb::attention {

class IndexOperator final : public Searching {
 private:
  Status Conclude(IndexedGroup* group, const WorkUnit& unit, Part* part) const override {
    ATTNDB_RETURN_IF_ERROR(group->Attend(part->states));
    call().WriteHeads(unit, 0, call().group(), part->states, part);
    return Status::Ok();
  }
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_INDEX_OPERATOR_H_
