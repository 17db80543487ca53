// Simulates conversations on tiers of memory and disk: what would a given size of each buy?
// Policies decide which tier holds a conversation's KV. They know nothing of the simulation: the
// tiers of a live store can run the same code.
//
//   SimulateOptions options;                        // AttentionStore's LLaMA-13B: its Fig. 21
//   options.disk_bytes = {2'000'000'000'000, 10'000'000'000'000};
//   ATTNDB_ASSIGN_OR_RETURN(const SimulateReport report, Simulate(options));
//   std::cout << report.ToText();
//
// Library:  libattndb_simulate, which needs no libattndb.
// Policies: "lru", "fifo", "attention_store", "attndb", "belady", "none", with keys as in
//           "attndb(bytes=1,prefer=600)": docs/tiers.md.
// Model:    one engine serves one turn after the other; a batch counts as a share of GPU time for
//           each of its turns. A turn whose KV was kept computes only its new tokens; another turn
//           computes its history, too. Synthetic conversations have the shape that AttentionStore
//           reports for ShareGPT; none of them is real.
// Units:    a GB has 10^9 bytes; seconds of the simulated clock; dollars; rates are in [0, 1].
// Threads:  values; calls are independent.
// Source:   AttentionStore (arXiv:2403.19708) 3.3, 4.1 to 4.3.
#ifndef ATTNDB_TIERS_H_
#define ATTNDB_TIERS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attndb/export.h"
#include "attndb/result.h"

namespace attndb {

// A model, and the GPUs that serve it, as far as its KV and its times go.
struct SimulatedModel {
  std::string name;
  uint64_t kv_bytes_per_token = 0;
  uint64_t window_tokens = 0;  // Tokens of a context; the oldest half of a full one is dropped.
  double prefill_tokens_per_second = 0;
  double decode_seconds = 0;  // GPU time of a turn's answer.
  uint32_t num_gpus = 0;
};

// The models of AttentionStore's experiments: "13b", "65b", "70b" (LLaMA) and "falcon".
ATTNDB_EXPORT const std::vector<SimulatedModel>& SimulatedModels();

// Called now and then with turns done and in all; false cancels. May be null.
using SimulateProgress = std::function<bool(uint64_t turns_done, uint64_t turns_total)>;

struct SimulateOptions {
  // One of SimulatedModels. A figure below that is not 0 replaces the model's figure. "" = all
  // figures are set below.
  std::string model = "13b";
  uint64_t kv_bytes_per_token = 0;
  uint64_t window_tokens = 0;
  double prefill_tokens_per_second = 0;
  double decode_seconds = 0;
  uint32_t num_gpus = 0;

  // A trace of conversations, a file of JSON lines (docs/tiers.md); empty = synthetic ones.
  std::string trace;
  uint64_t num_conversations = 9000;
  double conversations_per_second = 1.0;  // New conversations; Poisson.
  double think_seconds = 60;              // Mean time from an answer to the next turn.
  double turn_tokens = 2600;              // Tokens of a turn, the median over conversations.
  double new_token_share = 0.06;          // Share of the prompt in these.
  uint64_t seed = 1;
  // Synthetic workloads of which results are the means; at most 10^7 conversations together.
  uint32_t num_seeds = 1;
  double warm_up_share = 0.316;     // Turns that are served before counting begins, as [AS] 4.2.
  bool recompute_overflow = false;  // KV that was truncated can't be reused ([AS] 4.3.4's OF).

  // Tiers: each memory with each disk, under each policy.
  std::vector<uint64_t> memory_bytes = {128'000'000'000};
  std::vector<uint64_t> disk_bytes = {10'000'000'000'000};
  double disk_bytes_per_second = 5e9;  // Read from disk.
  std::vector<std::string> policies = {"lru", "fifo", "attention_store", "attndb"};
  bool bound = false;  // Whether to fill SimulatedRun::bound_hit_rate.

  // Prices of an hour: a GPU, and a GB of each tier ([AS] 4.2).
  double gpu_dollars = 5.0;
  double memory_gb_dollars = 0.0088;
  double disk_gb_dollars = 0.000082;

  SimulateProgress progress;
};

// One policy over one memory and disk: means over the seeds, of the turns after the warm-up.
struct SimulatedRun {
  std::string policy;
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;
  double hit_rate = 0;       // Turns whose KV was kept, of all turns, first ones included.
  double hit_deviation = 0;  // Standard deviation of that over the seeds.
  double memory_hit_rate = 0;
  double disk_hit_rate = 0;    // Fetches that had not ended count here.
  double return_hit_rate = 0;  // Hits of the turns that are not their conversation's first.
  double reused_rate = 0;      // Prompt tokens, history included, that were not computed.
  // hit_rate of Belady's rule, which knows the time of each return, with the same `cut` and
  // `prefer`: the better of counting items and of counting bytes. This is no proof, because items
  // differ in size and hits change the times. -1 = not asked for.
  double bound_hit_rate = -1;
  double ttft_seconds = 0;              // From service to the first token, a mean.
  double queue_seconds = 0;             // Before that, in the queue.
  double first_turn_queue_seconds = 0;  // The same, of first turns.
  double queue_length = 0;              // Waiting jobs, a mean over the served ones.
  double turns_per_second = 0;
  double prefill_tokens_per_second = 0;  // Prompt tokens, reused ones included, by prefill time.
  double answer_tokens_per_second = 0;
  double gpu_hours = 0;  // GPUs times hours in which they had work.
  double hours = 0;      // From the first counted turn to the last one's end.
  double disk_write_bytes_per_second = 0;
  double disk_read_bytes_per_second = 0;
  double dollars = 0;          // GPUs, memory and disk for `hours`.
  double storage_dollars = 0;  // Memory and disk, a part of it.
  double dollars_per_thousand_turns = 0;
};

struct ATTNDB_EXPORT SimulateReport {
  SimulatedModel model;
  std::string workload;  // In words: "9,000 synthetic conversations of ShareGPT's shape".
  uint64_t num_conversations = 0;
  uint64_t num_turns = 0;    // One seed's, a mean.
  uint64_t num_counted = 0;  // Turns after the warm-up; one seed's, a mean.
  uint32_t num_seeds = 0;
  std::vector<SimulatedRun> runs;  // By memory, disk and policy, in the order of the options.

  std::string ToText() const;  // A table of the runs.
  std::string ToJson() const;
};

// Cost:   about 10 us a turn, memory, disk and policy, and three times as much with `bound`; some
//         100 bytes a turn.
// Errors: kInvalidArgument names the option, or the line of the trace; kNotFound, kIoError (the
//         trace); kCancelled.
ATTNDB_EXPORT Result<SimulateReport> Simulate(const SimulateOptions& options);

}  // namespace attndb

#endif  // ATTNDB_TIERS_H_
