// SessionImpl: gives a RanTeller the objects of a call, and the ready objects before the first
//              call.
#include "session/ran_teller.h"
#include "session/session_impl.h"

namespace attndb::internal {

using planner::Wanted;

void SessionImpl::FindRunTokens(LayerId layer, std::vector<uint64_t>* tokens) const {
  tokens->clear();
  const uint64_t num_runs = NumDerivedRuns(layer);
  for (uint64_t run = 0; run < num_runs; ++run) tokens->push_back(DerivedRun(run).num_tokens());
}

// Prompts of more than dense_query_tokens rows run full under every plan, and are not tallied.
void SessionImpl::TallyCall(LayerId layer, uint64_t num_rows) {
  const bool is_full = execution_.plan.kind == planner::QueryKind::kFull;
  if (is_full || num_rows > settings_.dense_query_tokens) return;
  FindRunTokens(layer, &run_tokens_);
  const LayerToTell of_layer = {.execution = &execution_,
                                .chain = &facts_.chain,
                                .kinds = parts_.kinds,
                                .index_is_asked = plan_.ForLayer(layer).UsesIndex(),
                                .num_segments = entries().size(),
                                .run_tokens = run_tokens_,
                                .ready = ready_[layer].kinds};
  CallToTell call = {.num_rows = num_rows,
                     .parts = parts_of_runs_,
                     .head_costs = stats_[layer].last_heads,
                     .no_memory = no_memory_,
                     .indexes = indexes_,
                     .estimates = estimates_,
                     .values = values_,
                     .means = means_,
                     .sums = sums_,
                     .rankings = rankings_,
                     .held = {}};
  const auto held = [&call](Wanted wanted) -> auto& {
    return call.held[static_cast<size_t>(wanted)];
  };
  held(Wanted::kIndex) = layer_indexes_;
  held(Wanted::kKeyPlanes) = planes_;
  held(Wanted::kValuePlanes) = layer_values_;
  held(Wanted::kMeans) = layer_means_;
  held(Wanted::kClusters) = layer_sums_;
  held(Wanted::kStatic) = layer_rankings_;
  RanTeller(of_layer, &tallied_tokens_).AddCall(call, &stats_[layer].ran);
}

planner::RanTally SessionImpl::RanOf(LayerId layer, const LayerFacts& facts,
                                     const planner::LayerExecution& execution) const {
  planner::RanTally ran = stats_[layer].ran;
  if (!ran.empty() || execution.plan.kind == planner::QueryKind::kFull) return ran;
  std::vector<uint64_t> run_tokens;
  FindRunTokens(layer, &run_tokens);
  std::vector<derived::KindSet> ready;
  FindReady(layer, &ready);
  const LayerToTell of_layer = {.execution = &execution,
                                .chain = &facts.chain,
                                .kinds = parts_.kinds,
                                .index_is_asked = plan_.ForLayer(layer).UsesIndex(),
                                .num_segments = entries().size(),
                                .run_tokens = run_tokens,
                                .ready = ready};
  std::vector<uint64_t> pieces;
  RanTeller(of_layer, &pieces).AddOutlook(facts.runs, &ran);
  return ran;
}

}  // namespace attndb::internal
