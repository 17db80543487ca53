// Where each conversation's KV lies: in memory, on disk or nowhere. Told what happens (a job comes,
// is served, its KV is saved) it decides what moves; whoever calls it moves the bytes.
//
//   placement.Enqueue(id, now);                      // a job of the conversation waits
//   Found found = placement.Take(id, now, &moves);   // it is served: where its KV was
//   placement.Prefetch(now, &moves);                 // for those who wait
//   placement.Save(id, bytes, now, &moves);          // the turn has ended
//
// State:   plain values and no I/O, clock or chance: the same calls decide the same, in a server
//          and in a simulation.
// Rules:   - KV in service belongs to the engine, and to no tier: a copy that stayed would cost a
//            place until it is outdated anyhow.
//          - What is saved comes into memory, into the part that is kept free; then what is worth
//            least is evicted until so much is free again. That may be what was just saved.
//          - What memory evicts competes with what is on disk for its place there.
//          - A fetch never evicts what is worth more than what it fetches.
//          - Between Move and Arrived an item that is fetched stays; so do pinned ones.
//          - Shared segments count once, and lie in the fastest tier of their items.
// Cost:    Save, Prefetch and Expire look at each item of a tier for each that they evict from it.
// Threads: thread-compatible.
// Source:  AttentionStore (arXiv:2403.19708) 3.3. Ours differs in that the eviction window has no
//          end (policy.h).
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

// What a job found of its conversation.
struct Found {
  Tier tier = Tier::kNone;   // From which the KV comes.
  bool in_transfer = false;  // It was on its way from disk to memory: tier is kDisk.
  uint64_t bytes = 0;        // With what it shares.
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
  // Fetches from disk what the first jobs of the queue need.
  void Prefetch(double now, Moves* moves);
  // A fetch that a Move asked for has ended. Nothing happens if the item has left since.
  void Arrived(ItemId id);
  // Drops what was not used for longer than the policy's ttl.
  void Expire(double now, Moves* moves);

  void SetPinned(ItemId id, bool pinned);
  // When the next job comes, where a caller knows it; kNever: it does not, or there is none.
  void SetNextUse(ItemId id, double when);
  // The item needs the segment, of so many bytes, as long as it is stored.
  // REQUIRES: the item is in no tier; a segment has one size.
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

  // Puts the item into a tier, whatever fits; counts its bytes and those of what it shares.
  void Put(Record* record, Tier tier);
  void Count(const Record& record, Tier tier, bool there);
  // What would be added to a tier's bytes by putting the item there.
  uint64_t BytesToAdd(const Record& record, Tier tier) const;
  uint64_t BytesOf(const Record& record) const;

  Outlook OutlookOf(Tier tier, double now) const;
  Record* Victim(Tier tier, const Outlook& outlook) const;
  bool IsWorthLess(const Record& a, const Record& b, const Outlook& outlook) const;
  // Evicts from memory until its bytes are within `limit_bytes`, with those that `incoming` (may be
  // null) would add; with `lesser_only` nothing that is worth more than that. False if that can't
  // be.
  bool MakeRoom(const Record* incoming, uint64_t limit_bytes, bool lesser_only, double now,
                Moves* moves);
  // Puts what has left `from`, or came from the engine, on disk, or drops it.
  void Demote(Record* record, Tier from, double now, Moves* moves);
  void Drop(Record* record, Moves* moves);
  void FitDisk(double now, Moves* moves);
  void CountGone(double now);

  const Policy policy_;
  const Capacity capacity_;
  const uint64_t memory_target_bytes_;  // Memory but what is kept free.
  std::unordered_map<ItemId, Record> records_;
  std::unordered_map<SegmentId, Segment> segments_;
  std::array<Shelf, kNumTiers> shelves_;
  std::array<uint64_t, kNumTiers> used_bytes_{};
  std::set<std::pair<double, ItemId>> queue_;
  std::deque<Idle> idle_;  // Who ended a turn and has not been counted as gone, oldest first.
  ReturnForecast forecast_;
  double last_take_ = 0;
  bool others_waited_ = false;  // At the last Take.
  double seconds_per_job_ = 0;
};

}  // namespace attndb::tier

#endif  // ATTNDB_STORAGE_TIER_PLACEMENT_H_
