#include "attention/select_operator.h"

namespace attndb::attention {
namespace {

void Copy(const SelectedTokens& selected, CriticalTokens* found) {
  found->tokens.assign(selected.tokens, selected.tokens + selected.count);
  found->scores.assign(selected.scores, selected.scores + selected.count);
}

}  // namespace

Status SelectByScan::Conclude(SparseHead* head, uint32_t unit, uint32_t group_head,
                              Part* /*part*/) const {
  const uint32_t q_head = call().unit(unit).kv_head * call().group() + group_head;
  ATTNDB_ASSIGN_OR_RETURN(const SelectedTokens selected, head->Select());
  Copy(selected, &call().call().found[q_head]);
  return Status::Ok();
}

Status SelectByIndex::Conclude(IndexedGroup* group, const WorkUnit& unit, Part* /*part*/) const {
  for (uint32_t head = 0; head < call().group(); ++head) {
    Copy(group->selected(head), &call().call().found[unit.kv_head * call().group() + head]);
  }
  return Status::Ok();
}

}  // namespace attndb::attention
