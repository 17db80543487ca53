#include "bench/attention/attention_report.h"

#include <utility>
#include <vector>

#include "attndb/version.h"
#include "cli/common/machine.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::bench {
namespace {

using cli::Align;
using cli::FormatFixed;
using Json = nlohmann::ordered_json;

double BytesPerSecond(const PlanResult& plan) { return plan.bytes_touched / plan.ms_median * 1e3; }

bool FitsCache(const AttentionBenchResult& result) {
  return result.kv_bytes < 4 * result.last_cache_bytes;
}

std::string Percent(double share, int decimals) {
  return FormatFixed(100 * share, decimals) + " %";
}

std::string MeanAndMedianText(const MeanAndMedian& value, int decimals) {
  return FormatFixed(value.mean, decimals) + " (" + FormatFixed(value.median, decimals) + ")";
}

std::string ShapeText(const HeadInfo& info) {
  const LayerSpec& layer = info.layer(0);
  return FormatCount(info.num_tokens) + " tokens, " + std::to_string(info.layers.size()) +
         (info.layers.size() == 1 ? " layer, " : " layers, ") + std::to_string(layer.num_q_heads) +
         "/" + std::to_string(layer.num_kv_heads) + " heads of " + std::to_string(layer.head_dim) +
         ", " + std::string(DTypeName(info.model.kv_dtype));
}

std::string ProfileText(const MassProfile& profile) {
  return "middle holds " + MeanAndMedianText(profile.middle_mass, 2) + "; 90 % needs " +
         MeanAndMedianText(profile.tokens_90, 0) + " of its tokens, 99 % " +
         MeanAndMedianText(profile.tokens_99, 0) + ": mean (median) over " +
         std::to_string(profile.num_heads) + " heads";
}

Json SubstitutesJson(const std::vector<Substitute>& substitutes) {
  Json json = Json::array();
  for (const Substitute& each : substitutes) {
    json.push_back({{"ran", each.ran},
                    {"wanted", each.wanted},
                    {"because", each.because},
                    {"share", each.share}});
  }
  return json;
}

Json LeftOutJson(const std::vector<LeftOut>& left_out) {
  Json json = Json::array();
  for (const LeftOut& each : left_out) {
    json.push_back({{"plan", each.plan}, {"because", each.because}});
  }
  return json;
}

Json PlanJson(const PlanResult& plan, const PlanResult& full, double bandwidth) {
  Json json = {{"plan", plan.plan},
               {"canonical", plan.canonical},
               {"ran", plan.ran},
               {"substitutes", SubstitutesJson(plan.substitutes)},
               {"error_mean", plan.error_mean},
               {"error_worst_head", plan.error_worst_head},
               {"mass", nullptr},
               {"selected_mean", plan.selected_mean},
               {"bytes_touched", plan.bytes_touched},
               {"share_of_full_bytes", plan.bytes_touched / full.bytes_touched},
               {"ms_median", plan.ms_median},
               {"ms_mad", plan.ms_mad},
               {"speedup", plan.speedup},
               {"share_of_bandwidth", BytesPerSecond(plan) / bandwidth},
               {"best_by_bytes", plan.best_by_bytes},
               {"best_by_time", plan.best_by_time}};
  if (plan.mass) json["mass"] = *plan.mass;
  if (plan.num_estimates > 0) {
    json["estimates_of_mass_left_out"] = {{"num", plan.num_estimates},
                                          {"within_factor_2", plan.num_within_2}};
  }
  if (plan.num_bounds > 0) {
    json["bounds_of_mass_left_out"] = {{"num", plan.num_bounds},
                                       {"held", plan.num_held},
                                       {"looseness_median", plan.bound_looseness}};
    json["bounds_of_output_error"] = {{"num", plan.num_bounds},
                                      {"held", plan.num_out_held},
                                      {"looseness_median", plan.out_bound_looseness}};
  }
  return json;
}

Json PairJson(const MeanAndMedian& value) {
  return {{"mean", value.mean}, {"median", value.median}};
}

Json HeadsJson(const HeadInfo& info, const AttentionBenchResult& result) {
  const LayerSpec& layer = info.layer(0);
  return {{"origin", HeadOriginName(info.origin)},
          {"description", info.description},
          {"num_tokens", info.num_tokens},
          {"num_layers", info.layers.size()},
          {"num_q_heads", layer.num_q_heads},
          {"num_kv_heads", layer.num_kv_heads},
          {"head_dim", layer.head_dim},
          {"kv_dtype", DTypeName(info.model.kv_dtype)},
          {"kv_bytes", result.kv_bytes},
          {"middle_mass", PairJson(result.profile.middle_mass)},
          {"tokens_for_90_percent", PairJson(result.profile.tokens_90)},
          {"tokens_for_99_percent", PairJson(result.profile.tokens_99)}};
}

std::string BestText(const PlanResult& plan) {
  if (plan.best_by_bytes && plan.best_by_time) return "bytes, time";
  return plan.best_by_bytes ? "bytes" : (plan.best_by_time ? "time" : "");
}

std::string PlansText(const AttentionBenchResult& result) {
  cli::Table table({{"plan"},
                    {"error", Align::kRight},
                    {"worst head", Align::kRight},
                    {"mass", Align::kRight},
                    {"selected", Align::kRight},
                    {"bytes", Align::kRight},
                    {"of full", Align::kRight},
                    {"ms", Align::kRight},
                    {"+-", Align::kRight},
                    {"faster", Align::kRight},
                    {"of bandwidth", Align::kRight},
                    {"best by"}});
  const PlanResult& full = result.plans.front();
  for (const PlanResult& plan : result.plans) {
    table.AddRow({plan.plan, Percent(plan.error_mean, 2), Percent(plan.error_worst_head, 1),
                  plan.mass ? Percent(*plan.mass, 1) : "-", FormatFixed(plan.selected_mean, 0),
                  FormatBytes(static_cast<uint64_t>(plan.bytes_touched)),
                  Percent(plan.bytes_touched / full.bytes_touched, 0),
                  FormatFixed(plan.ms_median, 3), FormatFixed(plan.ms_mad, 3),
                  FormatFixed(plan.speedup, 2) + " x",
                  Percent(BytesPerSecond(plan) / result.bandwidth, 0), BestText(plan)});
  }
  return table.ToText();
}

// Lists, for each plan, the parts in whose place something else ran.
std::string SubstituteLines(const AttentionBenchResult& result) {
  std::string text;
  for (const PlanResult& plan : result.plans) {
    for (const Substitute& each : plan.substitutes) {
      text += plan.plan + ": " + each.ToText() + "\n";
    }
  }
  for (const LeftOut& each : result.left_out) {
    text += "left out: " + each.plan + ": " + each.because + "\n";
  }
  return text.empty() ? text : "\n" + text;
}

std::string BoundsText(const AttentionBenchResult& result) {
  std::string text;
  for (const PlanResult& plan : result.plans) {
    if (plan.num_bounds == 0) continue;
    const auto add = [&](const char* what, uint64_t num_held, double looseness) {
      text += plan.plan + ": the bound of " + what + " held in " + FormatCount(num_held) + " of " +
              FormatCount(plan.num_bounds) + " queries";
      if (looseness > 0) text += "; it is " + FormatFixed(looseness, 2) + " x that (median)";
      text += "\n";
    };
    add("the mass left out", plan.num_held, plan.bound_looseness);
    add("the output's error", plan.num_out_held, plan.out_bound_looseness);
  }
  return text.empty() ? text : "\n" + text;
}

}  // namespace

Json BenchJson(const HeadInfo& info, const AttentionBenchOptions& options,
               const AttentionBenchResult& result) {
  Json plans = Json::array();
  for (const PlanResult& plan : result.plans) {
    plans.push_back(PlanJson(plan, result.plans.front(), result.bandwidth));
  }
  return {{"bench", "attention"},
          {"machine",
           {{"cpu", cli::ReadCpuInfo().model},
            {"isa", KernelIsa()},
            {"last_cache_bytes", result.last_cache_bytes},
            {"read_bandwidth", result.bandwidth}}},
          {"num_threads", options.num_threads},
          {"num_steps", result.num_steps},
          {"heads", HeadsJson(info, result)},
          {"fits_cache", FitsCache(result)},
          {"plans", std::move(plans)},
          {"left_out", LeftOutJson(result.left_out)}};
}

std::string BenchText(const HeadInfo& info, const AttentionBenchOptions& options,
                      const AttentionBenchResult& result) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"vectors", info.description},
      {"shape", ShapeText(info)},
      {"softmax", ProfileText(result.profile)},
      {"on", cli::ReadCpuInfo().model + ", " + KernelIsa() + ", " +
                 std::to_string(options.num_threads) +
                 (options.num_threads == 1 ? " thread" : " threads") + "; memory is read at " +
                 FormatFixed(result.bandwidth / 1e9, 1) + " GB/s"},
      {"figures", "of one token in all these layers: medians of " +
                      std::to_string(result.num_steps) + " steps, plans in turn"}};
  if (FitsCache(result)) {
    pairs.emplace_back("note", FormatBytes(result.kv_bytes) +
                                   " of K and V: less than four times the last-level cache (" +
                                   FormatBytes(result.last_cache_bytes) +
                                   "), so times are partly the cache's");
  }
  return cli::PairsText(pairs) + "\n" + PlansText(result) + SubstituteLines(result) +
         BoundsText(result);
}

}  // namespace attndb::bench
