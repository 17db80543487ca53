// Which derived objects are ready for which segment, and those layers of them that are in memory,
// shared by all sessions. They take memory that nothing else uses, and are dropped when K and V
// need it.
//
// Ready:   an object is ready when the catalog names it, or when a layer of it was built in memory.
//          That is known here without a look into the catalog: Learn is told when a segment is
//          opened and when the builder publishes; a loss and a drop take it back.
// Errors:  none that a query would see: what is not ready, can't be read or has no memory is null,
//          and K and V are read instead.
// Threads: thread-safe. Find may read a file, under no lock; of two threads that come first both
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
  // Beyond this number, entries of segments that nobody has open are dropped, and open files
  // closed.
  static constexpr size_t kMaxIdle = 256;

  // Counts of layers, by how they came into memory, since the cache was made.
  struct Counters {
    uint64_t num_read = 0;   // Read from files.
    uint64_t num_built = 0;  // Built in memory.
  };
  // Called when an object could not be read, and is not ready any more.
  using OnLost =
      std::function<void(const storage::ObjectName& name, const Kind& kind, const Status& status)>;

  // Pointers must outlive the cache.
  Cache(const Kinds* kinds, storage::MemoryBudget* budget, const ObjectFiles* files, OnLost on_lost)
      : kinds_(kinds),
        budget_(budget),
        files_(files),
        on_lost_(std::move(on_lost)),
        counters_(kinds->size()) {}

  // Takes over what the catalog says of the segment. What is known to be newer stays.
  void Learn(const std::shared_ptr<const storage::Segment>& segment, const SegmentFacts& facts)
      ATTNDB_EXCLUDES(mutex_);
  // Notes that the catalog names the object no more.
  void Forget(const storage::ObjectName& name) ATTNDB_EXCLUDES(mutex_);

  // The object's layer; null if the object is not ready, can't be read or has no memory. Reads a
  // file if the layer is not in memory; does not ask the catalog.
  LayerObjectsPtr Find(const storage::Segment& segment, const Kind& kind, LayerId layer,
                       const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // The same, but only if it is in memory. A block of a tail has objects nowhere else.
  LayerObjectsPtr FindInMemory(const storage::KvRun& run, const Kind& kind, LayerId layer)
      ATTNDB_EXCLUDES(mutex_);
  // As Learn was told; 0 if it was not.
  uint64_t OwnerOf(SegmentId segment) const ATTNDB_EXCLUDES(mutex_);
  // Whether an object on disk can be read, as far as is known here.
  bool IsOnDisk(SegmentId segment, const Kind& kind) const ATTNDB_EXCLUDES(mutex_);
  bool IsInMemory(RunId run, const Kind& kind, LayerId layer) const ATTNDB_EXCLUDES(mutex_);

  // The kinds whose objects are ready for a layer of the run.
  KindSet ReadyKinds(RunId run, LayerId layer) const ATTNDB_EXCLUDES(mutex_);
  // Grows when an object becomes ready or is lost. While it is unchanged, ReadyKinds answers as
  // before; but objects that were built in memory may have been dropped since: Find is null then.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // Makes a layer that was built in memory ready.
  void Keep(const storage::KvRun& run, const Kind& kind, LayerId layer,
            storage::Reservation reservation, std::vector<Head> heads) ATTNDB_EXCLUDES(mutex_);

  Counters counters(const Kind& kind) const ATTNDB_EXCLUDES(mutex_);

 private:
  using ObjectPtr = std::shared_ptr<const storage::Companion>;
  // What is known of one kind of a run.
  struct Slot {
    std::shared_ptr<storage::ResidentGroup> group = std::make_shared<storage::ResidentGroup>();
    std::optional<ObjectRecord> record;  // The object that is ready on disk.
    uint64_t lost_generation = 0;        // Objects up to this generation can't be read.
    ObjectPtr file;                      // The object's open file; null: it is not open.
    std::vector<std::weak_ptr<const LayerObjects>> layers;
  };
  struct Entry {
    // Null: a block of a tail, of which nothing is on disk.
    std::weak_ptr<const storage::Segment> segment;
    uint64_t owner = 0;
    std::vector<Slot> slots;  // By Kinds::NumberOf.
  };

  Slot& SlotOf(const storage::KvRun& run, const Kind& kind) ATTNDB_REQUIRES(mutex_);
  // Null if nothing is known.
  const Slot* FindSlot(RunId run, const Kind& kind) const ATTNDB_REQUIRES(mutex_);
  Entry& EntryOf(const storage::KvRun& run) ATTNDB_REQUIRES(mutex_);
  // Makes room for one more entry: forgets those that have no open file and nothing in memory.
  void Shrink() ATTNDB_REQUIRES(mutex_);
  // Opens the object if it is not open.
  Result<ObjectPtr> Open(const storage::Segment& segment, const Kind& kind,
                         const ObjectRecord& record, ObjectPtr file) ATTNDB_EXCLUDES(mutex_);
  void Lose(const storage::Segment& segment, const Kind& kind, uint64_t generation,
            const Status& status) ATTNDB_EXCLUDES(mutex_);
  // Keeps `objects`, unless another thread has kept the layer meanwhile; returns what is kept.
  LayerObjectsPtr KeepFirst(const storage::KvRun& run, const Kind& kind, LayerId layer,
                            LayerObjectsPtr objects) ATTNDB_EXCLUDES(mutex_);

  const Kinds* const kinds_;
  storage::MemoryBudget* const budget_;
  const ObjectFiles* const files_;
  const OnLost on_lost_;

  // The mutex is a leaf, but for the budget's own. Nothing is read or built under it.
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
