// Reports about contexts, sessions, plans and the store. Plain values.
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

// A file on disk that is derived from a segment: planes or an index.
struct CompanionInfo {
  std::string kind;
  uint64_t file_bytes = 0;
};

// One segment of a context's chain.
struct SegmentInfo {
  int64_t segment_id = 0;        // 1, 2, ... among the tenant's segments; never used twice.
  uint64_t num_tokens_used = 0;  // Tokens of the segment that this context uses.
  uint64_t num_tokens = 0;
  uint64_t file_bytes = 0;
  uint32_t num_contexts = 0;  // Contexts that share the segment.
  // Empty, or the reason of the quarantine and the number of first tokens that are still sound.
  std::string damage;
  std::vector<CompanionInfo> companions;
};

// The needs of a Store that has room: DB::CheckRoom.
struct RoomReport {
  uint64_t num_reused = 0;  // Tokens that are stored already and need not be run.
  uint64_t new_bytes = 0;   // Bytes on disk of the other tokens, without derived objects.
  // Contexts that would be evicted, by name or "#id", the longest unused first.
  std::vector<std::string> evicted;
};

struct ATTNDB_EXPORT ContextInfo {
  ContextId id = ContextId::kNone;
  std::string name;   // Empty if unnamed.
  std::string title;  // StoreOptions::title. Empty if it has none.
  // The context that this one continues: a Store continued all of that context's tokens, and all of
  // them are in this context. kNone: there is none. If a context is dropped, the contexts that
  // continue it continue its own predecessor instead. If a context grows, earlier continuations no
  // longer continue it.
  ContextId continues = ContextId::kNone;
  uint64_t num_tokens = 0;
  uint64_t kv_bytes = 0;  // K and V of its tokens.
  // Bytes of all its segments, shared ones counted in full, of their companions, and of its note.
  uint64_t file_bytes = 0;
  uint64_t own_bytes = 0;        // Bytes of its note, and of the segments that it alone uses.
  uint64_t companion_bytes = 0;  // Bytes of companions, a part of file_bytes.
  std::map<std::string, uint64_t> derived_bytes;  // companion_bytes, by CompanionInfo::kind.
  // Segments that lack planes, or an index that DBOptions::index names.
  uint64_t num_pending_companions = 0;
  // Bytes of tokens in its segments that no context uses (until Compact).
  uint64_t retained_bytes = 0;
  uint64_t query_sample_bytes = 0;
  int64_t created_us = 0;  // Microseconds since the Unix epoch.
  int64_t last_access_us = 0;
  std::optional<int64_t> ttl_seconds;
  bool pinned = false;
  // The time to live had ended at the time of the read. The context is not served, and the next
  // write removes it.
  bool expired = false;
  bool damaged = false;    // The context needs damaged tokens of a segment. It is not served.
  TextLayout text_layout;  // StoreOptions::text_layout. Filled by Describe only.
  int64_t first_position = 0;
  DType kv_dtype = DType::kFloat16;
  bool unrotated_keys = false;  // ModelSpec::unrotated_keys.
  std::string fingerprint;
  // ModelSpec::source of the tenant's last session that stored with the model; "" = not known.
  std::string model_name;
  std::string model_path;
  uint32_t num_layers = 0;
  std::string rope_scaling;  // Rope::scaling of its first layer that has one; "" = none.
  std::vector<std::string> non_finite_heads;  // "layer 3 head 1" where K or V has NaN or Inf.
  // The cuts of the context (Session::DropOldest), and how many of num_tokens they dropped. Filled
  // by Describe only.
  std::vector<Cut> cuts;
  uint64_t num_dropped = 0;
  std::vector<SegmentInfo> segments;  // Oldest first. Filled by Describe only.

  // One JSON object with these names; absent values are null.
  std::string ToJson() const;
};

// The result of DB::Build, counted in segments of the context.
struct BuildReport {
  std::string kind;            // Kind of the companions, as in CompanionInfo.
  uint64_t num_built = 0;      // Built by this call, or meanwhile by another call.
  uint64_t num_present = 0;    // Present before the call.
  uint64_t num_too_short = 0;  // Too short to have one: their keys are read instead.
  uint64_t num_missing = 0;    // Still without one: damaged, or no room on disk.
  uint64_t file_bytes = 0;     // Bytes of the companions that exist now.
  // Seconds that the caller waited, by the monotonic clock: for these builds and for earlier
  // background work. Several threads together work longer than that. Near 0 if nothing was left to
  // build.
  double seconds = 0;
};

// One of several contexts in a session: DB::CreateSessionOver.
struct SessionContext {
  ContextId id = ContextId::kNone;
  std::string name;   // Its name, or "#id".
  TokenRange tokens;  // Tokens of the session that the context adds to earlier ones; may be empty.
  // Index in the context of the token at tokens.begin. The session shares earlier tokens with an
  // earlier context.
  uint64_t first_token = 0;
};

// The tokens between sink and window that a search selected for one q head, in no order. Empty if
// the head attends to all tokens: a short context, NaN or Inf in K or V.
struct CriticalTokens {
  std::vector<uint32_t> tokens;
  std::vector<float> scores;  // q . k, unscaled, exact.
};

// A part of the plan that did not run, or not for all tokens. Examples: an index that is not built,
// or a query that a rule replaced by reading everything.
struct ATTNDB_EXPORT Substitute {
  std::string ran;      // The part that ran instead, in words of the plan: "index=flat", "full".
  std::string wanted;   // The part that the plan asks for: "index=graph", "bits=8", "topk".
  std::string because;  // The reason: "not built", "too few tokens: one segment needs 2,048".
  // Share of the calls' choices that it concerns (tokens times rows times kv heads); in (0, 1].
  double share = 0;

  // "index=flat instead of index=graph for 40 %: not built".
  std::string ToText() const;
};

// The physical plan of one kv head of a layer.
struct HeadExplain {
  uint32_t kv_head = 0;
  std::string plan;    // Plan text of the head; all values that `auto` leaves open are settled.
  std::string ran;     // See LayerExplain::ran.
  std::string reason;  // The rule or the costs that decided; empty if the plan asked for it.
  double predicted_selected = -1;  // Critical tokens per q head; -1 = unknown before a run.
  uint64_t predicted_bytes = 0;    // K and V bytes read per row of q.
  double predicted_us = 0;         // Microseconds per row of q, of one thread.
  double other_us = -1;            // Predicted for the rejected alternative; -1 = there was none.
  // Measured over the session so far.
  double selected_mean = 0;    // Critical tokens per row and q head.
  uint64_t bytes_touched = 0;  // K and V bytes that the last Attend read.
  double time_us = 0;          // Time of the last Attend, summed over threads.
  // Work of an index that does not score every key. visited_mean: keys that were scored, per row
  // and q head. For the whole group, per row: clusters or blocks whose keys were read
  // (clusters_mean), and reads that waited for another read (hops_mean).
  double visited_mean = 0;
  double clusters_mean = 0;
  double hops_mean = 0;
  uint64_t num_full_scans = 0;  // Searches of the group that scored every key instead.
  // A draw in two phases serves the whole group. It weighs tokens by codes, reads the keys of some
  // of these, and reads the values of some of the latter. The three numbers are means per row.
  double weighed_mean = 0;
  double drawn_keys_mean = 0;
  double drawn_values_mean = 0;
  // If an index draws: estimated share of the attention mass in blocks that it never looked at,
  // from blocks that were scored only to check; a mean. -1 = not estimated.
  double missed_mass = -1;
  double error = -1;  // Estimated relative error of the output, a mean; -1 = not estimated.
  // Estimated share of the attention mass that was not selected; -1 = unknown.
  double mass_left = -1;
  // If the plan has exact_fallback: hard upper bounds of mass_left, and of |out - out of full|.
  // Means over rows and q heads; those that fell back count 0. -1 = no bounds.
  double mass_bound = -1;
  double out_bound = -1;
  // num_fallbacks counts pairs of row and q head that attended to all tokens, because their bound
  // or their draw's estimated error was too large. It also counts pairs that scored all tokens
  // exactly, because a mass by estimates might have missed its share. num_redraws counts draws that
  // the group repeated with a larger sample.
  uint64_t num_fallbacks = 0;
  uint64_t num_redraws = 0;
  // Bounds for the newest row of the last Attend, by q head of the group.
  std::vector<double> last_mass_bounds;
  std::vector<double> last_out_bounds;
};

// The physical plan of one layer.
struct LayerExplain {
  LayerId layer = 0;
  std::string plan;  // Canonical plan text of this layer.
  // Plan text of the parts that ran since the plan was set; before the first call, of the parts
  // that would run. It is `plan` with all values settled; a substitute stands for each part that
  // never ran.
  std::string ran;
  // The parts of the plan that did not run, or not for all tokens. Empty: all ran as planned. Calls
  // of more than dense_query_tokens rows are exact under every plan, and are not counted.
  std::vector<Substitute> substitutes;
  std::string reason;       // Why another plan runs than the one asked for; empty if the plan runs.
  uint64_t num_tokens = 0;  // Visible to the newest token.
  uint64_t num_middle = 0;  // In neither sink, window nor exact tail.
  double predicted_selected = 0;  // Critical tokens per q head; -1 = unknown before a run.
  uint64_t predicted_bytes = 0;   // K and V bytes read per token of q.
  double predicted_us = 0;        // Per token of q, all heads, by the threads of the session.
  std::string notes;              // Findings of the rules, such as partial reuse.
  // Measured over the session so far; zero before the first Attend.
  uint64_t num_queries = 0;  // Rows of q.
  double selected_mean = 0;  // Critical tokens per row and q head.
  // Tokens that estimates chose to be scored exactly, per row and q head.
  double candidates_mean = 0;
  uint64_t bytes_touched = 0;  // K and V bytes that the last Attend read, all heads.
  double score_us = 0;         // Time in the last Attend, summed over threads: scoring.
  double select_us = 0;        // Selecting, in the same unit.
  double attend_us = 0;        // Attending and merging, in the same unit.
  double append_us = 0;        // Time of the last Append.
  std::vector<HeadExplain> heads;
};

struct ATTNDB_EXPORT Explain {
  std::string plan;  // Canonical plan text of the session.
  uint64_t num_tokens = 0;
  uint64_t num_reused = 0;
  // num_dropped counts tokens that have left (Session::DropOldest). num_moved counts tokens that
  // stay in front of a gap; their rows are read exactly, with q rotated for them. num_tokens
  // includes both.
  uint64_t num_dropped = 0;
  uint64_t num_moved = 0;
  uint64_t num_segments = 0;
  uint64_t memory_bytes = 0;  // The session's tail, and its segments' layers that are in memory.
  // K and V of its tokens in all layers: the bytes that `full` reads per row.
  uint64_t kv_bytes = 0;
  double predicted_us = 0;  // Microseconds of attention of one token in all layers.
  // With auto(tpot=...): the error that the plan keeps, and whether even that takes longer than the
  // given time. 0 and false with other plans.
  double tpot_error = 0;
  bool unreachable = false;
  std::vector<SessionContext> contexts;  // See Session::contexts.
  std::vector<LayerExplain> layers;

  // The parts of the plan that did not run, over all layers. Equal substitutes of several layers
  // are one, with the share of all layers. The largest share comes first.
  std::vector<Substitute> Substitutes() const;
  // Five to eight lines: what is read, how long it takes, and which parts did not run as planned.
  std::string Summary() const;
  // Tables of layers and of heads; equal neighbours share a line.
  std::string ToText() const;
  std::string ToJson() const;
};

// Why a prompt's prefix was or was not reused.
struct ATTNDB_EXPORT PrefixExplain {
  uint64_t num_prompt_tokens = 0;
  uint64_t num_reused = 0;  // Tokens that CreateSession would reuse.
  std::string context;      // The context that they would be reused from: its name, or "#id".
  // In words: "all of the prompt is stored; one token is left for the engine", "context 'b' agrees
  // for 17 tokens, then has token 5 where the prompt has 9", "2 contexts of another model" ...
  std::vector<std::string> reasons;

  std::string ToText() const;
  std::string ToJson() const;
};

// The times of this machine that plans are priced by: nanoseconds of one thread for rows of 128
// elements of 16 bits. Lists have one entry each for 1, 2, 4 and 8 q rows in one pass.
struct ATTNDB_EXPORT MachineProfile {
  std::string cpu;
  std::string isa;
  uint32_t num_threads = 0;
  bool measured = false;                // False: fixed prices, which belong to no machine.
  double one_thread_bytes_per_ns = 0;   // Memory read by one thread, in GB/s.
  double all_threads_bytes_per_ns = 0;  // Memory read by all threads together, in GB/s.
  std::vector<double> attend_ns;        // Attending to K and V of a token.
  std::vector<double> score_ns;         // Scoring K of a token.
  std::vector<double> scan8_ns;         // Scoring a key by its planes at 8 bits.
  std::vector<double> scan4_ns;         // Scoring a key by its planes at 4 bits.
  double select_ns = 0;                 // Comparing a token's score, for one q head.
  double row_ns = 0;                    // Reading a row at a random place, for one q head.
  double hop_ns = 0;                    // Reading a row whose place the previous read gave.

  std::string ToJson() const;
};

// One finding of Verify.
struct Damage {
  int64_t segment_id = 0;  // SegmentInfo::segment_id; 0 = of no segment.
  // Path relative to the store, for people who have access to the folder. File names count the
  // whole store's segments, not the tenant's; `message` may contain the file name too.
  std::string file;
  std::string message;                // Names the object, what was expected and what was found.
  std::vector<std::string> contexts;  // Labels of the contexts that the damage makes unusable.
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
  // Counts for the tenant, unless a comment says otherwise.
  uint64_t num_contexts = 0;
  uint64_t num_segments = 0;
  uint64_t num_tokens = 0;  // Sum over segments: shared ones count once.
  uint64_t file_bytes = 0;  // Segments, their companions, and the notes of contexts.
  uint64_t num_companions = 0;
  uint64_t companion_bytes = 0;  // A part of file_bytes.
  // Segments that lack planes, or an index that DBOptions::index names.
  uint64_t num_pending_companions = 0;
  uint64_t quota_bytes = 0;  // 0 = none.
  // Bytes in memory for all tenants: K and V, derived objects, sampled q, and scratch. 0 for
  // handles of tenants.
  uint64_t memory_bytes = 0;
  uint64_t memory_limit_bytes = 0;
  uint64_t num_sessions = 0;  // Sessions open in this process.
  uint64_t num_damaged_segments = 0;
  // Counted since the open. The owner's handle (db.h) counts all tenants.
  uint64_t num_lookups = 0;
  uint64_t num_prompt_tokens = 0;
  uint64_t num_reused_tokens = 0;
  uint64_t num_stores = 0;
  uint64_t num_evictions = 0;
  // Names or "#id" of this handle's tenant's contexts that were evicted since the open, in the
  // order of eviction: the newest 64.
  std::vector<std::string> evicted;
  uint64_t bytes_written = 0;         // Segments that Store and Import sealed.
  uint64_t bytes_merged = 0;          // Segments that merges wrote again.
  uint64_t num_companions_built = 0;  // By background work.
  double background_seconds = 0;      // For all tenants. 0 for handles of tenants.

  std::string ToJson() const;
};

}  // namespace attndb

#endif  // ATTNDB_STATS_H_
