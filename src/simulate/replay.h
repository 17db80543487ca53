// Replays a workload on one engine with tiers: a simulation by discrete events.
//
// Model:   one engine serves one job after the other, in the order of the queue. A job takes three
//          times. First, the time to read its KV from disk, if the KV is there and was not fetched
//          before. Second, the prefill of its new tokens, and of its history if its KV was not
//          kept. Third, the decoding, which is equal for all turns. A batch counts as a share of
//          GPU time for each of its jobs. KV in memory costs no time: layers are loaded while the
//          previous job runs ([AS] 3.2.1). Fetches from disk run one after the other; writes to
//          disk are free.
// Window:  an answer ends when the conversation fills the model's window. The next turn, or a turn
//          whose prompt does not fit, drops the oldest half of the window ([AS] 4.1).
// Units:   seconds, bytes, tokens.
// Threads: pure function.
// Source:  AttentionStore (arXiv:2403.19708) 4.1, 4.2.
#ifndef ATTNDB_SIMULATE_REPLAY_H_
#define ATTNDB_SIMULATE_REPLAY_H_

#include <cstdint>
#include <functional>

#include "attndb/result.h"
#include "simulate/workload.h"
#include "storage/tier/placement.h"
#include "storage/tier/policy.h"

namespace attndb::tier {

struct ServiceModel {
  uint64_t kv_bytes_per_token = 0;
  uint64_t window_tokens = 0;
  double prefill_seconds_per_token = 0;
  double decode_seconds = 0;  // GPU time of a turn's answer.
  double disk_read_bytes_per_second = 0;
  // Truncated KV can't be used, because it contains positions ([AS] 4.3.4's OF).
  bool recompute_overflow = false;
};

struct ReplayOptions {
  Policy policy;
  Capacity capacity;
  ServiceModel service;
  uint64_t warm_up_turns = 0;  // Turns that are served before counting begins.
  // Called from time to time with the turns served, and at the end; false cancels. May be null.
  std::function<bool(uint64_t turns_done)> progress;
};

// Sums over the counted turns.
struct ReplayCounts {
  uint64_t turns = 0;
  uint64_t return_turns = 0;  // Not the first of their conversation.
  uint64_t memory_hits = 0;
  uint64_t disk_hits = 0;  // Includes fetches that had not ended.
  uint64_t prompt_tokens = 0;
  uint64_t reused_tokens = 0;
  uint64_t answer_tokens = 0;
  uint64_t overflows = 0;  // Prompts that dropped half of the window.
  double stall_seconds = 0;
  double prefill_seconds = 0;
  double decode_seconds = 0;
  double wait_seconds = 0;        // In the queue.
  double first_wait_seconds = 0;  // The part of wait_seconds for first turns.
  double longest_first_wait_seconds = 0;
  double queued_jobs = 0;    // Jobs behind each served job.
  double seconds = 0;        // From the first one's start to the last one's end.
  uint64_t saved_bytes = 0;  // Offered to the tiers.
  uint64_t saves = 0;
  uint64_t demoted_bytes = 0;  // Written to disk.
  uint64_t fetched_bytes = 0;  // Read from disk ahead.
  uint64_t stalled_bytes = 0;  // Read from disk while a turn waited.
};

// Errors: kCancelled.
Result<ReplayCounts> Replay(const Workload& workload, const ReplayOptions& options);

}  // namespace attndb::tier

#endif  // ATTNDB_SIMULATE_REPLAY_H_
