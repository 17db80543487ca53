// Key planes of stored segments, in memory, shared by all sessions: made from K when a plan first
// asks for them, in memory that nothing else uses, and dropped when K of other layers needs it.
//
// Errors:  none that a query would see: where no memory is left for planes, K is scanned instead.
// Threads: thread-safe. Two threads that come first both build, and one result is kept.
#ifndef ATTNDB_DB_PLANE_CACHE_H_
#define ATTNDB_DB_PLANE_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "index/planes/key_planes.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// Of one layer of a segment.
class LayerPlanes final : public storage::Resident {
 public:
  LayerPlanes(storage::Reservation reservation, std::shared_ptr<storage::ResidentGroup> group,
              std::vector<index::KeyPlanes> heads)
      : Resident(std::move(reservation), std::move(group)), heads_(std::move(heads)) {}

  // Null for a head with NaN or Inf, which has none.
  const index::KeyPlanes* head(uint32_t kv_head) const {
    return heads_[kv_head].num_keys() == 0 ? nullptr : &heads_[kv_head];
  }

 private:
  const std::vector<index::KeyPlanes> heads_;
};

class PlaneCache {
 public:
  // Shorter segments are scanned exactly: what planes save there is less than they cost.
  static constexpr uint64_t kMinTokens = 256;
  static constexpr size_t kMaxEntries = 1024;

  // `budget` must outlive the cache.
  explicit PlaneCache(storage::MemoryBudget* budget) : budget_(budget) {}

  // The planes of a layer whose K is pinned; null if the segment is short, or memory is.
  std::shared_ptr<const LayerPlanes> Get(const storage::Segment& segment, LayerId layer,
                                         const storage::LayerPin& pin) ATTNDB_EXCLUDES(mutex_);

 private:
  struct Entry {
    std::shared_ptr<storage::ResidentGroup> group = std::make_shared<storage::ResidentGroup>();
    std::vector<std::weak_ptr<const LayerPlanes>> layers;
  };

  // Entries whose planes are all gone, once there are many.
  void ForgetDropped() ATTNDB_REQUIRES(mutex_);
  static Result<std::vector<index::KeyPlanes>> BuildHeads(const storage::Segment& segment,
                                                          LayerId layer,
                                                          const storage::LayerPin& pin);

  storage::MemoryBudget* const budget_;

  // A leaf, but for the budget's own mutex. Nothing is built under it.
  Mutex mutex_;
  std::map<uint64_t, Entry> entries_ ATTNDB_GUARDED_BY(mutex_);  // By segment id.
};

}  // namespace attndb::internal

#endif  // ATTNDB_DB_PLANE_CACHE_H_
