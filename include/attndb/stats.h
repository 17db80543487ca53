// What attndb reports about contexts, sessions, plans and itself. Plain values.
#ifndef ATTNDB_STATS_H_
#define ATTNDB_STATS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "attndb/export.h"
#include "attndb/types.h"

namespace attndb {

// Something on disk that is derived from a segment: planes or an index.
struct CompanionInfo {
  std::string kind;
  uint64_t generation = 0;
  uint64_t file_bytes = 0;
};

// One segment of a context's chain.
struct SegmentInfo {
  int64_t segment_id = 0;
  uint64_t num_tokens_used = 0;  // Of the segment's tokens, those that this context has.
  uint64_t num_tokens = 0;
  uint64_t file_bytes = 0;
  uint32_t num_contexts = 0;  // That share it.
  std::string damage;         // Empty, or why it is quarantined.
  std::vector<CompanionInfo> companions;
};

struct ContextInfo {
  ContextId id = ContextId::kNone;
  std::string name;  // Empty if unnamed.
  uint64_t num_tokens = 0;
  uint64_t kv_bytes = 0;         // K and V of its tokens.
  uint64_t file_bytes = 0;       // Of all its segments, shared ones counted in full; of companions.
  uint64_t own_bytes = 0;        // Of the segments that no other context uses.
  uint64_t companion_bytes = 0;  // Of file_bytes, those of its segments' companions.
  std::map<std::string, uint64_t> derived_bytes;  // companion_bytes, by CompanionInfo::kind.
  uint64_t num_pending_companions =
      0;                        // Segments that lack planes, or an index that was asked for.
  uint64_t retained_bytes = 0;  // In its segments, of tokens that no context uses (until Compact).
  uint64_t query_sample_bytes = 0;
  int64_t created_us = 0;  // Microseconds since the Unix epoch.
  int64_t last_access_us = 0;
  std::optional<int64_t> ttl_seconds;
  bool pinned = false;
  bool damaged = false;  // A segment is quarantined: the context is not served.
  int64_t first_position = 0;
  DType kv_dtype = DType::kFloat16;
  std::string fingerprint;
  uint32_t num_layers = 0;
  std::vector<std::string> non_finite_heads;  // "layer 3 head 1" where K or V has NaN or Inf.
  std::vector<SegmentInfo> segments;          // Oldest first. Filled by Describe only.
};

// What Build found and made, in segments of the context.
struct BuildReport {
  std::string kind;            // Of the companions, as in CompanionInfo.
  uint64_t num_built = 0;      // By this call, or meanwhile,
  uint64_t num_present = 0;    // ... there before,
  uint64_t num_too_short = 0;  // ... shorter than what has one: their keys are read,
  uint64_t num_missing = 0;    // ... not built: damaged, or no room on disk.
  uint64_t file_bytes = 0;     // Of those that are there now.
};

// One of the contexts that a session holds beside others: DB::CreateSessionOver.
struct SessionContext {
  ContextId id = ContextId::kNone;
  std::string name;   // Its name, or "#id".
  TokenRange tokens;  // Of the session: what the context adds to those before it; may be empty.
  // Which of the context's tokens tokens.begin is. Those before it are an earlier context's, too.
  uint64_t first_token = 0;
};

// What a search chose for one q head: tokens between sink and window, in no order. No tokens where
// the head reads all: a short context, NaN or Inf in K or V.
struct CriticalTokens {
  std::vector<uint32_t> tokens;
  std::vector<float> scores;  // q . k, unscaled, exact.
};

// How one kv head of a layer was, or would be, attended to: its physical plan.
struct HeadExplain {
  uint32_t kv_head = 0;
  std::string plan;    // What it runs: plan text, with all that `auto` left open settled.
  std::string reason;  // What decided that: a rule, or which cost less; empty if it was asked for.
  double predicted_selected = -1;  // Critical tokens per q head; -1 = unknown before a run.
  uint64_t predicted_bytes = 0;    // K and V bytes read per row of q.
  double predicted_us = 0;         // Per row of q, of one thread.
  double other_us = -1;            // The same of what was not chosen; -1 = there was no choice.
  // Measured over the session so far.
  double selected_mean = 0;    // Critical tokens per row and q head.
  uint64_t bytes_touched = 0;  // By the last Attend.
  double time_us = 0;          // Of the last Attend, summed over threads.
  // What an index that does not score every key took: keys that it scored, per row and q head; for
  // the group together, per row, clusters or blocks whose keys it read, and reads that waited for
  // another.
  double visited_mean = 0;
  double clusters_mean = 0;
  double hops_mean = 0;
  uint64_t num_full_scans = 0;  // Searches of the group that scored every key instead, all in all.
  // A draw in two phases serves the whole group. It weighs tokens by codes, reads the keys of some,
  // and the values of some of these: how many of each there are per row, in the mean.
  double weighed_mean = 0;
  double drawn_keys_mean = 0;
  double drawn_values_mean = 0;
  // Of draws by an index: estimated share of the mass that it leaves out unseen, by blocks that
  // were scored all the same; in the mean. -1 = there were none.
  double missed_mass = -1;
  double error = -1;      // Estimated, of the output, in the mean; -1 = not estimated.
  double mass_left = -1;  // Estimated share of the mass that was not chosen; -1 = unknown.
  // Of a plan with exact_fallback: hard upper bounds of that share, and of the norm of what the
  // output is off by, |out - out of full|; in the mean over rows and q heads, 0 for those that fell
  // back. -1 = no bounds.
  double mass_bound = -1;
  double out_bound = -1;
  // Rows and q heads that attended to all tokens instead, because their bound or the estimated
  // error of their draw was too large; and how often the group drew again, for a larger sample.
  uint64_t num_fallbacks = 0;
  uint64_t num_redraws = 0;
  std::vector<double> last_mass_bounds;  // Of the last Attend's newest row, by q head of the group.
  std::vector<double> last_out_bounds;
};

// How one layer was, or would be, attended to.
struct LayerExplain {
  LayerId layer = 0;
  std::string plan;               // Canonical plan text of this layer.
  std::string reason;             // Why something else than the plan runs; empty if it does not.
  uint64_t num_tokens = 0;        // Visible to the newest token.
  uint64_t num_middle = 0;        // Neither sink nor window.
  double predicted_selected = 0;  // Critical tokens per q head; -1 = unknown before a run.
  uint64_t predicted_bytes = 0;   // K and V bytes read per token of q.
  double predicted_us = 0;        // Per token of q, all heads, by the threads of the session.
  std::string notes;              // What the rules found, as partial reuse.
  // Measured over the session so far; zero before the first Attend.
  uint64_t num_queries = 0;    // Rows of q.
  double selected_mean = 0;    // Critical tokens per row and q head.
  double candidates_mean = 0;  // Tokens that estimates brought up to be scored exactly; same unit.
  uint64_t bytes_touched = 0;  // By the last Attend, all heads.
  double score_us = 0;         // Last Attend, summed over threads: scoring,
  double select_us = 0;        // ... choosing,
  double attend_us = 0;        // ... attending and merging,
  double append_us = 0;        // ... and the last Append.
  std::vector<HeadExplain> heads;
};

struct ATTNDB_EXPORT Explain {
  std::string plan;  // Canonical plan text of the session.
  uint64_t num_tokens = 0;
  uint64_t num_reused = 0;
  uint64_t num_segments = 0;
  uint64_t memory_bytes = 0;  // The session's tail and the segments it holds in memory.
  double predicted_us = 0;    // Attention of one token in all layers.
  // Of auto(tpot=...): the error that is kept, and whether the time is met by that. 0 = no such
  // plan.
  double tpot_error = 0;
  bool unreachable = false;
  std::vector<SessionContext> contexts;  // As Session::contexts.
  std::vector<LayerExplain> layers;

  // Tables of layers and of heads; neighbours that agree are folded.
  std::string ToText() const;
  std::string ToJson() const;
};

// Why a prompt's prefix was or was not reused.
struct ATTNDB_EXPORT PrefixExplain {
  uint64_t num_prompt_tokens = 0;
  uint64_t num_reused = 0;  // What CreateSession would reuse.
  std::string context;      // From this context: its name, or "#id".
  // In words: "all of the prompt is stored; one token is left for the engine", "context 'b' agrees
  // for 17 tokens, then has token 5 where the prompt has 9", "2 contexts of another model" ...
  std::vector<std::string> reasons;

  std::string ToText() const;
  std::string ToJson() const;
};

// What a machine takes for the steps of attention: what plans are priced by. Nanoseconds of one
// thread for rows of 128 elements of 16 bits; lists are for 1, 2, 4 and 8 q rows a pass.
struct ATTNDB_EXPORT MachineProfile {
  std::string cpu;
  std::string isa;
  uint32_t num_threads = 0;
  bool measured = false;                // False: fixed prices, not of this machine.
  double one_thread_bytes_per_ns = 0;   // Streamed from memory, GB/s,
  double all_threads_bytes_per_ns = 0;  // ... by all threads together.
  std::vector<double> attend_ns;        // K and V of a token.
  std::vector<double> score_ns;         // K of a token.
  std::vector<double> scan8_ns;         // A key of the planes, at 8 bits,
  std::vector<double> scan4_ns;         // ... and at 4.
  double select_ns = 0;                 // A token that one q head compares.
  double row_ns = 0;                    // A row here and there, for one q head.
  double hop_ns = 0;                    // A read that waits for the one before.

  std::string ToJson() const;
};

// One finding of Verify.
struct Damage {
  int64_t segment_id = 0;
  std::string file;                   // Relative to the store.
  std::string message;                // Names object, expected and found.
  std::vector<std::string> contexts;  // That can't be served because of it.
};

struct ATTNDB_EXPORT VerifyReport {
  uint64_t num_segments = 0;
  uint64_t num_bytes = 0;
  std::vector<Damage> damages;

  bool ok() const { return damages.empty(); }
};

struct ATTNDB_EXPORT DBStats {
  std::string path;
  bool read_only = false;
  uint32_t format_version = 0;
  uint64_t num_contexts = 0;  // Of this tenant.
  uint64_t num_segments = 0;
  uint64_t num_tokens = 0;  // Sum over segments: shared ones once.
  uint64_t file_bytes = 0;  // Of the tenant's segments and their companions.
  uint64_t num_companions = 0;
  uint64_t companion_bytes = 0;  // Of file_bytes.
  uint64_t num_pending_companions =
      0;                     // Segments that lack planes, or an index that was asked for.
  uint64_t quota_bytes = 0;  // 0 = none.
  // K and V, what was derived from them, and scratch, held in memory: all tenants.
  uint64_t memory_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  uint64_t num_sessions = 0;  // Open in this process, all tenants.
  uint64_t num_damaged_segments = 0;
  // Since open.
  uint64_t num_lookups = 0;
  uint64_t num_prompt_tokens = 0;
  uint64_t num_reused_tokens = 0;
  uint64_t num_stores = 0;
  uint64_t num_evictions = 0;
  uint64_t bytes_written = 0;  // Segments sealed by Store and Import,
  uint64_t bytes_merged = 0;   // ... and those written again by merging.
  // In the background since open, all tenants.
  uint64_t num_companions_built = 0;
  double background_seconds = 0;

  std::string ToJson() const;
};

}  // namespace attndb

#endif  // ATTNDB_STATS_H_
