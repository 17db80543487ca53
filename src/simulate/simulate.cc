// Simulate: workloads, policies and tiers, one replay for each; sums made into rates.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "attndb/tiers.h"
#include "attndb/units.h"
#include "simulate/replay.h"
#include "simulate/simulate_check.h"
#include "simulate/trace.h"
#include "simulate/workload.h"

namespace attndb {
namespace {

using tier::Capacity;
using tier::Policy;
using tier::ReplayCounts;
using tier::Workload;

constexpr double kBytesPerGb = 1e9;
constexpr double kSecondsPerHour = 3600;

double Number(uint64_t count) { return static_cast<double>(count); }
double Per(double a, double b) { return b > 0 ? a / b : 0; }

// The result of one replay: rates, whose means over seeds are the run's.
SimulatedRun RunOf(const ReplayCounts& counts, const SimulatedModel& model) {
  SimulatedRun run;
  const double turns = Number(counts.turns);
  const double hits = Number(counts.memory_hits + counts.disk_hits);
  const double seconds = counts.seconds;
  const double busy = counts.stall_seconds + counts.prefill_seconds + counts.decode_seconds;
  run.hit_rate = Per(hits, turns);
  run.memory_hit_rate = Per(Number(counts.memory_hits), turns);
  run.disk_hit_rate = Per(Number(counts.disk_hits), turns);
  run.return_hit_rate = Per(hits, Number(counts.return_turns));
  run.reused_rate = Per(Number(counts.reused_tokens), Number(counts.prompt_tokens));
  run.ttft_seconds = Per(counts.stall_seconds + counts.prefill_seconds, turns);
  run.queue_seconds = Per(counts.wait_seconds, turns);
  run.first_turn_queue_seconds =
      Per(counts.first_wait_seconds, turns - Number(counts.return_turns));
  run.queue_length = Per(counts.queued_jobs, turns);
  run.turns_per_second = Per(turns, seconds);
  run.prefill_tokens_per_second = Per(Number(counts.prompt_tokens), counts.prefill_seconds);
  run.answer_tokens_per_second = Per(Number(counts.answer_tokens), seconds);
  run.gpu_hours = busy / kSecondsPerHour * model.num_gpus;
  run.hours = seconds / kSecondsPerHour;
  run.disk_write_bytes_per_second = Per(Number(counts.demoted_bytes), seconds);
  run.disk_read_bytes_per_second =
      Per(Number(counts.fetched_bytes + counts.stalled_bytes), seconds);
  return run;
}

// The fields of a run that are means over replays.
constexpr double SimulatedRun::*kMeans[] = {
    &SimulatedRun::hit_rate,
    &SimulatedRun::memory_hit_rate,
    &SimulatedRun::disk_hit_rate,
    &SimulatedRun::return_hit_rate,
    &SimulatedRun::reused_rate,
    &SimulatedRun::ttft_seconds,
    &SimulatedRun::queue_seconds,
    &SimulatedRun::first_turn_queue_seconds,
    &SimulatedRun::queue_length,
    &SimulatedRun::turns_per_second,
    &SimulatedRun::prefill_tokens_per_second,
    &SimulatedRun::answer_tokens_per_second,
    &SimulatedRun::gpu_hours,
    &SimulatedRun::hours,
    &SimulatedRun::disk_write_bytes_per_second,
    &SimulatedRun::disk_read_bytes_per_second,
};

SimulatedRun MeanOf(const std::vector<SimulatedRun>& runs) {
  SimulatedRun mean;
  const auto num = static_cast<double>(runs.size());
  for (const SimulatedRun& run : runs) {
    for (double SimulatedRun::*const field : kMeans) mean.*field += run.*field / num;
  }
  double squares = 0;
  for (const SimulatedRun& run : runs) squares += std::pow(run.hit_rate - mean.hit_rate, 2);
  mean.hit_deviation = runs.size() < 2 ? 0 : std::sqrt(squares / (num - 1));
  return mean;
}

class Simulation {
 public:
  Simulation(const SimulateOptions& options, SimulatedModel model, std::vector<Policy> policies)
      : options_(options), policies_(std::move(policies)) {
    report_.model = std::move(model);
  }

  Result<SimulateReport> Run() {
    ATTNDB_RETURN_IF_ERROR(MakeWorkloads());
    CountReplays();
    for (const uint64_t memory_bytes : options_.memory_bytes) {
      for (const uint64_t disk_bytes : options_.disk_bytes) {
        bounds_.clear();
        for (const Policy& policy : policies_) {
          ATTNDB_RETURN_IF_ERROR(RunPolicy(policy, {memory_bytes, disk_bytes}));
        }
      }
    }
    return std::move(report_);
  }

 private:
  Status MakeWorkloads() {
    if (!options_.trace.empty()) {
      const uint64_t memory =
          *std::max_element(options_.memory_bytes.begin(), options_.memory_bytes.end());
      const uint64_t disk =
          *std::max_element(options_.disk_bytes.begin(), options_.disk_bytes.end());
      ATTNDB_ASSIGN_OR_RETURN(
          Workload workload,
          tier::ReadTrace(options_.trace, {.kv_bytes_per_token = report_.model.kv_bytes_per_token,
                                           .window_tokens = report_.model.window_tokens,
                                           .largest_tier_bytes = std::max(memory, disk)}));
      workloads_.push_back(std::move(workload));
    }
    for (uint32_t i = 0; options_.trace.empty() && i < options_.num_seeds; ++i) {
      workloads_.push_back(
          tier::SyntheticWorkload({.num_conversations = options_.num_conversations,
                                   .conversations_per_second = options_.conversations_per_second,
                                   .think_seconds = options_.think_seconds,
                                   .turn_tokens = options_.turn_tokens,
                                   .new_token_share = options_.new_token_share,
                                   .seed = options_.seed + i}));
    }
    Describe();
    return Status::Ok();
  }

  void Describe() {
    uint64_t counted = 0;
    for (const Workload& workload : workloads_) {
      report_.num_turns += workload.turns.size();
      counted += workload.turns.size() - WarmUpOf(workload);
    }
    report_.num_seeds = static_cast<uint32_t>(workloads_.size());
    report_.num_turns /= workloads_.size();
    report_.num_counted = counted / workloads_.size();
    report_.num_conversations = workloads_.front().conversations.size();
    report_.workload = FormatCount(report_.num_conversations);
    report_.workload += options_.trace.empty() ? " synthetic conversations of ShareGPT's shape"
                                               : " conversations of " + options_.trace;
  }

  uint64_t WarmUpOf(const Workload& workload) const {
    return static_cast<uint64_t>(Number(workload.turns.size()) * options_.warm_up_share);
  }

  void CountReplays() {
    std::map<std::string, bool> bounds;
    for (const Policy& policy : policies_) bounds[PolicyText(BoundOf(policy, 0))] = true;
    const uint64_t of_pair = policies_.size() + (options_.bound ? 2 * bounds.size() : 0);
    for (const Workload& workload : workloads_) turns_total_ += workload.turns.size();
    turns_total_ *= of_pair * options_.memory_bytes.size() * options_.disk_bytes.size();
  }

  Status RunPolicy(const Policy& policy, const Capacity& capacity) {
    ATTNDB_ASSIGN_OR_RETURN(SimulatedRun run, Mean(policy, capacity));
    run.policy = PolicyText(policy);
    run.memory_bytes = capacity.memory_bytes;
    run.disk_bytes = capacity.disk_bytes;
    run.storage_dollars =
        run.hours * (Number(capacity.memory_bytes) / kBytesPerGb * options_.memory_gb_dollars +
                     Number(capacity.disk_bytes) / kBytesPerGb * options_.disk_gb_dollars);
    run.dollars = run.storage_dollars + run.hours * report_.model.num_gpus * options_.gpu_dollars;
    run.dollars_per_thousand_turns = Per(run.dollars, Number(report_.num_counted)) * 1000;
    if (options_.bound) {
      ATTNDB_ASSIGN_OR_RETURN(run.bound_hit_rate, Bound(policy, capacity));
    }
    report_.runs.push_back(std::move(run));
    return Status::Ok();
  }

  // Belady's order with the other properties of `policy`.
  static Policy BoundOf(const Policy& policy, double byte_weight) {
    Policy bound = policy;
    bound.order = tier::Order::kBelady;
    bound.byte_weight = byte_weight;
    return bound;
  }

  Result<double> Bound(const Policy& policy, const Capacity& capacity) {
    const std::string text = PolicyText(BoundOf(policy, 0));
    if (const auto found = bounds_.find(text); found != bounds_.end()) return found->second;
    double best = 0;
    for (const double byte_weight : {0.0, 1.0}) {
      ATTNDB_ASSIGN_OR_RETURN(const SimulatedRun run, Mean(BoundOf(policy, byte_weight), capacity));
      best = std::max(best, run.hit_rate);
    }
    bounds_[text] = best;
    return best;
  }

  Result<SimulatedRun> Mean(const Policy& policy, const Capacity& capacity) {
    const SimulatedModel& model = report_.model;
    std::vector<SimulatedRun> runs;
    for (const Workload& workload : workloads_) {
      tier::ReplayOptions options;
      options.policy = policy;
      options.capacity = capacity;
      options.service = {.kv_bytes_per_token = model.kv_bytes_per_token,
                         .window_tokens = model.window_tokens,
                         .prefill_seconds_per_token = 1.0 / model.prefill_tokens_per_second,
                         .decode_seconds = model.decode_seconds,
                         .disk_read_bytes_per_second = options_.disk_bytes_per_second,
                         .recompute_overflow = options_.recompute_overflow};
      options.warm_up_turns = WarmUpOf(workload);
      options.progress = [this](uint64_t done) {
        return !options_.progress || options_.progress(turns_done_ + done, turns_total_);
      };
      ATTNDB_ASSIGN_OR_RETURN(const ReplayCounts counts, tier::Replay(workload, options));
      turns_done_ += workload.turns.size();
      runs.push_back(RunOf(counts, model));
    }
    return MeanOf(runs);
  }

  const SimulateOptions& options_;
  const std::vector<Policy> policies_;
  std::vector<Workload> workloads_;
  std::map<std::string, double> bounds_;  // By policy text, for one pair of sizes.
  uint64_t turns_done_ = 0;
  uint64_t turns_total_ = 0;
  SimulateReport report_;
};

}  // namespace

Result<SimulateReport> Simulate(const SimulateOptions& options) {
  ATTNDB_RETURN_IF_ERROR(internal::CheckSimulateOptions(options));
  ATTNDB_ASSIGN_OR_RETURN(SimulatedModel model, internal::ResolveModel(options));
  ATTNDB_ASSIGN_OR_RETURN(std::vector<Policy> policies, internal::ParsePolicies(options));
  return Simulation(options, std::move(model), std::move(policies)).Run();
}

}  // namespace attndb
