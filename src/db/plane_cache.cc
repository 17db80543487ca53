#include "db/plane_cache.h"

#include <algorithm>

namespace attndb::internal {

std::shared_ptr<const LayerPlanes> PlaneCache::Get(const storage::Segment& segment, LayerId layer,
                                                   const LayerSpec& spec,
                                                   const storage::LayerPin& pin) {
  if (segment.num_tokens() < KeyPlanesKind().min_tokens) return nullptr;
  std::shared_ptr<storage::ResidentGroup> group;
  CompanionPtr companion;
  {
    MutexLock lock(&mutex_);
    const Entry& entry = EntryOf(segment);
    if (std::shared_ptr<const LayerPlanes> planes = entry.layers[layer].lock()) {
      budget_->Touch(*planes);
      return planes;
    }
    group = entry.group;
    companion = entry.companion;
  }
  std::optional<storage::Reservation> reservation =
      budget_->ReserveIfFree(PlaneMemoryBytes(segment, layer));
  if (!reservation) return nullptr;
  Result<std::vector<HeadPlanes>> heads =
      ReadOrBuild(segment, layer, spec, pin, std::move(companion));
  if (!heads.ok()) return nullptr;
  auto planes = std::make_shared<const LayerPlanes>(*std::move(reservation), std::move(group),
                                                    *std::move(heads));
  {
    MutexLock lock(&mutex_);
    std::weak_ptr<const LayerPlanes>& slot = EntryOf(segment).layers[layer];
    if (std::shared_ptr<const LayerPlanes> other = slot.lock()) return other;
    slot = planes;
  }
  budget_->Keep(planes);
  return planes;
}

Result<std::vector<HeadPlanes>> PlaneCache::ReadOrBuild(const storage::Segment& segment,
                                                        LayerId layer, const LayerSpec& spec,
                                                        const storage::LayerPin& pin,
                                                        CompanionPtr companion) {
  if (companion == nullptr) {
    companion = companions_->Open(segment, KeyPlanesKind());
    MutexLock lock(&mutex_);
    EntryOf(segment).companion = companion;
  }
  if (companion != nullptr) {
    Result<std::vector<HeadPlanes>> heads = ReadLayerPlanes(*companion, segment, layer);
    MutexLock lock(&mutex_);
    if (heads.ok()) {
      ++counters_.num_read;
      return heads;
    }
    EntryOf(segment).companion = nullptr;
    lock.Unlock();
    companions_->ReportDamage(companion->name(), heads.status());
  }
  Result<std::vector<HeadPlanes>> heads = BuildLayerPlanes(segment, layer, spec, pin);
  MutexLock lock(&mutex_);
  if (heads.ok()) ++counters_.num_built;
  return heads;
}

PlaneCache::Entry& PlaneCache::EntryOf(const storage::Segment& segment) {
  const auto found = entries_.find(segment.id());
  if (found != entries_.end()) return found->second;
  Shrink();
  Entry& entry = entries_[segment.id()];
  entry.layers.resize(segment.shape().layers.size());
  return entry;
}

void PlaneCache::Shrink() {
  if (entries_.size() < kMaxEntries) return;
  std::erase_if(entries_, [](const auto& item) {
    return std::ranges::all_of(item.second.layers, [](const auto& slot) { return slot.expired(); });
  });
  if (entries_.size() < kMaxEntries) return;
  for (auto& [segment, entry] : entries_) entry.companion = nullptr;
}

PlaneCache::Counters PlaneCache::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

}  // namespace attndb::internal
