// Decides where each conversation's KV lies: in memory, on disk or nowhere. It is told about events
// (a job comes, is served, its KV is saved) and decides the moves; the caller moves the bytes.
//
//   placement.Enqueue(id, now);                      // A job of the conversation waits.
//   Found found = placement.Take(id, now, &moves);   // The job is served: where was its KV?
//   placement.Prefetch(now, &moves);                 // For waiting jobs.
//   placement.Save(id, bytes, now, &moves);          // The turn has ended.
//
// State:   plain values and no I/O, clock or chance: equal calls decide equally, in a server and in
//          a simulation.
// Rules:   - KV in service belongs to the engine, and to no tier: a copy in a tier would take space
//          until it is outdated.
//          - Saved KV goes into the part of memory that is kept free. Then the items of least worth
//            are evicted until as much is free again, perhaps the saved item itself.
//          - Items that memory evicts compete with the items on disk for space there.
//          - A fetch never evicts an item that is worth more than the fetched one.
//          - An item stays while it is fetched, between Move and Arrived. So do pinned items.
//          - Shared segments count once, and lie in the fastest tier of their items.
// Cost:    Save, Prefetch and Expire visit each item of a tier for each item that they evict from
//          it.
// Threads: thread-compatible.
// Source:  AttentionStore (arXiv:2403.19708) 3.3. Ours differs: the eviction window has no end
//          (policy.h).
#ifndef ATTNDB_STORAGE_TIER_PLACEMENT_H_
#define ATTNDB_STORAGE_TIER_PLACEMENT_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/tier/item.h"
#include "storage/tier/policy.h"
#include "storage/tier/return_forecast.h"

namespace attndb::tier {

struct Capacity {
  uint64_t memory_bytes = 0;
  uint64_t disk_bytes = 0;
};

// The KV that a job found of its conversation.
struct Found {
  Tier tier = Tier::kNone;   // The tier that the KV comes from.
  bool in_transfer = false;  // It was being moved from disk to memory: tier is kDisk.
  uint64_t bytes = 0;        // Including shared bytes.
};

class Placement {
 public:
  Placement(const Policy& policy, const Capacity& capacity);

  // A job of the conversation waits from `now` on. REQUIRES: none does, and none is in service.
  void Enqueue(ItemId id, double now);
  // The job that is next in the queue, if there is one.
  std::optional<ItemId> Next() const;
  // The job is served: it leaves the queue, and its KV its tier. REQUIRES: it waits.
  Found Take(ItemId id, double now, Moves* moves);
  // Keeps `bytes` of KV after a turn; 0: there is nothing to keep.
  // REQUIRES: Take since the last Save.
  void Save(ItemId id, uint64_t bytes, double now, Moves* moves);
  // Fetches the items of the queue's first jobs from disk.
  void Prefetch(double now, Moves* moves);
  // A requested fetch has ended. Does nothing if the item has left since.
  void Arrived(ItemId id);
  // Drops items that were unused for longer than the policy's ttl.
  void Expire(double now, Moves* moves);

  void SetPinned(ItemId id, bool pinned);
  // The time of the next job, if the caller knows it; kNever: unknown, or there is none.
  void SetNextUse(ItemId id, double when);
  // The item needs the segment, of `bytes` bytes, as long as the item is stored. REQUIRES: the item
  // is in no tier; a segment has one size.
  void Share(ItemId id, SegmentId segment, uint64_t bytes);
  // The conversation is over: its KV is dropped, and it is known no more. REQUIRES: no job waits.
  void Forget(ItemId id, double now, Moves* moves);

  // Null for an unknown conversation. Valid until the next call.
  const Item* Find(ItemId id) const;
  Tier TierOf(SegmentId segment) const;
  uint64_t used_bytes(Tier tier) const { return used_bytes_[static_cast<size_t>(tier)]; }
  size_t num_items(Tier tier) const { return shelf(tier).size(); }
  size_t num_queued() const { return queue_.size(); }
  // S_kv: bytes of a stored item in the mean; 0 if nothing is stored.
  double mean_item_bytes() const;
  const ReturnForecast& forecast() const { return forecast_; }

 private:
  struct Record {
    Item item;
    size_t shelf_idx = 0;
    bool in_service = false;
    bool gone = false;  // Counted by ReturnForecast::AddGone.
    std::vector<SegmentId> shared;
  };
  struct Segment {
    uint64_t bytes = 0;
    std::array<uint32_t, kNumTiers> num_items{};  // Its items, by tier.
    Tier tier() const;
  };
  struct Idle {
    double since = 0;
    ItemId id{};
  };
  using Shelf = std::vector<Record*>;

  Shelf& shelf(Tier tier) { return shelves_[static_cast<size_t>(tier)]; }
  const Shelf& shelf(Tier tier) const { return shelves_[static_cast<size_t>(tier)]; }
  Record& Known(ItemId id);
  Record& KnownOrNew(ItemId id);

  // Puts the item into a tier without checking its size. Counts its bytes and its shared bytes.
  void Put(Record* record, Tier tier);
  void Count(const Record& record, Tier tier, bool there);
  // The bytes that the item would add to a tier.
  uint64_t BytesToAdd(const Record& record, Tier tier) const;
  uint64_t BytesOf(const Record& record) const;

  Outlook OutlookOf(Tier tier, double now) const;
  Record* Victim(Tier tier, const Outlook& outlook) const;
  bool IsWorthLess(const Record& a, const Record& b, const Outlook& outlook) const;
  // Evicts from memory until its bytes are within `limit_bytes`, including the bytes that
  // `incoming` (may be null) would add. With `lesser_only`, evicts only items that are worth less
  // than `incoming`. Returns false if that does not suffice.
  bool MakeRoom(const Record* incoming, uint64_t limit_bytes, bool lesser_only, double now,
                Moves* moves);
  // Puts an item from the tier `from`, or from the engine, on disk, or drops it.
  void Demote(Record* record, Tier from, double now, Moves* moves);
  void Drop(Record* record, Moves* moves);
  void FitDisk(double now, Moves* moves);
  void CountGone(double now);

  const Policy policy_;
  const Capacity capacity_;
  const uint64_t memory_target_bytes_;  // Memory except the part that is kept free.
  std::unordered_map<ItemId, Record> records_;
  std::unordered_map<SegmentId, Segment> segments_;
  std::array<Shelf, kNumTiers> shelves_;
  std::array<uint64_t, kNumTiers> used_bytes_{};
  std::set<std::pair<double, ItemId>> queue_;
  // Conversations whose turn has ended and that are not counted as gone yet, oldest first.
  std::deque<Idle> idle_;
  ReturnForecast forecast_;
  double last_take_ = 0;
  bool others_waited_ = false;  // At the last Take.
  double seconds_per_job_ = 0;
};

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_PLACEMENT_H_
