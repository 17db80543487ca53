// Attends, q head by q head, to the tokens that a scan selects (scanning.h).
//
// Threads: as operator.h.
#ifndef ATTNDB_ATTENTION_SCAN_OPERATOR_H_
#define ATTNDB_ATTENTION_SCAN_OPERATOR_H_

#include "attention/scanning.h"

namespace attndb::attention {

class ScanOperator final : public Scanning {
 private:
  Status Conclude(SparseHead* head, uint32_t unit, uint32_t group_head, Part* part) const override {
    ATTNDB_RETURN_IF_ERROR(head->Attend(part->states));
    call().WriteHeads(call().unit(unit), group_head, 1, part->states, part);
    return Status::Ok();
  }
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SCAN_OPERATOR_H_
