#include "derived/cache.h"

#include <algorithm>

namespace attndb::derived {

void Cache::Learn(const std::shared_ptr<const storage::Segment>& segment,
                  const SegmentFacts& facts) {
  MutexLock lock(&mutex_);
  Entry& entry = EntryOf(*segment);
  entry.segment = segment;
  entry.owner = facts.owner;
  for (size_t i = 0; i < kinds_->size(); ++i) {
    Slot& slot = entry.slots[i];
    const ObjectRecord* const found = facts.Find(kinds_->all()[i]->traits().object);
    if (found == nullptr || found->generation <= slot.lost_generation) continue;
    if (slot.record && slot.record->generation >= found->generation) continue;
    slot.record = *found;
    slot.file = nullptr;
    version_.fetch_add(1, std::memory_order_release);
  }
}

void Cache::Forget(const storage::ObjectName& name) {
  const Kind* const kind = kinds_->FindObject(name.kind);
  MutexLock lock(&mutex_);
  const auto entry = entries_.find(name.segment_id);
  if (kind == nullptr || entry == entries_.end()) return;
  Slot& slot = entry->second.slots[kinds_->NumberOf(*kind)];
  slot.lost_generation = std::max(slot.lost_generation, name.generation);
  if (!slot.record || slot.record->generation > name.generation) return;
  slot.record.reset();
  slot.file = nullptr;
  version_.fetch_add(1, std::memory_order_release);
}

LayerObjectsPtr Cache::Find(const storage::Segment& segment, const Kind& kind, LayerId layer,
                            const LayerSpec& spec) {
  if (LayerObjectsPtr objects = FindInMemory(segment, kind, layer)) return objects;
  std::shared_ptr<storage::ResidentGroup> group;
  std::optional<ObjectRecord> record;
  ObjectPtr file;
  {
    MutexLock lock(&mutex_);
    const Slot& slot = SlotOf(segment, kind);
    if (!slot.record) return nullptr;
    group = slot.group;
    record = slot.record;
    file = slot.file;
  }
  std::optional<storage::Reservation> reservation =
      budget_->ReserveIfFree(kind.MemoryBytes(segment, layer, spec));
  if (!reservation) return nullptr;
  Result<ObjectPtr> object = Open(segment, kind, *record, std::move(file));
  Result<std::vector<Head>> heads = object.status();
  if (object.ok()) heads = kind.ReadLayer(**object, segment, layer, spec);
  if (!heads.ok()) {
    Lose(segment, kind, record->generation, heads.status());
    return nullptr;
  }
  {
    MutexLock lock(&mutex_);
    ++counters_[kinds_->NumberOf(kind)].num_read;
  }
  return KeepFirst(segment, kind, layer,
                   std::make_shared<const LayerObjects>(*std::move(reservation), std::move(group),
                                                        *std::move(heads)));
}

LayerObjectsPtr Cache::FindInMemory(const storage::KvRun& run, const Kind& kind, LayerId layer) {
  MutexLock lock(&mutex_);
  const Slot* const slot = FindSlot(run.id(), kind);
  if (slot == nullptr) return nullptr;
  LayerObjectsPtr objects = slot->layers[layer].lock();
  if (objects != nullptr) budget_->Touch(*objects);
  return objects;
}

uint64_t Cache::OwnerOf(SegmentId segment) const {
  MutexLock lock(&mutex_);
  const auto entry = entries_.find(segment);
  return entry == entries_.end() ? 0 : entry->second.owner;
}

bool Cache::IsOnDisk(SegmentId segment, const Kind& kind) const {
  MutexLock lock(&mutex_);
  const Slot* const slot = FindSlot(segment, kind);
  return slot != nullptr && slot->record.has_value();
}

bool Cache::IsInMemory(RunId run, const Kind& kind, LayerId layer) const {
  MutexLock lock(&mutex_);
  const Slot* const slot = FindSlot(run, kind);
  return slot != nullptr && !slot->layers[layer].expired();
}

KindSet Cache::ReadyKinds(RunId run, LayerId layer) const {
  MutexLock lock(&mutex_);
  const auto entry = entries_.find(run);
  KindSet ready;
  if (entry == entries_.end()) return ready;
  for (size_t i = 0; i < kinds_->size(); ++i) {
    const Slot& slot = entry->second.slots[i];
    ready[i] = slot.record || !slot.layers[layer].expired();
  }
  return ready;
}

void Cache::Keep(const storage::KvRun& run, const Kind& kind, LayerId layer,
                 storage::Reservation reservation, std::vector<Head> heads) {
  std::shared_ptr<storage::ResidentGroup> group;
  {
    MutexLock lock(&mutex_);
    group = SlotOf(run, kind).group;
    ++counters_[kinds_->NumberOf(kind)].num_built;
  }
  (void)KeepFirst(run, kind, layer,
                  std::make_shared<const LayerObjects>(std::move(reservation), std::move(group),
                                                       std::move(heads)));
}

Cache::Counters Cache::counters(const Kind& kind) const {
  MutexLock lock(&mutex_);
  return counters_[kinds_->NumberOf(kind)];
}

LayerObjectsPtr Cache::KeepFirst(const storage::KvRun& run, const Kind& kind, LayerId layer,
                                 LayerObjectsPtr objects) {
  {
    MutexLock lock(&mutex_);
    std::weak_ptr<const LayerObjects>& place = SlotOf(run, kind).layers[layer];
    if (LayerObjectsPtr first = place.lock()) return first;
    place = objects;
    version_.fetch_add(1, std::memory_order_release);
  }
  budget_->Keep(objects);
  return objects;
}

Result<Cache::ObjectPtr> Cache::Open(const storage::Segment& segment, const Kind& kind,
                                     const ObjectRecord& record, ObjectPtr file) {
  if (file != nullptr) return file;
  ATTNDB_ASSIGN_OR_RETURN(file, files_->Open(segment, kind, record));
  MutexLock lock(&mutex_);
  if (++num_files_ > kMaxIdle) {  // Each holds a file descriptor. A reader keeps its own file open.
    for (auto& [id, entry] : entries_) {
      for (Slot& slot : entry.slots) slot.file = nullptr;
    }
    num_files_ = 1;
  }
  Slot& slot = SlotOf(segment, kind);
  if (slot.record && slot.record->generation == record.generation) slot.file = file;
  return file;
}

void Cache::Lose(const storage::Segment& segment, const Kind& kind, uint64_t generation,
                 const Status& status) {
  // Memory that is short now may not be short later.
  if (status.code() == StatusCode::kResourceExhausted) return;
  const storage::ObjectName name = {segment.id(), kind.traits().object, generation};
  Forget(name);
  on_lost_(name, kind, status);
}

Cache::Slot& Cache::SlotOf(const storage::KvRun& run, const Kind& kind) {
  return EntryOf(run).slots[kinds_->NumberOf(kind)];
}

const Cache::Slot* Cache::FindSlot(RunId run, const Kind& kind) const {
  const auto entry = entries_.find(run);
  return entry == entries_.end() ? nullptr : &entry->second.slots[kinds_->NumberOf(kind)];
}

Cache::Entry& Cache::EntryOf(const storage::KvRun& run) {
  const auto found = entries_.find(run.id());
  if (found != entries_.end()) return found->second;
  Shrink();
  Entry& entry = entries_[run.id()];
  entry.slots.resize(kinds_->size());
  for (Slot& slot : entry.slots) slot.layers.resize(run.shape().layers.size());
  return entry;
}

void Cache::Shrink() {
  if (entries_.size() < shrink_at_) return;
  std::erase_if(entries_, [](const auto& item) {
    const auto is_idle = [](const Slot& slot) {
      return std::ranges::all_of(slot.layers, [](const auto& layer) { return layer.expired(); });
    };
    return item.second.segment.expired() && std::ranges::all_of(item.second.slots, is_idle);
  });
  shrink_at_ = std::max(kMaxIdle, 2 * entries_.size());
}

}  // namespace attndb::derived
