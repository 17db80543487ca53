#include "simulate/simulate_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "common/quote.h"

namespace attndb {

// KV in float16, as the paper's. 65B: "360 ms for 2K tokens" ([AS] 2.3); others in proportion to
// their parameters and GPUs. Decoding was fitted to the paper's rates for 13B, and follows the step
// times of [AS] for others: docs/tiers.md.
const std::vector<SimulatedModel>& SimulatedModels() {
  static const std::vector<SimulatedModel> kModels = {
      {"13b", 819'200, 4096, 2048 / (0.36 * 0.4), 1.0, 2},
      {"65b", 2'621'440, 2048, 2048 / 0.36, 1.7, 4},
      {"70b", 327'680, 4096, 2048 / (0.36 * 70 / 65), 1.5, 4},
      {"falcon", 122'880, 4096, 2048 / (0.36 * 40 / 65), 1.02, 4},
  };
  return kModels;
}

namespace internal {
namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 60;
constexpr uint64_t kMaxConversations = 10'000'000;  // Some GB of memory, all seeds together.
constexpr size_t kMaxRuns = 10'000;

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g", value);
  return text;
}

Status Refused(const char* option, const std::string& expected, const std::string& found) {
  return Status::InvalidArgument(std::string(option) + ": expected " + expected + ", found " +
                                 found);
}

Status CheckRange(const char* option, double value, double low, double high) {
  if (value >= low && value <= high) return Status::Ok();
  return Refused(option, Text(low) + " to " + Text(high), Text(value));
}

Status CheckSizes(const char* option, const std::vector<uint64_t>& sizes) {
  if (sizes.empty()) return Refused(option, "a size", "none");
  for (const uint64_t bytes : sizes) {
    if (bytes > kMaxBytes) {
      return Refused(option, "at most 2^60 bytes", std::to_string(bytes));
    }
  }
  return Status::Ok();
}

Status CheckWorkload(const SimulateOptions& options) {
  const auto num = static_cast<double>(options.num_conversations);
  ATTNDB_RETURN_IF_ERROR(
      CheckRange("num_conversations", num, 1, static_cast<double>(kMaxConversations)));
  ATTNDB_RETURN_IF_ERROR(
      CheckRange("conversations_per_second", options.conversations_per_second, 1e-6, 1e6));
  ATTNDB_RETURN_IF_ERROR(CheckRange("think_seconds", options.think_seconds, 0, 1e9));
  ATTNDB_RETURN_IF_ERROR(CheckRange("turn_tokens", options.turn_tokens, 1, 1e7));
  ATTNDB_RETURN_IF_ERROR(CheckRange("new_token_share", options.new_token_share, 0, 1));
  ATTNDB_RETURN_IF_ERROR(CheckRange("num_seeds", options.num_seeds, 1, 1000));
  return CheckRange("num_seeds times num_conversations", num * options.num_seeds, 1,
                    static_cast<double>(kMaxConversations));
}

}  // namespace

Status CheckSimulateOptions(const SimulateOptions& options) {
  if (options.trace.empty()) ATTNDB_RETURN_IF_ERROR(CheckWorkload(options));
  ATTNDB_RETURN_IF_ERROR(CheckRange("warm_up_share", options.warm_up_share, 0, 0.99));
  ATTNDB_RETURN_IF_ERROR(CheckSizes("memory_bytes", options.memory_bytes));
  ATTNDB_RETURN_IF_ERROR(CheckSizes("disk_bytes", options.disk_bytes));
  ATTNDB_RETURN_IF_ERROR(
      CheckRange("disk_bytes_per_second", options.disk_bytes_per_second, 1, 1e15));
  for (const auto& [name, dollars] : {std::pair{"gpu_dollars", options.gpu_dollars},
                                      std::pair{"memory_gb_dollars", options.memory_gb_dollars},
                                      std::pair{"disk_gb_dollars", options.disk_gb_dollars}}) {
    ATTNDB_RETURN_IF_ERROR(CheckRange(name, dollars, 0, 1e9));
  }
  const double runs = static_cast<double>(options.memory_bytes.size()) *
                      static_cast<double>(options.disk_bytes.size()) *
                      static_cast<double>(options.policies.size());
  if (runs > static_cast<double>(kMaxRuns)) {
    return Refused("memory_bytes, disk_bytes and policies", "at most 10,000 together", Text(runs));
  }
  return Status::Ok();
}

Result<SimulatedModel> ResolveModel(const SimulateOptions& options) {
  SimulatedModel model;
  if (!options.model.empty()) {
    const auto& known = SimulatedModels();
    const auto found = std::find_if(known.begin(), known.end(), [&](const SimulatedModel& each) {
      return each.name == options.model;
    });
    if (found == known.end()) {
      return Refused("model", "13b, 65b, 70b, falcon or none", Quoted(options.model));
    }
    model = *found;
  }
  if (options.kv_bytes_per_token != 0) model.kv_bytes_per_token = options.kv_bytes_per_token;
  if (options.window_tokens != 0) model.window_tokens = options.window_tokens;
  if (options.prefill_tokens_per_second != 0) {
    model.prefill_tokens_per_second = options.prefill_tokens_per_second;
  }
  if (options.decode_seconds != 0) model.decode_seconds = options.decode_seconds;
  if (options.num_gpus != 0) model.num_gpus = options.num_gpus;
  ATTNDB_RETURN_IF_ERROR(
      CheckRange("kv_bytes_per_token", static_cast<double>(model.kv_bytes_per_token), 1, 1e9));
  ATTNDB_RETURN_IF_ERROR(
      CheckRange("window_tokens", static_cast<double>(model.window_tokens), 2, 1e9));
  ATTNDB_RETURN_IF_ERROR(
      CheckRange("prefill_tokens_per_second", model.prefill_tokens_per_second, 1e-3, 1e12));
  ATTNDB_RETURN_IF_ERROR(CheckRange("decode_seconds", model.decode_seconds, 1e-9, 1e6));
  ATTNDB_RETURN_IF_ERROR(CheckRange("num_gpus", model.num_gpus, 1, 1e6));
  return model;
}

Result<std::vector<tier::Policy>> ParsePolicies(const SimulateOptions& options) {
  if (options.policies.empty()) return Refused("policies", "a policy", "none");
  std::vector<tier::Policy> policies;
  for (const std::string& text : options.policies) {
    ATTNDB_ASSIGN_OR_RETURN(tier::Policy policy, tier::ParsePolicy(text));
    policies.push_back(policy);
  }
  return policies;
}

}  // namespace internal
}  // namespace attndb
