// Makes derived objects in the background. Sessions and the store ask for objects; finished objects
// are ready in the cache. Nobody waits for a build: until an object is ready, K and V are read
// instead.
//
// Asked:   a session asks for objects that a plan reads and that are not ready (Get). For a segment
//          this is recorded as a wish, which survives the process. Once a segment is published, the
//          store asks for the kinds that every segment has and for its wishes (Schedule). A caller
//          may ask for one kind and wait for it (Order).
// Made:    an object is written and published, if the store allows that. If not, or if there is no
//          room, an object that a session asked for is built in memory, as far as memory is free.
//          Objects of a tail's block are always built in memory: layer by layer, as sessions ask,
//          and as long as a session has the block.
// Lanes:   slow kinds have a lane of their own, so that they delay no others.
// Cut off: a slow build may be told to end, for example when the store is closed. It then publishes
//          its finished heads as an object of another name (Kind::Traits::begun). The next build
//          takes them over.
// Limits:  one job at a time for an object. After a failed job, the object may be asked for again
//          after kAskAgainNs.
// Errors:  those of jobs, kept by Lanes::Wait.
// Threads: thread-safe. Functions for sessions take no lock that is held during I/O. Order of
//          locks: the builder's, then that of the lanes.
#ifndef ATTNDB_DERIVED_BUILDER_H_
#define ATTNDB_DERIVED_BUILDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "attndb/result.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "common/clock.h"
#include "common/mutex.h"
#include "derived/cache.h"
#include "derived/kinds.h"
#include "derived/lanes.h"
#include "derived/object_files.h"
#include "derived/store.h"
#include "storage/kv/memory_budget.h"
#include "storage/kv/segment.h"
#include "storage/kv/tail_block.h"

namespace attndb::derived {

// The lanes that a builder needs.
enum BuildLane : size_t { kFastLane, kSlowLane, kNumBuildLanes };

class Builder {
 public:
  static constexpr int64_t kAskAgainNs = 1'000'000'000;

  struct Options {
    bool writes = true;  // False: objects are built in memory only.
    // A kind that every segment gets in addition to the usual ones; null: none.
    const Kind* also = nullptr;
    // Another process may publish objects, so the catalog is asked again.
    bool looks_again = false;
    // The objects of a merged segment grow from those of the first segment in it.
    bool grows = false;
    // Nanoseconds of a monotonic clock.
    std::function<int64_t()> clock = SteadyNowNanos;
  };
  struct Parts {
    const Kinds* kinds;
    Cache* cache;
    storage::MemoryBudget* budget;
    const ObjectFiles* files;
    Store* store;
    Lanes* lanes;
  };

  // All parts must outlive the builder. The lanes must have stopped before its destruction.
  Builder(const Parts& parts, const Options& options) : parts_(parts), options_(options) {}

  // --- For sessions. ---

  // Returns the objects of a kind in one layer. If they are not ready, asks for them and returns
  // null. Reads at most a file; never waits for a build. REQUIRES: the segment has the layer, and
  // `spec` describes it.
  LayerObjectsPtr Get(const storage::Segment& segment, const Kind& kind, LayerId layer,
                      const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // Does the same for a block of a session's tail.
  LayerObjectsPtr Get(const std::shared_ptr<const storage::TailBlock>& block, const Kind& kind,
                      LayerId layer, const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // Reports that an object could not be read. If its bytes are wrong, it is dropped in the
  // background.
  void ReportLoss(const storage::ObjectName& name, const Kind& kind, const Status& status);

  // --- For the store. ---

  // Whether every segment is to have an object of the kind.
  bool IsForAll(const Kind& kind) const { return kind.traits().always || &kind == options_.also; }
  // Whether this segment is to have an object of the kind: all segments are to, or it is wished
  // for.
  bool IsWanted(const SegmentFacts& segment, const Kind& kind) const {
    return IsForAll(kind) || segment.IsWished(kind.traits().object);
  }
  // Asks for the objects that the segment lacks: of the kinds that every segment has, and of its
  // wishes.
  void Schedule(const SegmentFacts& segment) ATTNDB_EXCLUDES(mutex_);
  // Returns the job that makes the kind's objects of the segment, or of a layer of the block. If no
  // job is queued, returns the last one, whose status tells why there are no objects. Null if
  // nobody has asked.
  Lanes::AddedPtr JobOf(const storage::Segment& segment, const Kind& kind) const
      ATTNDB_EXCLUDES(mutex_);
  Lanes::AddedPtr JobOf(const storage::TailBlock& block, const Kind& kind, LayerId layer) const
      ATTNDB_EXCLUDES(mutex_);
  // Asks for the segment's object of the kind. Returns its job, for Lanes::WaitFor: a queued one or
  // a new one. Null if the segment has the object.
  Lanes::AddedPtr Order(const SegmentFacts& segment, const Kind& kind) ATTNDB_EXCLUDES(mutex_);
  // Tells that `merged` replaces a run of segments and contains the whole first one. Kinds that
  // grow begin `merged`'s objects with those of `first`. Builds nothing before Schedule.
  void GrowFrom(const storage::Segment& first, const SegmentFacts& facts,
                const SegmentFacts& merged) ATTNDB_EXCLUDES(mutex_);
  // Whether the segment lacks an object that every segment has, or that is wished or asked for.
  bool IsPending(const SegmentFacts& segment) const ATTNDB_EXCLUDES(mutex_);
  // Forgets all requests for the segment. Tells a running job to end, without waiting for it.
  void Cancel(SegmentId segment) ATTNDB_EXCLUDES(mutex_);
  // Forgets all requests for segments, and waits until running builds have ended. Jobs of other
  // lanes continue.
  void CancelAll() ATTNDB_EXCLUDES(mutex_);

  // Number of objects that were written and published.
  uint64_t num_written() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Request {
    enum class State {
      kNew,     // No job was added yet.
      kQueued,  // Its job is waiting or running.
      kEnded,   // Its job ended without an object: no new one before ended_ns + kAskAgainNs.
    };
    State state = State::kNew;
    bool by_session = false;  // A session asked: an object in memory suffices.
    Lanes::AddedPtr job;      // The job while kQueued, the last job once kEnded.
    int64_t ended_ns = 0;
    // The object to grow from; its file stays open until the job has run.
    std::optional<PriorObject> prior;
  };
  struct Key {
    RunId run = 0;
    size_t kind = 0;    // Kinds::NumberOf.
    LayerId layer = 0;  // Layer of a block. 0 for a segment: the key stands for all layers.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Makes the object of a key. False: it is not ready, for lack of room.
  using Make = std::function<Result<bool>(Lanes::Control*)>;

  Key KeyOf(RunId run, const Kind& kind, LayerId layer = 0) const {
    return {run, parts_.kinds->NumberOf(kind), layer};
  }
  void Ask(const storage::Segment& segment, const Kind& kind) ATTNDB_EXCLUDES(mutex_);
  // Notes that a session asks. False: a job was added already, or ended a short while ago.
  bool IsDue(const Key& key) ATTNDB_REQUIRES(mutex_);
  // `owner`: the segment's owner.
  void QueueSegment(const Key& key, uint64_t owner, uint64_t work) ATTNDB_REQUIRES(mutex_);
  // Records in the background that the segment is to have the kind.
  void QueueWish(RunId segment, const Kind& kind);
  void Queue(const Key& key, uint64_t owner, uint64_t work, Make make) ATTNDB_REQUIRES(mutex_);
  // The job of a request that is waiting or running; else null.
  Lanes::AddedPtr QueuedJob(const Key& key) const ATTNDB_REQUIRES(mutex_);
  // The job of a request that is waiting, running or has ended; else null.
  Lanes::AddedPtr LastJob(const Key& key) const ATTNDB_REQUIRES(mutex_);
  // Whether a job for the key is waiting or running.
  bool IsAsked(const Key& key) const ATTNDB_REQUIRES(mutex_);
  bool IsAskedBySession(const Key& key) const ATTNDB_EXCLUDES(mutex_);
  void End(const Key& key, bool is_ready) ATTNDB_EXCLUDES(mutex_);
  // Opens the object of `first` from which one of a longer segment can grow. `facts` are those of
  // `first`.
  std::optional<PriorObject> OpenPrior(const storage::Segment& first, const SegmentFacts& facts,
                                       const Kind& kind) const;
  std::optional<PriorObject> PriorOf(const Key& key) const ATTNDB_EXCLUDES(mutex_);
  // Forgets requests that ended long ago.
  void Shrink() ATTNDB_REQUIRES(mutex_);

  // The jobs that are added to the lanes. They report `work` when all is done.
  Status MakeOfSegment(const Key& key, uint64_t work, Lanes::Control* control)
      ATTNDB_EXCLUDES(mutex_);
  Status Write(const OpenedSegment& opened, const Kind& kind, uint64_t work,
               Lanes::Control* control) ATTNDB_EXCLUDES(mutex_);
  // The remains of an interrupted build of a segment's object. The record belongs to the segment's
  // facts.
  struct Begun {
    const ObjectRecord* record = nullptr;
    std::shared_ptr<const storage::Companion> object;  // Null if it can't be read.
    size_t num_heads = 0;
  };
  Begun OpenBegun(const OpenedSegment& opened, const Kind& kind) const;
  void KeepBegun(const storage::Segment& segment, const Kind& kind, const Begun& before,
                 storage::CompanionWriter* writer);
  bool HasRoomBeside(const OpenedSegment& opened, const Kind& kind) const;
  Status BuildInMemory(const OpenedSegment& opened, const Kind& kind, uint64_t work,
                       Lanes::Control* control);
  // False: memory is short; K and V are read instead.
  Result<bool> BuildLayer(const storage::KvRun& run, const Kind& kind, LayerId layer,
                          const LayerSpec& spec, Lanes::Control* control);

  const Parts parts_;
  const Options options_;

  mutable Mutex mutex_;
  std::map<Key, Request> requests_ ATTNDB_GUARDED_BY(mutex_);
  uint64_t num_written_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_BUILDER_H_
