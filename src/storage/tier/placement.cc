#include "storage/tier/placement.h"

#include <algorithm>

#include "common/check.h"

namespace attndb::tier {
namespace {

// Weight of the newest interval in the mean time from one job's start to the next's.
constexpr double kNewest = 0.02;

uint64_t TargetBytes(const Policy& policy, const Capacity& capacity) {
  return static_cast<uint64_t>(static_cast<double>(capacity.memory_bytes) *
                               (1.0 - policy.free_share));
}

}  // namespace

Tier Placement::Segment::tier() const {
  for (const Tier tier : {Tier::kMemory, Tier::kDisk}) {
    if (num_items[static_cast<size_t>(tier)] > 0) return tier;
  }
  return Tier::kNone;
}

Placement::Placement(const Policy& policy, const Capacity& capacity)
    : policy_(policy), capacity_(capacity), memory_target_bytes_(TargetBytes(policy, capacity)) {}

Placement::Record& Placement::Known(ItemId id) {
  const auto found = records_.find(id);
  ATTNDB_CHECK(found != records_.end());
  return found->second;
}

Placement::Record& Placement::KnownOrNew(ItemId id) {
  const auto [at, is_new] = records_.try_emplace(id);
  Record& record = at->second;
  if (is_new) {
    record.item.id = id;
    Shelf& none = shelf(Tier::kNone);
    record.shelf_idx = none.size();
    none.push_back(&record);
  }
  return record;
}

const Item* Placement::Find(ItemId id) const {
  const auto found = records_.find(id);
  return found == records_.end() ? nullptr : &found->second.item;
}

Tier Placement::TierOf(SegmentId segment) const {
  const auto found = segments_.find(segment);
  return found == segments_.end() ? Tier::kNone : found->second.tier();
}

double Placement::mean_item_bytes() const {
  const size_t num = num_items(Tier::kMemory) + num_items(Tier::kDisk);
  if (num == 0) return 0;
  const uint64_t bytes = used_bytes(Tier::kMemory) + used_bytes(Tier::kDisk);
  return static_cast<double>(bytes) / static_cast<double>(num);
}

// The queue.

void Placement::Enqueue(ItemId id, double now) {
  Record& record = KnownOrNew(id);
  Item& item = record.item;
  ATTNDB_CHECK(!item.queued && !record.in_service);
  if (item.num_turns > 0) {
    forecast_.AddReturn(item.num_turns, now - item.last_use, record.gone);
    record.gone = false;
  }
  item.queued = true;
  item.place = PlaceOf(policy_, item.num_turns > 0, now);
  queue_.emplace(item.place, id);
}

std::optional<ItemId> Placement::Next() const {
  if (queue_.empty()) return std::nullopt;
  return queue_.begin()->second;
}

Found Placement::Take(ItemId id, double now, Moves* moves) {
  Record& record = Known(id);
  Item& item = record.item;
  ATTNDB_CHECK(item.queued);
  queue_.erase({item.place, id});
  item.queued = false;
  record.in_service = true;
  if (others_waited_) {  // Else the time since the last one was not spent on jobs alone.
    const double interval = now - last_take_;
    seconds_per_job_ += (seconds_per_job_ == 0 ? 1.0 : kNewest) * (interval - seconds_per_job_);
  }
  last_take_ = now;
  others_waited_ = !queue_.empty();
  Found found = {item.tier, item.in_transfer, BytesOf(record)};
  if (found.in_transfer) found.tier = Tier::kDisk;
  item.in_transfer = false;
  Put(&record, Tier::kNone);
  FitDisk(now, moves);
  return found;
}

void Placement::CountGone(double now) {
  const double horizon = forecast_.Horizon();
  for (; !idle_.empty() && now - idle_.front().since > horizon; idle_.pop_front()) {
    const auto found = records_.find(idle_.front().id);
    if (found == records_.end()) continue;
    Record& record = found->second;
    const bool is_back = record.item.queued || record.in_service;
    if (is_back || record.item.last_use != idle_.front().since) continue;
    record.gone = true;
    forecast_.AddGone(record.item.num_turns);
  }
}

// The contents of tiers.

uint64_t Placement::BytesOf(const Record& record) const {
  uint64_t bytes = record.item.bytes;
  for (const SegmentId id : record.shared) bytes += segments_.at(id).bytes;
  return bytes;
}

uint64_t Placement::BytesToAdd(const Record& record, Tier tier) const {
  uint64_t bytes = record.item.bytes;
  for (const SegmentId id : record.shared) {
    const Segment& segment = segments_.at(id);
    if (segment.tier() < tier) bytes += segment.bytes;
  }
  return bytes;
}

void Placement::Count(const Record& record, Tier tier, bool there) {
  if (tier == Tier::kNone) return;
  const auto add = [&](Tier at, uint64_t bytes) {
    if (at != Tier::kNone) used_bytes_[static_cast<size_t>(at)] += bytes;
  };
  const auto take = [&](Tier at, uint64_t bytes) {
    if (at != Tier::kNone) used_bytes_[static_cast<size_t>(at)] -= bytes;
  };
  there ? add(tier, record.item.bytes) : take(tier, record.item.bytes);
  for (const SegmentId id : record.shared) {
    Segment& segment = segments_.at(id);
    take(segment.tier(), segment.bytes);
    uint32_t& num_items = segment.num_items[static_cast<size_t>(tier)];
    there ? ++num_items : --num_items;
    add(segment.tier(), segment.bytes);
  }
}

void Placement::Put(Record* record, Tier tier) {
  Item& item = record->item;
  if (item.tier == tier) return;
  Count(*record, item.tier, false);
  Shelf& old_shelf = shelf(item.tier);
  old_shelf.back()->shelf_idx = record->shelf_idx;
  old_shelf[record->shelf_idx] = old_shelf.back();
  old_shelf.pop_back();
  item.tier = tier;
  record->shelf_idx = shelf(tier).size();
  shelf(tier).push_back(record);
  Count(*record, tier, true);
}

// Evictions.

Outlook Placement::OutlookOf(Tier tier, double now) const {
  Outlook outlook;
  outlook.now = now;
  // Below memory an item is only a read away: in memory, the time of its next use counts, not its
  // size (3 to 4 points of hits in memory).
  outlook.sizes_count = tier == Tier::kDisk || capacity_.disk_bytes == 0;
  if (!queue_.empty()) {
    outlook.head_place = queue_.begin()->first;
    outlook.tail_place = queue_.rbegin()->first;
  }
  outlook.num_queued = static_cast<double>(queue_.size());
  outlook.seconds_per_job = seconds_per_job_;
  outlook.forecast = &forecast_;
  return outlook;
}

bool Placement::IsWorthLess(const Record& a, const Record& b, const Outlook& outlook) const {
  const ItemWorth worth = Worth(policy_, a.item, outlook);
  const ItemWorth other = Worth(policy_, b.item, outlook);
  return worth < other || (worth == other && a.item.id < b.item.id);
}

Placement::Record* Placement::Victim(Tier tier, const Outlook& outlook) const {
  Record* least = nullptr;
  ItemWorth least_worth;
  for (Record* record : shelf(tier)) {
    if (record->item.pinned || record->item.in_transfer) continue;
    const ItemWorth worth = Worth(policy_, record->item, outlook);
    if (least != nullptr && !(worth < least_worth) &&
        !(worth == least_worth && record->item.id < least->item.id)) {
      continue;
    }
    least = record;
    least_worth = worth;
  }
  return least;
}

bool Placement::MakeRoom(const Record* incoming, uint64_t limit_bytes, bool lesser_only, double now,
                         Moves* moves) {
  // An evicted item may take a segment along that `incoming` shares: `incoming` then adds more.
  const auto added = [&] { return incoming == nullptr ? 0 : BytesToAdd(*incoming, Tier::kMemory); };
  const Outlook outlook = OutlookOf(Tier::kMemory, now);
  for (uint64_t need = added(); used_bytes(Tier::kMemory) + need > limit_bytes; need = added()) {
    if (need > limit_bytes) return false;
    Record* const victim = Victim(Tier::kMemory, outlook);
    if (victim == nullptr) return false;
    if (lesser_only && !IsWorthLess(*victim, *incoming, outlook)) return false;
    Demote(victim, Tier::kMemory, now, moves);
  }
  return true;
}

void Placement::Demote(Record* record, Tier from, double now, Moves* moves) {
  const uint64_t disk_before = used_bytes(Tier::kDisk);
  Put(record, Tier::kNone);
  // Shared segments that other items on disk need have come with it.
  const uint64_t shared_bytes = used_bytes(Tier::kDisk) - disk_before;
  const Outlook outlook = OutlookOf(Tier::kDisk, now);
  bool fits = BytesToAdd(*record, Tier::kDisk) <= capacity_.disk_bytes;
  while (fits &&
         used_bytes(Tier::kDisk) + BytesToAdd(*record, Tier::kDisk) > capacity_.disk_bytes) {
    Record* const victim = Victim(Tier::kDisk, outlook);
    fits = victim != nullptr && !IsWorthLess(*record, *victim, outlook);
    if (fits) Drop(victim, moves);
  }
  const uint64_t bytes = BytesToAdd(*record, Tier::kDisk) + shared_bytes;
  if (fits) Put(record, Tier::kDisk);
  moves->push_back({record->item.id, from, record->item.tier, bytes});
  FitDisk(now, moves);
}

// A shared segment that has left memory may lie on disk by other items that are there.
void Placement::FitDisk(double now, Moves* moves) {
  const Outlook outlook = OutlookOf(Tier::kDisk, now);
  while (used_bytes(Tier::kDisk) > capacity_.disk_bytes) {
    Record* const victim = Victim(Tier::kDisk, outlook);
    if (victim == nullptr) return;  // All are pinned or on their way.
    Drop(victim, moves);
  }
}

void Placement::Drop(Record* record, Moves* moves) {
  const Tier from = record->item.tier;
  const uint64_t used_before = used_bytes(Tier::kMemory) + used_bytes(Tier::kDisk);
  Put(record, Tier::kNone);
  record->item.in_transfer = false;
  const uint64_t used_after = used_bytes(Tier::kMemory) + used_bytes(Tier::kDisk);
  moves->push_back({record->item.id, from, Tier::kNone, used_before - used_after});
}

// Events.

void Placement::Save(ItemId id, uint64_t bytes, double now, Moves* moves) {
  Record& record = Known(id);
  ATTNDB_CHECK(record.in_service);
  record.in_service = false;
  Item& item = record.item;
  item.bytes = bytes;
  item.last_use = now;
  item.num_turns += 1;
  idle_.push_back({now, id});
  CountGone(now);
  if (bytes == 0 || policy_.order == Order::kNone) return;
  if (item.first_save == kNever) item.first_save = now;
  if (MakeRoom(&record, capacity_.memory_bytes, false, now, moves)) {
    moves->push_back({id, Tier::kNone, Tier::kMemory, BytesToAdd(record, Tier::kMemory)});
    Put(&record, Tier::kMemory);
    MakeRoom(nullptr, memory_target_bytes_, false, now, moves);
  } else {
    Demote(&record, Tier::kNone, now, moves);
  }
}

void Placement::Prefetch(double now, Moves* moves) {
  uint64_t window = PrefetchWindow(policy_, capacity_.memory_bytes, mean_item_bytes());
  for (auto job = queue_.begin(); job != queue_.end() && window > 0; ++job, --window) {
    Record& record = Known(job->second);
    if (record.item.tier != Tier::kDisk) continue;
    if (!MakeRoom(&record, memory_target_bytes_, true, now, moves)) return;
    if (record.item.tier != Tier::kDisk) continue;  // Dropped, to make room on disk.
    moves->push_back(
        {record.item.id, Tier::kDisk, Tier::kMemory, BytesToAdd(record, Tier::kMemory)});
    Put(&record, Tier::kMemory);
    record.item.in_transfer = true;
  }
}

void Placement::Arrived(ItemId id) {
  const auto found = records_.find(id);
  if (found != records_.end()) found->second.item.in_transfer = false;
}

void Placement::Expire(double now, Moves* moves) {
  if (policy_.ttl_seconds == kNever) return;
  for (const Tier tier : {Tier::kMemory, Tier::kDisk}) {
    for (size_t i = shelf(tier).size(); i-- > 0;) {  // Drop puts the last one in its place.
      Record* const record = shelf(tier)[i];
      const Item& item = record->item;
      if (item.pinned || item.in_transfer || now - item.last_use <= policy_.ttl_seconds) continue;
      Drop(record, moves);
    }
  }
  FitDisk(now, moves);
}

void Placement::SetPinned(ItemId id, bool pinned) { KnownOrNew(id).item.pinned = pinned; }

void Placement::SetNextUse(ItemId id, double when) { KnownOrNew(id).item.next_use = when; }

void Placement::Share(ItemId id, SegmentId segment, uint64_t bytes) {
  Record& record = KnownOrNew(id);
  ATTNDB_CHECK(record.item.tier == Tier::kNone);
  const auto [at, is_new] = segments_.try_emplace(segment, Segment{bytes, {}});
  ATTNDB_CHECK(is_new || at->second.bytes == bytes);
  if (std::find(record.shared.begin(), record.shared.end(), segment) == record.shared.end()) {
    record.shared.push_back(segment);
  }
}

void Placement::Forget(ItemId id, double now, Moves* moves) {
  const auto found = records_.find(id);
  if (found == records_.end()) return;
  Record& record = found->second;
  ATTNDB_CHECK(!record.item.queued);
  if (record.item.tier != Tier::kNone) Drop(&record, moves);
  FitDisk(now, moves);
  Shelf& none = shelf(Tier::kNone);
  none.back()->shelf_idx = record.shelf_idx;
  none[record.shelf_idx] = none.back();
  none.pop_back();
  records_.erase(found);
}

}  // namespace attndb::tier
