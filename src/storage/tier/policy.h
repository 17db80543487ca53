// Placement policies: what an item is worth to the tier that it lies in. The one that is worth
// least is evicted; of equals the one with the lower id.
//
//   Result<Policy> policy = ParsePolicy("attention_store(ttl=3600)");
//   Worth(*policy, item, outlook) < Worth(*policy, other, outlook)   // item goes first
//
// Policies: lru: by the end of the last turn. fifo: by the first save, which later ones leave as it
//          is. attention_store: idle conversations go first, those idle for longest before others;
//          then those in the queue, from its tail. That is AttentionStore's eviction window, whose
//          items are exempt as long as there is another, continued to the end of the queue (with
//          LRU beyond the window hit rates are not the paper's: docs/tiers.md). attndb: a forecast
//          of who returns and when, over the time until then. belady: the same of what is known for
//          certain (Item::next_use). none: nothing is kept.
// Keys:    policy.h's fields, by name: "attndb(cut=0,bytes=1)".
// Errors:  kInvalidArgument names the text, what was expected and what was found.
// Threads: pure functions.
// Source:  AttentionStore (arXiv:2403.19708) 3.3; Belady 1966, doi:10.1147/sj.52.0078.
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
  // `cut`: a conversation at the window's end is saved without what its next turn must drop.
  bool cut_at_save = false;
  // `bytes`: worth is divided by bytes to this power; of attndb and belady, outside of memory.
  double byte_weight = 0;
  // `prefer`: seconds by which a returning conversation may overtake those that begin.
  double prefer_seconds = 0;
  double ttl_seconds = kNever;  // `ttl`: since the last access; waiting in the queue is none.
  double free_share = 0.1;      // `free`: share of memory that is kept free for what comes.

  bool prefetches() const { return order >= Order::kAttentionStore; }
};

// "lru", "fifo(ttl=3600)"... What is not named has the default of the policy: cut=1 for attndb.
Result<Policy> ParsePolicy(std::string_view text);
// The shortest text that ParsePolicy makes the policy of.
std::string PolicyText(const Policy& policy);

// What worth depends on beside the item.
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

// Where a job stands that comes at `now`. A returning conversation's overtakes those of new
// conversations that came less than prefer_seconds before it, and no others.
double PlaceOf(const Policy& policy, bool returning, double now);

// Jobs whose items are fetched into memory ahead: C_mem / S_kv, without what is kept free ([AS]
// 3.3.1). 0 where nothing is stored.
uint64_t PrefetchWindow(const Policy& policy, uint64_t memory_bytes, double mean_item_bytes);

// Tokens that are saved of a conversation that has so many, where the model's window holds
// `window` and half of them are dropped by the next turn of one that has reached it ([AS] 4.1).
uint64_t SavedTokens(const Policy& policy, uint64_t num_tokens, uint64_t window);

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_POLICY_H_
