// The ready derived objects of segments, and the layers of them that are in memory, shared by all
// sessions. Layers take unused memory, and are dropped when K and V need it.
//
// Ready:   an object is ready when the catalog names it, or when a layer of it was built in memory.
//          The cache knows this without reading the catalog. Learn is called when a segment is
//          opened and when the builder publishes; losses and drops are reported, too.
// Errors:  queries see none. An object that is not ready, not readable or has no memory is null,
//          and K and V are read instead.
// Threads: thread-safe. Find may read a file, under no lock. If two threads need it first, both
//          read, and one result is kept.
#ifndef ATTNDB_DERIVED_CACHE_H_
#define ATTNDB_DERIVED_CACHE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "attndb/types.h"
#include "common/mutex.h"
#include "derived/kinds.h"
#include "derived/object_files.h"
#include "derived/store.h"
#include "storage/kv/companion.h"
#include "storage/kv/kv_run.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"

namespace attndb::derived {

// The objects of one kind for one layer of a run, in memory.
class LayerObjects final : public storage::Resident {
 public:
  LayerObjects(storage::Reservation reservation, std::shared_ptr<storage::ResidentGroup> group,
               std::vector<Head> heads)
      : Resident(std::move(reservation), std::move(group)), heads_(std::move(heads)) {}

  const Head& head(uint32_t kv_head) const { return heads_[kv_head]; }

 private:
  const std::vector<Head> heads_;
};

using LayerObjectsPtr = std::shared_ptr<const LayerObjects>;

class Cache {
 public:
  // Beyond this number, entries of closed segments are dropped, and open files closed.
  static constexpr size_t kMaxIdle = 256;

  // Counts of layers that came into memory since the cache was made.
  struct Counters {
    uint64_t num_read = 0;   // Read from files.
    uint64_t num_built = 0;  // Built in memory.
  };
  // Called when an object could not be read. It is no longer ready then.
  using OnLost =
      std::function<void(const storage::ObjectName& name, const Kind& kind, const Status& status)>;

  // Pointers must outlive the cache.
  Cache(const Kinds* kinds, storage::MemoryBudget* budget, const ObjectFiles* files, OnLost on_lost)
      : kinds_(kinds),
        budget_(budget),
        files_(files),
        on_lost_(std::move(on_lost)),
        counters_(kinds->size()) {}

  // Takes over the catalog's record of the segment. Newer knowledge of the cache stays.
  void Learn(const std::shared_ptr<const storage::Segment>& segment, const SegmentFacts& facts)
      ATTNDB_EXCLUDES(mutex_);
  // Notes that the catalog no longer names the object.
  void Forget(const storage::ObjectName& name) ATTNDB_EXCLUDES(mutex_);

  // The object's layer; null if the object is not ready, can't be read or has no memory. Reads a
  // file if the layer is not in memory; does not ask the catalog.
  LayerObjectsPtr Find(const storage::Segment& segment, const Kind& kind, LayerId layer,
                       const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // The same, but only if the layer is in memory. Objects of a tail's block exist only in memory.
  LayerObjectsPtr FindInMemory(const storage::KvRun& run, const Kind& kind, LayerId layer)
      ATTNDB_EXCLUDES(mutex_);
  // The owner that Learn was told; 0 if it was not called.
  uint64_t OwnerOf(SegmentId segment) const ATTNDB_EXCLUDES(mutex_);
  // Whether an object on disk can be read, as far as the cache knows.
  bool IsOnDisk(SegmentId segment, const Kind& kind) const ATTNDB_EXCLUDES(mutex_);
  bool IsInMemory(RunId run, const Kind& kind, LayerId layer) const ATTNDB_EXCLUDES(mutex_);

  // The kinds whose objects are ready for a layer of the run.
  KindSet ReadyKinds(RunId run, LayerId layer) const ATTNDB_EXCLUDES(mutex_);
  // Grows when an object becomes ready or is lost. While it is unchanged, ReadyKinds returns the
  // same. But objects that were built in memory may have been dropped since: Find then returns
  // null.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // Makes a layer ready that was built in memory.
  void Keep(const storage::KvRun& run, const Kind& kind, LayerId layer,
            storage::Reservation reservation, std::vector<Head> heads) ATTNDB_EXCLUDES(mutex_);

  Counters counters(const Kind& kind) const ATTNDB_EXCLUDES(mutex_);

 private:
  using ObjectPtr = std::shared_ptr<const storage::Companion>;
  // The state of one kind of a run.
  struct Slot {
    std::shared_ptr<storage::ResidentGroup> group = std::make_shared<storage::ResidentGroup>();
    std::optional<ObjectRecord> record;  // The object that is ready on disk.
    uint64_t lost_generation = 0;        // Objects up to this generation can't be read.
    ObjectPtr file;                      // The object's open file; null: it is not open.
    std::vector<std::weak_ptr<const LayerObjects>> layers;
  };
  struct Entry {
    // Null: a block of a tail, which has nothing on disk.
    std::weak_ptr<const storage::Segment> segment;
    uint64_t owner = 0;
    std::vector<Slot> slots;  // By Kinds::NumberOf.
  };

  Slot& SlotOf(const storage::KvRun& run, const Kind& kind) ATTNDB_REQUIRES(mutex_);
  // Null if the cache knows nothing.
  const Slot* FindSlot(RunId run, const Kind& kind) const ATTNDB_REQUIRES(mutex_);
  Entry& EntryOf(const storage::KvRun& run) ATTNDB_REQUIRES(mutex_);
  // Makes room for one more entry: forgets entries without an open file and without layers in
  // memory.
  void Shrink() ATTNDB_REQUIRES(mutex_);
  // Opens the object if it is not open.
  Result<ObjectPtr> Open(const storage::Segment& segment, const Kind& kind,
                         const ObjectRecord& record, ObjectPtr file) ATTNDB_EXCLUDES(mutex_);
  void Lose(const storage::Segment& segment, const Kind& kind, uint64_t generation,
            const Status& status) ATTNDB_EXCLUDES(mutex_);
  // Keeps `objects`, unless another thread has kept the layer meanwhile. Returns the kept objects.
  LayerObjectsPtr KeepFirst(const storage::KvRun& run, const Kind& kind, LayerId layer,
                            LayerObjectsPtr objects) ATTNDB_EXCLUDES(mutex_);

  const Kinds* const kinds_;
  storage::MemoryBudget* const budget_;
  const ObjectFiles* const files_;
  const OnLost on_lost_;

  // A leaf, except for the budget's own mutex. Nothing is read or built under it.
  mutable Mutex mutex_;
  std::map<RunId, Entry> entries_ ATTNDB_GUARDED_BY(mutex_);
  // Number of entries at which Shrink runs.
  size_t shrink_at_ ATTNDB_GUARDED_BY(mutex_) = kMaxIdle;
  size_t num_files_ ATTNDB_GUARDED_BY(mutex_) = 0;            // Files opened since all were closed.
  std::vector<Counters> counters_ ATTNDB_GUARDED_BY(mutex_);  // By Kinds::NumberOf.

  // Its release, after the change, pairs with the acquire in version().
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_CACHE_H_
