// What attndb reports about contexts, sessions, plans and itself. Plain values.
#ifndef ATTNDB_STATS_H_
#define ATTNDB_STATS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "attndb/export.h"
#include "attndb/types.h"

namespace attndb {

// One segment of a context's chain.
struct SegmentInfo {
  int64_t segment_id = 0;
  uint64_t num_tokens_used = 0;  // Of the segment's tokens, those that this context has.
  uint64_t num_tokens = 0;
  uint64_t file_bytes = 0;
  uint32_t num_contexts = 0;  // That share it.
  std::string damage;         // Empty, or why it is quarantined.
};

struct ContextInfo {
  ContextId id = ContextId::kNone;
  std::string name;  // Empty if unnamed.
  uint64_t num_tokens = 0;
  uint64_t kv_bytes = 0;        // K and V of its tokens.
  uint64_t file_bytes = 0;      // Of all its segments, shared ones counted in full.
  uint64_t own_bytes = 0;       // Of the segments that no other context uses.
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

// How one layer was, or would be, attended to.
struct LayerExplain {
  LayerId layer = 0;
  std::string plan;               // Canonical plan text of this layer.
  std::string reason;             // Why something else than the plan runs; empty if it does not.
  uint64_t num_tokens = 0;        // Visible to the newest token.
  uint64_t num_middle = 0;        // Neither sink, nor window, nor tail.
  double predicted_selected = 0;  // Critical tokens per q head; -1 = unknown before a run.
  uint64_t predicted_bytes = 0;   // K and V bytes read per token of q.
  // Measured over the session so far; zero before the first Attend.
  uint64_t num_queries = 0;    // Rows of q.
  double selected_mean = 0;    // Critical tokens per row and q head.
  double candidates_mean = 0;  // Tokens that estimates brought up to be scored exactly; same unit.
  uint64_t bytes_touched = 0;  // By the last Attend, all heads.
  double score_us = 0;         // Last Attend, summed over threads: scoring,
  double select_us = 0;        // ... choosing,
  double attend_us = 0;        // ... attending and merging,
  double append_us = 0;        // ... and the last Append.
};

struct ATTNDB_EXPORT Explain {
  std::string plan;  // Canonical plan text of the session.
  uint64_t num_tokens = 0;
  uint64_t num_reused = 0;
  uint64_t num_segments = 0;
  uint64_t memory_bytes = 0;  // The session's tail and the segments it holds in memory.
  std::vector<LayerExplain> layers;

  std::string ToText() const;  // A table; neighbouring layers that agree are folded.
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
  uint64_t num_tokens = 0;    // Sum over segments: shared ones once.
  uint64_t file_bytes = 0;    // Of the tenant's segments.
  uint64_t quota_bytes = 0;   // 0 = none.
  uint64_t memory_bytes = 0;  // Segment data held in memory, all tenants.
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

  std::string ToJson() const;
};

}  // namespace attndb

#endif  // ATTNDB_STATS_H_
