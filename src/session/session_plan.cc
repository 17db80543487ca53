// SessionImpl: plans a call from facts alone, and collects the derived objects that it reads.
#include <algorithm>

#include "planner/settle.h"
#include "session/session_impl.h"
#include "session/view_check.h"

namespace attndb::internal {

namespace {

// Lists the objects of the chain's segments by kv head and part; null for other parts.
template <typename Value>
void ListByRun(const attention::LayerCall& call,
               const std::vector<derived::LayerObjectsPtr>& objects,
               const Value* derived::Head::*value, std::vector<const Value*>* list) {
  list->clear();
  for (uint32_t head = 0; head < call.spec.num_kv_heads; ++head) {
    for (const attention::RunPart& part : call.parts) {
      // Moved tokens have keys for other positions: all their rows are read.
      const bool has = part.turn == 0 && part.run < objects.size() && objects[part.run] != nullptr;
      list->push_back(has ? objects[part.run]->head(head).*value : nullptr);
    }
  }
}

}  // namespace

void SessionImpl::FindFacts(LayerId layer, LayerFacts* facts) const {
  std::vector<derived::KindSet> ready;
  FindReady(layer, &ready);
  FindFacts(layer, ready, facts);
}

void SessionImpl::FindFacts(LayerId layer, std::span<const derived::KindSet> ready,
                            LayerFacts* facts) const {
  planner::ChainFacts& chain = facts->chain;
  chain = ChainOf(layer);
  facts->runs.clear();
  const derived::Kind& planes = parts_.kinds->ForUse(derived::kKeyPlanes);
  TokenRange tokens;  // Tokens of the run.
  for (uint64_t i = 0; i < ready.size(); ++i) {
    tokens = {tokens.end, tokens.end + TokensUsed(i)};
    facts->runs.push_back({.num_tokens = NumSeen(tokens),
                           .may_have_planes = planes.MayHave(DerivedRun(i).num_tokens()),
                           .has_planes = ready[i].test(parts_.kinds->NumberOf(planes))});
  }
  facts->runs.push_back({.num_tokens = NumSeen({tokens.end, LayerTokens(layer)})});
  facts->non_finite.clear();
  for (uint32_t head = 0; head < spec_.layers[layer].num_kv_heads; ++head) {
    facts->non_finite.push_back(IsNonFinite(layer, head));
  }
  chain.runs = facts->runs;
  chain.non_finite = facts->non_finite;
}

planner::ChainFacts SessionImpl::ChainOf(LayerId layer) const {
  planner::ChainFacts chain;
  chain.num_tokens = NumSeen(layer);
  chain.num_stored = chain_.num_tokens();
  chain.num_stored_seen = NumSeen({0, chain_.num_tokens()});
  chain.num_filtered = LayerTokens(layer) - chain.num_tokens;
  for (const ChainEntry& entry : entries()) {
    chain.num_hidden += entry.segment->num_tokens() - entry.num_tokens_used;
  }
  chain.kv_bytes = kv_bytes_per_token_ * chain.num_tokens;
  chain.memory_bytes = settings_.host_memory_bytes;
  return chain;
}

planner::LayerPlan SessionImpl::PlanOf(LayerId layer, const planner::ChainFacts& chain) const {
  return planner::Settle(plan_.ForLayer(layer), {layer, spec_.num_layers(), &chain}, *parts_.plans)
      .plan;
}

planner::LayerQuestion SessionImpl::Ask(LayerId layer, const LayerFacts& facts,
                                        const planner::LayerPlan& plan) const {
  planner::LayerQuestion question;
  question.layer = layer;
  question.num_layers = spec_.num_layers();
  question.spec = &spec_.layers[layer];
  question.kv_dtype = spec_.kv_dtype;
  question.plan = &plan;
  question.registry = parts_.plans;
  question.chain = facts.chain;
  question.num_threads = PartsFor(1, layer);
  question.dense_query_tokens = settings_.dense_query_tokens;
  return question;
}

planner::Outlook SessionImpl::OutlookOf(const LayerFacts& facts) const {
  planner::Outlook outlook;
  outlook.spec = &spec_;
  outlook.plan = &plan_;
  outlook.learned = &learned_;
  outlook.machine = &Machine();
  outlook.question = Ask(0, facts, plan_.ForLayer(0));
  outlook.question.chain.non_finite = {};  // Known of one layer; predictions are for all.
  outlook.question.explores = false;
  return outlook;
}

planner::LayerExecution SessionImpl::Preview(LayerId layer, const LayerFacts& facts) const {
  planner::LayerPlan plan = plan_.ForLayer(layer);
  const planner::Outlook outlook = OutlookOf(facts);
  if (const auto choice = planner::ErrorOf(plan, outlook)) plan.SetError(choice->error);
  planner::LayerQuestion question = Ask(layer, facts, plan);
  question.explores = false;
  planner::LayerExecution execution;
  planner::PlanLayer(question, learned_, *outlook.machine, &execution);
  return execution;
}

void SessionImpl::PlanCall(LayerId layer, uint64_t num_rows, uint32_t num_parts) {
  ReadyObjects& ready = ready_[layer];
  const uint64_t objects_version = parts_.objects->version();
  if (ready.objects_version != objects_version || ready.runs_version != runs_version_) {
    FindReady(layer, &ready.kinds);
    ready.objects_version = objects_version;
    ready.runs_version = runs_version_;
  }
  FindFacts(layer, ready.kinds, &facts_);
  planner::Outlook outlook = OutlookOf(facts_);
  outlook.question.num_threads = num_parts;
  const planner::LayerPlan plan = objectives_.Settle(layer, outlook);
  planner::LayerQuestion question = Ask(layer, facts_, plan);
  question.num_rows = num_rows;
  question.num_threads = num_parts;
  const bool is_priced =
      plan.kind == planner::QueryKind::kAuto && planner::RuleFor(question).empty();
  if (is_priced && settings_.learns && !Machine().measured) host_->AskForPrices();
  planner::PlanLayer(question, learned_, Machine(), &execution_);
}

// EndCall has released the objects of the last call.
void SessionImpl::CollectDerived(LayerId layer, attention::LayerCall* call) {
  if (execution_.priced && execution_.plan.ReadsPlanes()) AskForPlanes(layer);
  CollectForScores(layer, call);
  CollectValues(layer, *call);
  call->values = values_;
  call->means = means_;
  call->sums = sums_;
  CollectRankings(layer, *call);
  call->rankings = rankings_;
}

void SessionImpl::CollectForScores(LayerId layer, attention::LayerCall* call) {
  CollectIndexes(layer, *call);
  call->indexes = indexes_;
  CollectEstimates(layer, *call);
  call->estimates = estimates_;
}

void SessionImpl::TakeExecution(LayerId layer, attention::LayerCall* call) {
  call->plan = execution_.plan;
  call->full_reason = execution_.full_reason;
  const bool runs_plan = execution_.full_reason.empty();
  call->search = runs_plan ? SearchFor(layer, execution_.plan) : nullptr;
  if (execution_.plan.Finds()) {
    call->find = parts_.operators->MakeSpec(execution_.plan, call->spec, attention::SizeOf(*call));
  }
  budgets_.clear();
  runs_full_.clear();
  by_index_.clear();
  for (const planner::HeadExecution& head : execution_.heads) {
    budgets_.push_back(head.budget);
    runs_full_.push_back(head.method == planner::Method::kFull);
    by_index_.push_back(!execution_.offers_index || head.method == planner::Method::kIndex);
  }
  call->draws = budgets_;
  call->non_finite = runs_full_;
}

void SessionImpl::CollectEstimates(LayerId layer, const attention::LayerCall& call) {
  estimates_.clear();
  if (!call.plan.ReadsPlanes() || !attention::ReasonForFull(call).empty()) return;
  const derived::Kind& kind = parts_.kinds->ForUse(derived::kKeyPlanes);
  const bool any_scans = std::ranges::count(by_index_, 0) != 0;
  for (uint64_t i = 0; i < NumDerivedRuns(layer); ++i) {
    // A draw by an index has estimates of its own.
    const bool has_index = i < layer_indexes_.size() && layer_indexes_[i] != nullptr;
    const bool reads = reads_run_[i] != 0 && !(has_index && !any_scans);
    planes_.push_back(reads ? GetObjects(i, kind, layer) : nullptr);
    // Objects that were built in memory may have been dropped since.
    if (reads && facts_.runs[i].has_planes && planes_.back() == nullptr) ready_[layer] = {};
  }
  ListByRun(call, planes_, &derived::Head::estimates, &estimates_);
}

void SessionImpl::CollectValues(LayerId layer, const attention::LayerCall& call) {
  values_.clear();
  means_.clear();
  sums_.clear();
  if (!attention::ReasonForFull(call).empty()) return;
  if (call.plan.value_bits != 0) {
    CollectObjects(layer, parts_.kinds->ForUse(derived::kValuePlanes), &layer_values_);
    ListByRun(call, layer_values_, &derived::Head::value_planes, &values_);
  }
  if (call.plan.ReadsMeans()) {
    CollectObjects(layer, parts_.kinds->ForUse(derived::kValueMeans), &layer_means_);
    ListByRun(call, layer_means_, &derived::Head::value_means, &means_);
  }
  if (call.plan.EstimatesByClusters()) {
    CollectObjects(layer, parts_.kinds->ForUse(call.plan.EstimatesBy()), &layer_sums_);
    ListByRun(call, layer_sums_, &derived::Head::sums, &sums_);
  }
}

// Only segments have rankings: the weights of a prompt's last queries are known once it is stored.
void SessionImpl::CollectRankings(LayerId layer, const attention::LayerCall& call) {
  rankings_.clear();
  if (!call.plan.HasStatic() || !attention::ReasonForFull(call).empty()) return;
  const derived::Kind& kind = parts_.kinds->ForUse(derived::kStaticPrefill);
  for (uint64_t run = 0; run < entries().size(); ++run) {
    layer_rankings_.push_back(reads_run_[run] != 0 ? GetObjects(run, kind, layer) : nullptr);
  }
  ListByRun(call, layer_rankings_, &derived::Head::ranking, &rankings_);
}

void SessionImpl::CollectIndexes(LayerId layer, const attention::LayerCall& call) {
  indexes_.clear();
  lacks_index_ = false;
  if (!call.plan.UsesIndex() || !attention::ReasonForFull(call).empty()) return;
  const derived::Kind& kind = parts_.kinds->ForUse(call.plan.FindsBy());
  CollectObjects(layer, kind, &layer_indexes_);
  for (uint64_t i = 0; i < layer_indexes_.size(); ++i) {
    if (reads_run_[i] != 0 && layer_indexes_[i] == nullptr &&
        kind.MayHave(DerivedRun(i).num_tokens())) {
      lacks_index_ = true;
    }
  }
  ListByRun(call, layer_indexes_, &derived::Head::index, &indexes_);
  for (size_t i = 0; i < indexes_.size(); ++i) {
    if (by_index_[i / call.parts.size()] == 0) indexes_[i] = nullptr;
  }
}

}  // namespace attndb::internal
