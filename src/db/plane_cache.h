// Key planes of stored segments, in memory, shared by all sessions: read from the segment's
// companion, or made from K where there is none yet, when a plan first asks for them; in memory
// that nothing else uses, and dropped when K of other layers needs it.
//
// Errors:  none that a query would see: where no memory is left for planes, K is scanned instead,
//          and a companion that can't be read is as good as none.
// Threads: thread-safe. Two threads that come first both read or build, and one result is kept.
#ifndef ATTNDB_DB_PLANE_CACHE_H_
#define ATTNDB_DB_PLANE_CACHE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "common/mutex.h"
#include "db/companion_files.h"
#include "db/stored_planes.h"
#include "storage/kv/companion.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"

namespace attndb::internal {

// Of one layer of a segment.
class LayerPlanes final : public storage::Resident {
 public:
  LayerPlanes(storage::Reservation reservation, std::shared_ptr<storage::ResidentGroup> group,
              std::vector<HeadPlanes> heads)
      : Resident(std::move(reservation), std::move(group)), heads_(std::move(heads)) {}

  // Null for a head that has none, as one with NaN or Inf.
  const index::KeyPlanes* head(uint32_t kv_head) const {
    const index::KeyPlanes& planes = heads_[kv_head].planes;
    return planes.num_keys() == 0 ? nullptr : &planes;
  }

 private:
  const std::vector<HeadPlanes> heads_;
};

class PlaneCache {
 public:
  // Each holds a file descriptor of its companion, if it has one.
  static constexpr size_t kMaxEntries = 256;

  // Layers handed out since the cache was made.
  struct Counters {
    uint64_t num_read = 0;   // From companions.
    uint64_t num_built = 0;  // From K.
  };

  // Both must outlive the cache.
  PlaneCache(storage::MemoryBudget* budget, CompanionFiles* companions)
      : budget_(budget), companions_(companions) {}

  // The planes of a layer, of this spec, whose K is pinned; null if the segment is short, or memory
  // is.
  std::shared_ptr<const LayerPlanes> Get(const storage::Segment& segment, LayerId layer,
                                         const LayerSpec& spec, const storage::LayerPin& pin)
      ATTNDB_EXCLUDES(mutex_);

  Counters counters() const ATTNDB_EXCLUDES(mutex_);

 private:
  using CompanionPtr = std::shared_ptr<const storage::Companion>;
  struct Entry {
    std::shared_ptr<storage::ResidentGroup> group = std::make_shared<storage::ResidentGroup>();
    std::vector<std::weak_ptr<const LayerPlanes>> layers;
    CompanionPtr companion;  // Null: not looked for, or none.
  };

  // The segment's entry, with a slot for each layer.
  Entry& EntryOf(const storage::Segment& segment) ATTNDB_REQUIRES(mutex_);
  // Makes room for one more entry: forgets those whose planes are all gone, and closes the files of
  // the others if that is not enough.
  void Shrink() ATTNDB_REQUIRES(mutex_);
  Result<std::vector<HeadPlanes>> ReadOrBuild(const storage::Segment& segment, LayerId layer,
                                              const LayerSpec& spec, const storage::LayerPin& pin,
                                              CompanionPtr companion) ATTNDB_EXCLUDES(mutex_);

  storage::MemoryBudget* const budget_;
  CompanionFiles* const companions_;

  // A leaf, but for the budget's own mutex. Nothing is read or built under it.
  mutable Mutex mutex_;
  std::map<uint64_t, Entry> entries_ ATTNDB_GUARDED_BY(mutex_);  // By segment id.
  Counters counters_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::internal

#endif  // ATTNDB_DB_PLANE_CACHE_H_
