// Placement policies: the worth of an item to its tier. The item of least worth is evicted; of
// equals, the one with the lower id.
//
//   Result<Policy> policy = ParsePolicy("attention_store(ttl=3600)");
//   Worth(*policy, item, outlook) < Worth(*policy, other, outlook)   // item goes first
//
// Policies: lru: by the end of the last turn. fifo: by the first save; later saves do not count.
//           attention_store: idle conversations go first, the longest idle first; then those in the
//           queue, from its tail. That is AttentionStore's eviction window, continued to the end of
//           the queue: items in the window are exempt as long as there are others. (With LRU beyond
//           the window, hit rates differ from the paper's: docs/tiers.md.) attndb: a forecast of
//           returns, divided by the time until then. belady: the same with certain knowledge
//           (Item::next_use). none: nothing is kept.
// Keys:     policy.h's fields, by name: "attndb(cut=0,bytes=1)".
// Errors:   kInvalidArgument names the text, what was expected and what was found.
// Threads:  pure functions.
// Source:   AttentionStore (arXiv:2403.19708) 3.3; Belady 1966, doi:10.1147/sj.52.0078.
#ifndef ATTNDB_STORAGE_TIER_POLICY_H_
#define ATTNDB_STORAGE_TIER_POLICY_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "storage/tier/item.h"
#include "storage/tier/return_forecast.h"

namespace attndb::tier {

enum class Order : uint8_t { kNone, kLru, kFifo, kAttentionStore, kAttndb, kBelady };

struct Policy {
  Order order = Order::kAttndb;
  // `cut`: a conversation that fills the window is saved without the half that its next turn drops.
  bool cut_at_save = false;
  // `bytes`: worth is divided by bytes to this power; for attndb and belady, outside of memory.
  double byte_weight = 0;
  // `prefer`: seconds by which a returning conversation may overtake new ones.
  double prefer_seconds = 0;
  double ttl_seconds = kNever;  // `ttl`: since the last access; waiting in the queue is no access.
  double free_share = 0.1;      // `free`: share of memory that is kept free for saves.

  bool prefetches() const { return order >= Order::kAttentionStore; }
};

// "lru", "fifo(ttl=3600)"... What is not named has the default of the policy: cut=1 for attndb.
Result<Policy> ParsePolicy(std::string_view text);
// The shortest text that ParsePolicy makes the policy of.
std::string PolicyText(const Policy& policy);

// The inputs of worth besides the item.
struct Outlook {
  double now = 0;
  bool sizes_count = false;  // Whether byte_weight applies: not in memory above a disk.
  // The queue: places of its first and last job, jobs, and seconds from one's start to the next's.
  double head_place = 0;
  double tail_place = 0;
  double num_queued = 0;
  double seconds_per_job = 0;
  const ReturnForecast* forecast = nullptr;  // For attndb; not owned.
};

struct ItemWorth {
  bool queued = false;  // Counts first.
  double value = 0;
  friend auto operator<=>(const ItemWorth&, const ItemWorth&) = default;
};

ItemWorth Worth(const Policy& policy, const Item& item, const Outlook& outlook);

// Seconds until a job of that place is served, as far as the queue tells; behind its tail the whole
// queue comes first.
double QueueWait(const Outlook& outlook, double place);

// The queue position of a job that comes at `now`. A returning conversation's job overtakes only
// jobs of new conversations that came less than prefer_seconds before it.
double PlaceOf(const Policy& policy, bool returning, double now);

// The number of jobs whose items are prefetched into memory: C_mem / S_kv, without the memory that
// is kept free ([AS] 3.3.1). 0 if nothing is stored.
uint64_t PrefetchWindow(const Policy& policy, uint64_t memory_bytes, double mean_item_bytes);

// The tokens that are saved of a conversation with num_tokens tokens. The model's window holds
// `window`; the turn after a full window drops half of it ([AS] 4.1).
uint64_t SavedTokens(const Policy& policy, uint64_t num_tokens, uint64_t window);

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_POLICY_H_
