// Which derived objects are ready for which segment, and what is in memory of them, layer by layer,
// shared by all sessions; in memory that nothing else uses, and dropped when K and V need it.
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

// The objects of one kind for one layer of a segment, in memory.
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
  // Entries of segments that nobody has open are dropped beyond this, and so are open files.
  static constexpr size_t kMaxIdle = 256;

  // Layers of one kind since the cache was made.
  struct Counters {
    uint64_t num_read = 0;   // From files.
    uint64_t num_built = 0;  // In memory.
  };
  // An object could not be read, and is not ready any more.
  using OnLost =
      std::function<void(const storage::ObjectName& name, const Kind& kind, const Status& status)>;

  // Pointers must outlive the cache.
  Cache(const Kinds* kinds, storage::MemoryBudget* budget, const ObjectFiles* files, OnLost on_lost)
      : kinds_(kinds),
        budget_(budget),
        files_(files),
        on_lost_(std::move(on_lost)),
        counters_(kinds->size()) {}

  // What the catalog says of the segment. What is known to be newer stays.
  void Learn(const std::shared_ptr<const storage::Segment>& segment, const SegmentFacts& facts)
      ATTNDB_EXCLUDES(mutex_);
  // The catalog names the object no more.
  void Forget(const storage::ObjectName& name) ATTNDB_EXCLUDES(mutex_);

  // Of a layer; null if the object is not ready, or has no memory. Does not look further.
  LayerObjectsPtr Find(const storage::Segment& segment, const Kind& kind, LayerId layer,
                       const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // The same of what is in memory. Of a run that is no segment, there is nothing else.
  LayerObjectsPtr FindInMemory(const storage::KvRun& run, const Kind& kind, LayerId layer)
      ATTNDB_EXCLUDES(mutex_);
  // Whether there is an object on disk that can be read, as far as is known.
  bool IsOnDisk(SegmentId segment, const Kind& kind) const ATTNDB_EXCLUDES(mutex_);
  bool IsInMemory(RunId run, const Kind& kind, LayerId layer) const ATTNDB_EXCLUDES(mutex_);

  // The kinds whose objects are ready for a layer of the run.
  KindSet ReadyKinds(RunId run, LayerId layer) const ATTNDB_EXCLUDES(mutex_);
  // Grows when an object becomes ready, or is lost. Who sees it unchanged sees what ReadyKinds said
  // before, but for what was built in memory and made room since: Find is null then.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }

  // Makes a layer that was built in memory ready.
  void Keep(const storage::KvRun& run, const Kind& kind, LayerId layer,
            storage::Reservation reservation, std::vector<Head> heads) ATTNDB_EXCLUDES(mutex_);

  Counters counters(const Kind& kind) const ATTNDB_EXCLUDES(mutex_);

 private:
  using ObjectPtr = std::shared_ptr<const storage::Companion>;
  // One kind of a run.
  struct Slot {
    std::shared_ptr<storage::ResidentGroup> group = std::make_shared<storage::ResidentGroup>();
    std::optional<ObjectRecord> record;  // Of the object that is ready on disk.
    uint64_t lost_generation = 0;        // No object up to this one can be read.
    ObjectPtr file;                      // Null: not open.
    std::vector<std::weak_ptr<const LayerObjects>> layers;
  };
  struct Entry {
    std::weak_ptr<const storage::Segment> segment;  // Null: nothing of it is on disk.
    std::vector<Slot> slots;                        // By number of the kind.
  };

  Slot& SlotOf(const storage::KvRun& run, const Kind& kind) ATTNDB_REQUIRES(mutex_);
  // Null if nothing is known.
  const Slot* FindSlot(RunId run, const Kind& kind) const ATTNDB_REQUIRES(mutex_);
  Entry& EntryOf(const storage::KvRun& run) ATTNDB_REQUIRES(mutex_);
  // Makes room for one more entry: forgets those of which nothing is open or in memory.
  void Shrink() ATTNDB_REQUIRES(mutex_);
  // Opens the object if it is not open.
  Result<ObjectPtr> Open(const storage::Segment& segment, const Kind& kind,
                         const ObjectRecord& record, ObjectPtr file) ATTNDB_EXCLUDES(mutex_);
  void Lose(const storage::Segment& segment, const Kind& kind, uint64_t generation,
            const Status& status) ATTNDB_EXCLUDES(mutex_);
  // The first to come is kept.
  LayerObjectsPtr KeepFirst(const storage::KvRun& run, const Kind& kind, LayerId layer,
                            LayerObjectsPtr objects) ATTNDB_EXCLUDES(mutex_);

  const Kinds* const kinds_;
  storage::MemoryBudget* const budget_;
  const ObjectFiles* const files_;
  const OnLost on_lost_;

  // A leaf, but for the budget's own mutex. Nothing is read or built under it.
  mutable Mutex mutex_;
  std::map<RunId, Entry> entries_ ATTNDB_GUARDED_BY(mutex_);
  size_t shrink_at_ ATTNDB_GUARDED_BY(mutex_) = kMaxIdle;     // So many entries are looked through.
  size_t num_files_ ATTNDB_GUARDED_BY(mutex_) = 0;            // Opened since all were closed.
  std::vector<Counters> counters_ ATTNDB_GUARDED_BY(mutex_);  // By number of the kind.

  // Its release, after the change, pairs with the acquire of version().
  std::atomic<uint64_t> version_ = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_CACHE_H_
