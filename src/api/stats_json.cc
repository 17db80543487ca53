#include "api/stats_json.h"

#include <cstdint>
#include <span>

namespace attndb::internal {
namespace {

JsonText JsonOf(const HeadExplain& head) {
  return JsonObject({{"kv_head", head.kv_head},
                     {"plan", head.plan},
                     {"ran", head.ran},
                     {"reason", head.reason},
                     {"predicted_selected", head.predicted_selected},
                     {"predicted_bytes", head.predicted_bytes},
                     {"predicted_us", head.predicted_us},
                     {"other_us", head.other_us},
                     {"selected_mean", head.selected_mean},
                     {"visited_mean", head.visited_mean},
                     {"clusters_mean", head.clusters_mean},
                     {"hops_mean", head.hops_mean},
                     {"num_full_scans", head.num_full_scans},
                     {"weighed_mean", head.weighed_mean},
                     {"drawn_keys_mean", head.drawn_keys_mean},
                     {"drawn_values_mean", head.drawn_values_mean},
                     {"missed_mass", head.missed_mass},
                     {"bytes_touched", head.bytes_touched},
                     {"time_us", head.time_us},
                     {"error", head.error},
                     {"mass_left", head.mass_left},
                     {"mass_bound", head.mass_bound},
                     {"out_bound", head.out_bound},
                     {"num_fallbacks", head.num_fallbacks},
                     {"num_redraws", head.num_redraws},
                     {"last_mass_bounds", head.last_mass_bounds},
                     {"last_out_bounds", head.last_out_bounds}});
}

}  // namespace

JsonText CutsJson(const std::vector<Cut>& cuts) {
  JsonList list;
  for (const Cut& cut : cuts) {
    JsonList dropped;
    for (const TokenRange& range : cut.dropped) {
      const uint64_t ends[] = {range.begin, range.end};
      dropped.Add(std::span<const uint64_t>(ends));
    }
    list.Add(JsonObject({{"at", cut.at}, {"dropped", dropped.Text()}}));
  }
  return list.Text();
}

JsonText JsonOf(const SessionContext& context) {
  return JsonObject({{"id", static_cast<int64_t>(context.id)},
                     {"name", context.name},
                     {"begin", context.tokens.begin},
                     {"end", context.tokens.end},
                     {"first_token", context.first_token}});
}

JsonText JsonOf(const Substitute& substitute) {
  return JsonObject({{"ran", substitute.ran},
                     {"wanted", substitute.wanted},
                     {"because", substitute.because},
                     {"share", substitute.share}});
}

JsonText JsonOf(const LayerExplain& layer) {
  JsonList heads;
  for (const HeadExplain& head : layer.heads) heads.Add(JsonOf(head));
  JsonList substitutes;
  for (const Substitute& each : layer.substitutes) substitutes.Add(JsonOf(each));
  return JsonObject({{"layer", layer.layer},
                     {"plan", layer.plan},
                     {"ran", layer.ran},
                     {"substitutes", substitutes.Text()},
                     {"reason", layer.reason},
                     {"num_tokens", layer.num_tokens},
                     {"num_middle", layer.num_middle},
                     {"predicted_selected", layer.predicted_selected},
                     {"predicted_bytes", layer.predicted_bytes},
                     {"predicted_us", layer.predicted_us},
                     {"notes", layer.notes},
                     {"num_queries", layer.num_queries},
                     {"selected_mean", layer.selected_mean},
                     {"candidates_mean", layer.candidates_mean},
                     {"bytes_touched", layer.bytes_touched},
                     {"append_us", layer.append_us},
                     {"score_us", layer.score_us},
                     {"select_us", layer.select_us},
                     {"attend_us", layer.attend_us},
                     {"heads", heads.Text()}});
}

}  // namespace attndb::internal
