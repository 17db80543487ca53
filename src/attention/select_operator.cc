#include "attention/select_operator.h"

namespace attndb::attention {
namespace {

void Copy(const SelectedTokens& selected, CriticalTokens* found) {
  found->tokens.assign(selected.tokens, selected.tokens + selected.count);
  found->scores.assign(selected.scores, selected.scores + selected.count);
}

}  // namespace

void SelectByScan::Conclude(SparseHead* head, uint32_t unit, uint32_t group_head,
                            Part* /*part*/) const {
  Copy(head->Select(),
       &call().call().found[call().unit(unit).kv_head * call().group() + group_head]);
}

void SelectByIndex::Conclude(IndexedGroup* group, const WorkUnit& unit, Part* /*part*/) const {
  for (uint32_t head = 0; head < call().group(); ++head) {
    Copy(group->selected(head), &call().call().found[unit.kv_head * call().group() + head]);
  }
}

}  // namespace attndb::attention
