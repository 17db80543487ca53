// Placement's record of a conversation: a plain value, the same for a server, the tiers and the
// simulator.
//
// Units:   seconds of the caller's clock, which may begin anywhere and never goes back; bytes of K
//          and V.
// Threads: values.
// Source:  AttentionStore (arXiv:2403.19708) 3.3: all KV of a conversation is one item, the
//          smallest thing that is evicted or fetched.
#ifndef ATTNDB_STORAGE_TIER_ITEM_H_
#define ATTNDB_STORAGE_TIER_ITEM_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace attndb::tier {

enum class ItemId : uint64_t {};
enum class SegmentId : uint64_t {};  // KV of a common prefix, which several items share.

enum class Tier : uint8_t { kNone, kDisk, kMemory };  // Slower ones first.
inline constexpr size_t kNumTiers = 3;

inline constexpr double kNever = std::numeric_limits<double>::infinity();

struct Item {
  ItemId id{};
  Tier tier = Tier::kNone;
  bool pinned = false;       // Is neither evicted nor expired.
  bool in_transfer = false;  // On its way into its tier; stays there until it has arrived.
  bool queued = false;       // A job of the conversation waits.
  uint32_t num_turns = 0;    // Turns that were saved.
  uint64_t bytes = 0;        // Its own bytes, without shared ones.
  double place = 0;          // Position of its job, if queued: smaller ones are served first.
  double last_use = 0;       // End of the last turn.
  double first_save = kNever;
  double next_use = kNever;  // When its next job comes, where a caller knows; else kNever.
};

// A step that the caller carries out, in the order of the list: bytes that change tiers, or are
// dropped (to kNone). Bytes of shared segments go with the last item that needs them where it was.
struct Move {
  ItemId item{};
  Tier from = Tier::kNone;
  Tier to = Tier::kNone;
  uint64_t bytes = 0;
  friend bool operator==(const Move&, const Move&) = default;
};
using Moves = std::vector<Move>;

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_ITEM_H_
