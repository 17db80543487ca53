// Facts about a chain that need no rows: lengths, ready derived objects of its segments, heads with
// NaN or Inf.
//
// Threads: values. The spans belong to the caller, and must outlive the question.
#ifndef ATTNDB_PLANNER_FACTS_H_
#define ATTNDB_PLANNER_FACTS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace attndb::planner {

// `auto` reads up to this many tokens whole and prices nothing: that takes microseconds.
inline constexpr uint64_t kShortContextTokens = 1024;

// One run of a chain: the tokens of a segment, or of the tail.
struct RunFacts {
  uint64_t num_tokens = 0;       // Visible tokens of the run.
  bool may_have_planes = false;  // It is long enough for key planes.
  bool has_planes = false;       // Its key planes are ready.
};

struct ChainFacts {
  uint64_t num_tokens = 0;  // Visible to the newest row.
  // Visible tokens in sealed segments; the other visible ones are the tail's.
  uint64_t num_stored_seen = 0;
  uint64_t num_stored = 0;    // Tokens in sealed segments, including those that a filter hides.
  uint64_t num_hidden = 0;    // Tokens of its segments beyond the reused prefix.
  uint64_t num_filtered = 0;  // Tokens before the newest that a filter hides.
  std::span<const RunFacts> runs;       // Their tokens add up to num_tokens.
  std::span<const uint8_t> non_finite;  // [num_kv_heads]: not 0 where K or V has NaN or Inf.
  uint64_t kv_bytes = 0;                // Bytes of K and V in all layers.
  uint64_t memory_bytes = 0;  // The part of kv_bytes that the store and its sessions may hold.

  bool IsFinite(uint32_t kv_head) const { return non_finite.empty() || non_finite[kv_head] == 0; }
};

}  // namespace attndb::planner

#endif  // ATTNDB_PLANNER_FACTS_H_
