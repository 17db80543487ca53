// SessionImpl: explains past and predicted calls, with their costs.
#include <algorithm>

#include "session/session_impl.h"
#include "session/view_check.h"

namespace attndb::internal {
namespace {

double Micros(double nanos) { return nanos * 1e-3; }

std::vector<Substitute> SubstitutesOf(const planner::RanTally& ran) {
  std::vector<Substitute> substitutes;
  for (planner::RanTally::Entry& entry : ran.Entries()) {
    substitutes.push_back(
        {std::move(entry.ran), std::move(entry.wanted), std::move(entry.because), entry.share});
  }
  return substitutes;
}

double MeanOf(double sum, uint64_t count, double none) {
  return count == 0 ? none : sum / static_cast<double>(count);
}

}  // namespace

attention::CallCost SessionImpl::LayerStats::Total() const {
  attention::CallCost total;
  for (const attention::CallCost& head : all_heads) total.Add(head);
  return total;
}

std::span<const attention::HeadBound> SessionImpl::LayerStats::LastBounds(uint32_t kv_head) const {
  if (last_bounds.empty() || last_heads[kv_head].num_bounds == 0) return {};
  const size_t group = last_bounds.size() / last_heads.size();
  return std::span(last_bounds).subspan(kv_head * group, group);
}

bool SessionImpl::IsNonFinite(LayerId layer, uint32_t kv_head) const {
  return tail_.non_finite(layer, kv_head) ||
         std::ranges::any_of(entries(), [&](const ChainEntry& entry) {
           return entry.segment->non_finite(layer, kv_head);
         });
}

std::string SessionImpl::NonFiniteReason(LayerId layer) const {
  std::string heads;
  for (uint32_t head = 0; head < spec_.layers[layer].num_kv_heads; ++head) {
    if (IsNonFinite(layer, head)) heads += (heads.empty() ? "" : ", ") + std::to_string(head);
  }
  return heads.empty() ? "" : "NaN or Inf in kv head " + heads + ": full there";
}

void SessionImpl::FillHeads(LayerId layer, const planner::LayerExecution& execution,
                            const planner::RanTally& ran, LayerExplain* explain) const {
  const LayerStats& stats = stats_[layer];
  planner::Cost sum;
  for (uint32_t i = 0; i < execution.heads.size(); ++i) {
    const planner::HeadExecution& planned = execution.heads[i];
    const bool is_full = planned.method == planner::Method::kFull;
    const planner::Cost predicted = planned.predicted();
    sum.bytes += predicted.bytes;
    sum.ns += predicted.ns;
    HeadExplain head;
    head.kv_head = i;
    const planner::LayerPlan of_head = is_full ? planner::LayerPlan{} : execution.PlanOf(i);
    head.plan = of_head.ToString();
    head.ran = ran.Ran(of_head, parts_.plans->default_index()).ToString();
    head.reason = execution.ReasonOf(i);
    head.predicted_selected = is_full ? 0 : planned.selected;
    head.predicted_bytes = static_cast<uint64_t>(predicted.bytes);
    head.predicted_us = Micros(predicted.ns);
    if (execution.priced && execution.plan.kind == planner::QueryKind::kAuto &&
        planned.reason != planner::Reason::kNonFinite) {
      head.other_us = Micros(planned.other_ns());
    }
    const attention::CallCost& all = stats.all_heads[i];
    const attention::CallCost& last = stats.last_heads[i];
    head.selected_mean = MeanOf(static_cast<double>(all.num_selected), all.num_queries, 0);
    head.visited_mean = MeanOf(static_cast<double>(all.num_visited), all.num_queries, 0);
    const uint32_t group = spec_.layers[layer].group_size();
    const auto of_group = [&](uint64_t count) {
      return MeanOf(static_cast<double>(count) * group, all.num_queries, 0);
    };
    head.clusters_mean = of_group(all.num_clusters);
    head.hops_mean = of_group(all.num_hops);
    head.weighed_mean = of_group(all.num_weighed);
    head.drawn_keys_mean = of_group(all.num_drawn_keys);
    head.drawn_values_mean = of_group(all.num_drawn_values);
    head.bytes_touched = last.bytes_touched;
    head.time_us = Micros(static_cast<double>(last.score_ns + last.select_ns + last.attend_ns));
    head.missed_mass = all.MissedShare();
    head.error = MeanOf(all.error_sum, all.num_errors, -1);
    head.mass_left = MeanOf(all.mass_left_sum, all.num_masses, -1);
    head.mass_bound = MeanOf(all.mass_bound_sum, all.num_bounds, -1);
    head.out_bound = MeanOf(all.out_bound_sum, all.num_bounds, -1);
    head.num_fallbacks = all.num_fallbacks;
    head.num_redraws = all.num_redraws;
    head.num_full_scans = all.num_full_scans;
    for (const attention::HeadBound& bound : stats.LastBounds(i)) {
      head.last_mass_bounds.push_back(double{bound.mass});
      head.last_out_bounds.push_back(double{bound.out});
    }
    explain->heads.push_back(std::move(head));
  }
  explain->predicted_bytes = static_cast<uint64_t>(sum.bytes);
  explain->predicted_us = planner::WallMicros(sum, PartsFor(1, layer), Machine());
}

Result<LayerExplain> SessionImpl::ExplainLayer(LayerId layer) const {
  ATTNDB_RETURN_IF_ERROR(CheckLayer(layer, spec_.num_layers()));
  LayerFacts facts;
  FindFacts(layer, &facts);
  const planner::LayerExecution execution = Preview(layer, facts);
  const planner::LayerPlan& asked = plan_.ForLayer(layer);
  const planner::LayerPlan plan = PlanOf(layer);
  const LayerStats& stats = stats_[layer];
  LayerExplain explain;
  explain.layer = layer;
  explain.plan = asked.ToString();
  explain.notes = planner::NotesOf(Ask(layer, facts, asked));
  const bool runs_plan = execution.full_reason.empty();
  explain.reason = runs_plan ? execution.rule : execution.full_reason;
  if (runs_plan && plan.kind != planner::QueryKind::kFull) {
    const std::string non_finite = NonFiniteReason(layer);
    if (!non_finite.empty()) {
      explain.reason += (explain.reason.empty() ? "" : "; ") + non_finite;
    }
  }
  explain.num_tokens = facts.chain.num_tokens;
  const bool has_middle = runs_plan && plan.kind != planner::QueryKind::kFull;
  const uint64_t num_fixed = plan.NumFixed(explain.num_tokens, facts.chain.num_stored_seen);
  explain.num_middle = has_middle ? explain.num_tokens - num_fixed : 0;
  const attention::CallCost all = stats.Total();
  explain.selected_mean = MeanOf(static_cast<double>(all.num_selected), all.num_queries, 0);
  explain.candidates_mean = MeanOf(static_cast<double>(all.num_candidates), all.num_queries, 0);
  if (plan.Chooses() && plan.query->predict_selected) {
    explain.predicted_selected =
        plan.query->predict_selected(plan, static_cast<double>(explain.num_middle));
  } else if (plan.Chooses()) {  // The mean so far is the best guess.
    explain.predicted_selected = all.num_queries > 0 ? explain.selected_mean : -1.0;
  }
  const planner::RanTally ran = RanOf(layer, facts, execution);
  const planner::LayerPlan of_layer = execution.all_full ? planner::LayerPlan{} : execution.plan;
  explain.ran = ran.Ran(of_layer, parts_.plans->default_index()).ToString();
  explain.substitutes = SubstitutesOf(ran);
  FillHeads(layer, execution, ran, &explain);
  explain.num_queries = stats.num_rows;
  explain.bytes_touched = stats.last.bytes_touched;
  explain.score_us = Micros(static_cast<double>(stats.last.score_ns));
  explain.select_us = Micros(static_cast<double>(stats.last.select_ns));
  explain.attend_us = Micros(static_cast<double>(stats.last.attend_ns));
  explain.append_us = Micros(static_cast<double>(stats.append_ns));
  return explain;
}

attndb::Explain SessionImpl::Explain() const {
  attndb::Explain explain;
  explain.plan = plan_.ToString();
  explain.num_tokens = num_tokens();
  explain.num_reused = chain_.num_tokens();
  explain.num_dropped = truncation_.num_dropped();
  explain.num_moved = truncation_.num_moved();
  explain.num_segments = entries().size();
  explain.memory_bytes = memory_bytes();
  explain.kv_bytes = num_tokens() * kv_bytes_per_token_;
  explain.contexts = chain_.contexts();
  for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
    explain.layers.push_back(*ExplainLayer(layer));
    explain.predicted_us += explain.layers.back().predicted_us;
    LayerFacts facts;
    FindFacts(layer, &facts);
    const auto error = planner::ErrorOf(plan_.ForLayer(layer), OutlookOf(facts));
    if (!error) continue;
    explain.tpot_error = std::max(explain.tpot_error, error->error);
    explain.unreachable = explain.unreachable || !error->reachable;
  }
  return explain;
}

}  // namespace attndb::internal
