#include "attention/searching.h"

#include <algorithm>

#include "attention/call_util.h"

namespace attndb::attention {

uint32_t Searching::NumSpare() const {
  const planner::LayerPlan& plan = call_->plan();
  const bool by_rank = call_->call().find.kind == index::SearchKind::kTopK;
  return by_rank && !plan.index->best_only ? plan.num_static : 0;
}

void Searching::Begin(const CallView& call) {
  call_ = &call;
  index::SearchSpec find = call.call().find;
  find.k += NumSpare();
  find.spare = NumSpare();
  parts_.resize(call.num_parts());
  search_bytes_ = 0;
  num_clusters_ = 0;
  for (uint32_t head = 0; head < call.spec().num_kv_heads; ++head) {
    search_bytes_ = std::max(
        search_bytes_, IndexedGroup::SearchBytes(call.HeadRuns(head), find, call.call().num_tokens,
                                                 call.group(), &indexes_));
    if (call.call().plan.EstimatesByClusters()) {
      num_clusters_ = std::max(num_clusters_, NumClusters(call.HeadRuns(head)));
    }
  }
}

void Searching::TakePart(uint32_t part, Arena* arena) {
  const LayerCall& call = call_->call();
  const uint64_t num_places = IndexedScratch::NumPlaces(call.num_tokens, call.plan.num_static);
  parts_[part] =
      IndexedScratch::Take(call_->group(), num_places, call_->num_runs(), search_bytes_, arena);
  parts_[part].clusters =
      ClusterScratch::Take(call_->group(), num_clusters_, call_->num_runs(), arena);
}

Status Searching::RunItem(const WorkItem& item, Part* part) {
  const WorkUnit& unit = call_->unit(item.unit);
  const IndexedCall indexed = {.spec = &call_->spec(),
                               .search = call_->call().find,
                               .runs = call_->HeadRuns(unit.kv_head),
                               .q = {part->q, call_->k_padded(), call_->group()},
                               .num_tokens = unit.tokens.end,
                               .middle = call_->Middle(unit.first_row),
                               .denominator_logits = DenominatorLogits(call_->spec(), unit.kv_head),
                               .estimated_share = call_->call().plan.EstimatedShare(),
                               .num_static = call_->plan().num_static,
                               .num_spare = NumSpare(),
                               .rows = &part->rows};
  IndexedGroup group(indexed, parts_[part->number], &part->cost);
  ATTNDB_RETURN_IF_ERROR(group.Select());
  return Conclude(&group, unit, part);
}

}  // namespace attndb::attention
