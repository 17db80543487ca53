#include "db/plane_cache.h"

#include <algorithm>

#include "kernels/layout.h"

namespace attndb::internal {

std::shared_ptr<const LayerPlanes> PlaneCache::Get(const storage::Segment& segment, LayerId layer,
                                                   const storage::LayerPin& pin) {
  if (segment.num_tokens() < kMinTokens) return nullptr;
  std::shared_ptr<storage::ResidentGroup> group;
  {
    MutexLock lock(&mutex_);
    ForgetDropped();
    Entry& entry = entries_[segment.id()];
    entry.layers.resize(segment.shape().layers.size());
    if (std::shared_ptr<const LayerPlanes> planes = entry.layers[layer].lock()) {
      budget_->Touch(*planes);
      return planes;
    }
    group = entry.group;
  }
  const storage::LayerShape& shape = segment.shape().layers[layer];
  const uint64_t bytes =
      shape.num_kv_heads *
      index::KeyPlanes::BytesFor(segment.num_tokens(), kernels::RowElements(shape.head_dim));
  std::optional<storage::Reservation> reservation = budget_->ReserveIfFree(bytes);
  if (!reservation) return nullptr;
  Result<std::vector<index::KeyPlanes>> heads = BuildHeads(segment, layer, pin);
  if (!heads.ok()) return nullptr;
  auto planes = std::make_shared<const LayerPlanes>(*std::move(reservation), std::move(group),
                                                    *std::move(heads));
  {
    MutexLock lock(&mutex_);
    Entry& entry = entries_[segment.id()];  // May have been forgotten meanwhile.
    entry.layers.resize(segment.shape().layers.size());
    std::weak_ptr<const LayerPlanes>& slot = entry.layers[layer];
    if (std::shared_ptr<const LayerPlanes> other = slot.lock()) return other;
    slot = planes;
  }
  budget_->Keep(planes);
  return planes;
}

void PlaneCache::ForgetDropped() {
  if (entries_.size() < kMaxEntries) return;
  std::erase_if(entries_, [](const auto& item) {
    return std::ranges::all_of(item.second.layers, [](const auto& slot) { return slot.expired(); });
  });
}

Result<std::vector<index::KeyPlanes>> PlaneCache::BuildHeads(const storage::Segment& segment,
                                                             LayerId layer,
                                                             const storage::LayerPin& pin) {
  const storage::KvShape& shape = segment.shape();
  const size_t row = kernels::RowElements(shape.layers[layer].head_dim);
  std::vector<index::KeyPlanes> heads(pin.num_kv_heads());
  for (uint32_t head = 0; head < pin.num_kv_heads(); ++head) {
    if (pin.non_finite(head)) continue;
    const storage::KvRows& rows = pin.rows(head);
    ATTNDB_ASSIGN_OR_RETURN(
        heads[head], index::KeyPlanes::Build({rows.k, row, row, shape.dtype}, rows.num_tokens));
  }
  return heads;
}

}  // namespace attndb::internal
