// Makes derived objects in the background: sessions and the store ask, what is made is ready in the
// cache. Nobody waits for it: until an object is ready, K and V are read instead.
//
// Asked:   a session asks for what a plan reads and is not ready (Get); of a segment it is noted as
//          a wish, which survives the process. The store asks, once a segment is published, for the
//          kinds that every segment has and for those that are wished for (Schedule); and for one
//          kind where a caller wants that and waits for it (Order).
// Made:    an object is written and published, where the store allows that. If it may not be, or
//          has no room, what a session asked for is built in memory, as far as memory is free. Of a
//          tail's block, every kind is: layer by layer, as sessions ask, and as long as one has it.
// Lanes:   kinds that take long have a lane of their own, so that they delay no others.
// Cut off: a slow build that is told to end, as when the store is closed, publishes the heads that
//          it has made as an object of another name (Kind::Traits::begun). The next build takes
//          them over.
// Limits:  one job at a time for an object; one that was made in vain may be asked for again after
//          kAskAgainNs.
// Errors:  those of jobs, kept by Lanes::Wait.
// Threads: thread-safe. Get and what else a session calls take no lock that is held over I/O. Order
//          of locks: the builder's, then that of the lanes.
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
    // A kind that every segment gets beside those that all segments have; null: none.
    const Kind* also = nullptr;
    // Another process may publish objects, so the catalog is asked again.
    bool looks_again = false;
    // The objects of a merged segment grow from those of the first segment in it.
    bool grows = false;
    // Nanoseconds of a clock that only runs forward.
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

  // All parts must outlive the builder; the lanes must have stopped before it goes.
  Builder(const Parts& parts, const Options& options) : parts_(parts), options_(options) {}

  // --- For sessions. ---

  // The objects of a kind in one layer. Null if they are not ready: then they are asked for. Reads
  // a file at most; never waits for a build. REQUIRES: the segment has the layer, which is as
  // `spec` says.
  LayerObjectsPtr Get(const storage::Segment& segment, const Kind& kind, LayerId layer,
                      const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // The same for a block of a session's tail.
  LayerObjectsPtr Get(const std::shared_ptr<const storage::TailBlock>& block, const Kind& kind,
                      LayerId layer, const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // Tells that an object could not be read. It is dropped in the background, if its bytes are
  // wrong.
  void ReportLoss(const storage::ObjectName& name, const Kind& kind, const Status& status);

  // --- For the store. ---

  // Whether every segment is to have an object of the kind.
  bool IsForAll(const Kind& kind) const { return kind.traits().always || &kind == options_.also; }
  // Whether this segment is to have an object of the kind: every segment is, or it is wished for.
  bool IsWanted(const SegmentFacts& segment, const Kind& kind) const {
    return IsForAll(kind) || segment.IsWished(kind.traits().object);
  }
  // Asks for the objects that the segment lacks, of the kinds that every segment has and of its
  // wishes.
  void Schedule(const SegmentFacts& segment) ATTNDB_EXCLUDES(mutex_);
  // The job that makes the kind's objects of the segment, or of a layer of the block: one that a
  // session or the store has asked for, else the last that tried, whose status tells why there are
  // none. Null if nobody has asked.
  Lanes::AddedPtr JobOf(const storage::Segment& segment, const Kind& kind) const
      ATTNDB_EXCLUDES(mutex_);
  Lanes::AddedPtr JobOf(const storage::TailBlock& block, const Kind& kind, LayerId layer) const
      ATTNDB_EXCLUDES(mutex_);
  // Asks for the segment's object of the kind. Returns the job, for Lanes::WaitFor: one that is
  // asked for already, or a new one. Null if the segment has the object.
  Lanes::AddedPtr Order(const SegmentFacts& segment, const Kind& kind) ATTNDB_EXCLUDES(mutex_);
  // Tells that `merged` replaces a run of segments, the first of which is in it as a whole: kinds
  // that grow begin `merged`'s objects with those of `first`. Builds nothing before Schedule.
  void GrowFrom(const storage::Segment& first, const SegmentFacts& facts,
                const SegmentFacts& merged) ATTNDB_EXCLUDES(mutex_);
  // Whether the segment lacks an object that every segment has, or that is wished or asked for.
  bool IsPending(const SegmentFacts& segment) const ATTNDB_EXCLUDES(mutex_);
  // Forgets what was asked for of the segment. A job under way is told to end; does not wait for
  // it.
  void Cancel(SegmentId segment) ATTNDB_EXCLUDES(mutex_);
  // Forgets what was asked for of all segments, and waits until the builds under way have ended.
  // Jobs of other lanes go on.
  void CancelAll() ATTNDB_EXCLUDES(mutex_);

  // Number of objects that were written and published.
  uint64_t num_written() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Request {
    enum class State {
      kNew,     // No job was added for it yet.
      kQueued,  // Its job waits or is under way.
      kEnded,   // Its job ended without an object: no new one before ended_ns + kAskAgainNs.
    };
    State state = State::kNew;
    bool by_session = false;  // A session asked: an object in memory will do.
    Lanes::AddedPtr job;      // The job while kQueued, the last job once kEnded.
    int64_t ended_ns = 0;
    // What the object grows from; its file stays open until the job has run.
    std::optional<PriorObject> prior;
  };
  struct Key {
    RunId run = 0;
    size_t kind = 0;    // Kinds::NumberOf.
    LayerId layer = 0;  // Layer of a block; for a segment 0, which stands for all.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Makes the object that a key names. False: it is not ready, for lack of room.
  using Make = std::function<Result<bool>(Lanes::Control*)>;

  Key KeyOf(RunId run, const Kind& kind, LayerId layer = 0) const {
    return {run, parts_.kinds->NumberOf(kind), layer};
  }
  void Ask(const storage::Segment& segment, const Kind& kind) ATTNDB_EXCLUDES(mutex_);
  // Notes that a session asks. False: a job was added already, or ended a short while ago.
  bool IsDue(const Key& key) ATTNDB_REQUIRES(mutex_);
  // `owner`: of the segment.
  void QueueSegment(const Key& key, uint64_t owner, uint64_t work) ATTNDB_REQUIRES(mutex_);
  // Notes in the background that the segment is to have the kind.
  void QueueWish(RunId segment, const Kind& kind);
  void Queue(const Key& key, uint64_t owner, uint64_t work, Make make) ATTNDB_REQUIRES(mutex_);
  // The job of a request that waits or is under way; else null.
  Lanes::AddedPtr QueuedJob(const Key& key) const ATTNDB_REQUIRES(mutex_);
  // The job of a request that waits, is under way or has ended; else null.
  Lanes::AddedPtr LastJob(const Key& key) const ATTNDB_REQUIRES(mutex_);
  // Whether a job for the key waits or is under way.
  bool IsAsked(const Key& key) const ATTNDB_REQUIRES(mutex_);
  bool IsAskedBySession(const Key& key) const ATTNDB_EXCLUDES(mutex_);
  void End(const Key& key, bool is_ready) ATTNDB_EXCLUDES(mutex_);
  // The object of `first` from which one of a longer segment can grow. `facts` are those of
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
  // What an earlier build left of a segment's object. The record belongs to the segment's facts.
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
