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
    bool writes = true;  // Else objects are built in memory only.
    // A kind that every segment gets beside those that always have it; null: none.
    const Kind* also = nullptr;
    bool looks_again = false;  // Another process may publish objects, which are looked for.
    bool grows = false;        // Objects of merged segments go on from those of the first of them.
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

  // The layer's objects of the kind. Null if they are not ready: then they are asked for.
  // REQUIRES: it has the layer, which is as `spec` says.
  LayerObjectsPtr Get(const storage::Segment& segment, const Kind& kind, LayerId layer,
                      const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // The same of a tail's block.
  LayerObjectsPtr Get(const std::shared_ptr<const storage::TailBlock>& block, const Kind& kind,
                      LayerId layer, const LayerSpec& spec) ATTNDB_EXCLUDES(mutex_);
  // What could not be read is dropped in the background, if its bytes are wrong.
  void ReportLoss(const storage::ObjectName& name, const Kind& kind, const Status& status);

  // --- For the store. ---

  // Whether it is a kind that every segment is to have.
  bool IsForAll(const Kind& kind) const { return kind.traits().always || &kind == options_.also; }
  // Whether it is of such a kind, or the segment is to have it all the same.
  bool IsWanted(const SegmentFacts& segment, const Kind& kind) const {
    return IsForAll(kind) || segment.IsWished(kind.traits().object);
  }
  // Builds what the segment lacks of the kinds that every segment has, and of its wishes.
  void Schedule(const SegmentFacts& segment) ATTNDB_EXCLUDES(mutex_);
  // The job that makes what the segment, or a layer of the block, lacks of the kind, which a
  // session has asked for or the store has scheduled, or that has tried that last, and so tells why
  // it is not there; null if there is none.
  Lanes::AddedPtr JobOf(const storage::Segment& segment, const Kind& kind) const
      ATTNDB_EXCLUDES(mutex_);
  Lanes::AddedPtr JobOf(const storage::TailBlock& block, const Kind& kind, LayerId layer) const
      ATTNDB_EXCLUDES(mutex_);
  // Builds the segment's object of the kind. Null if it does not lack that; else the job, for
  // Lanes::WaitFor: one that is asked for already, or a new one.
  Lanes::AddedPtr Order(const SegmentFacts& segment, const Kind& kind) ATTNDB_EXCLUDES(mutex_);
  // `merged` takes the place of a run of segments, of which the first is in it as a whole: what
  // grows goes on from that one's objects. Nothing is built before Schedule.
  void GrowFrom(const storage::Segment& first, const SegmentFacts& facts,
                const SegmentFacts& merged) ATTNDB_EXCLUDES(mutex_);
  // Whether the segment lacks an object that every segment has, or that is wished or asked for.
  bool IsPending(const SegmentFacts& segment) const ATTNDB_EXCLUDES(mutex_);
  // Forgets what is asked for of the segment; a job that is under way is told to end.
  void Cancel(SegmentId segment) ATTNDB_EXCLUDES(mutex_);
  // The same for all segments; waits until the jobs under way have ended.
  void CancelAll() ATTNDB_EXCLUDES(mutex_);

  // Objects that were written and published.
  uint64_t num_written() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Request {
    enum class State {
      kNew,     // Nothing is done about it yet.
      kQueued,  // Or under way.
      kEnded,   // In vain: not again before ended_ns + kAskAgainNs.
    };
    State state = State::kNew;
    bool by_session = false;  // Somebody waits for it: memory will do.
    Lanes::AddedPtr job;      // If it is queued; and if it has ended, the last.
    int64_t ended_ns = 0;
    std::optional<PriorObject> prior;  // Its file stays open until then.
  };
  struct Key {
    RunId run = 0;
    size_t kind = 0;    // Its number.
    LayerId layer = 0;  // Of a block; of a segment, 0 stands for all.
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Makes what a key names; true: it is ready.
  using Make = std::function<Result<bool>(Lanes::Control*)>;

  Key KeyOf(RunId run, const Kind& kind, LayerId layer = 0) const {
    return {run, parts_.kinds->NumberOf(kind), layer};
  }
  void Ask(const storage::Segment& segment, const Kind& kind) ATTNDB_EXCLUDES(mutex_);
  // Notes that a session asks; false: it has done so, and it is early to make it again.
  bool IsDue(const Key& key) ATTNDB_REQUIRES(mutex_);
  void QueueSegment(const Key& key, uint64_t work) ATTNDB_REQUIRES(mutex_);
  // Notes in the background that the segment is to have the kind.
  void QueueWish(RunId segment, const Kind& kind);
  void Queue(const Key& key, uint64_t work, Make make) ATTNDB_REQUIRES(mutex_);
  // The job of a request that waits or is under way; else null.
  Lanes::AddedPtr QueuedJob(const Key& key) const ATTNDB_REQUIRES(mutex_);
  // The same of one that has ended, too.
  Lanes::AddedPtr LastJob(const Key& key) const ATTNDB_REQUIRES(mutex_);
  // Whether it waits or is under way.
  bool IsAsked(const Key& key) const ATTNDB_REQUIRES(mutex_);
  bool IsAskedBySession(const Key& key) const ATTNDB_EXCLUDES(mutex_);
  void End(const Key& key, bool is_ready) ATTNDB_EXCLUDES(mutex_);
  // The object of `first`, of which the facts are known, that one of a longer segment goes on from.
  std::optional<PriorObject> OpenPrior(const storage::Segment& first, const SegmentFacts& facts,
                                       const Kind& kind) const;
  std::optional<PriorObject> PriorOf(const Key& key) const ATTNDB_EXCLUDES(mutex_);
  // Forgets requests that ended long ago.
  void Shrink() ATTNDB_REQUIRES(mutex_);

  // The jobs. `work` is what they report in all.
  Status MakeOfSegment(const Key& key, uint64_t work, Lanes::Control* control)
      ATTNDB_EXCLUDES(mutex_);
  Status Write(const OpenedSegment& opened, const Kind& kind, uint64_t work,
               Lanes::Control* control) ATTNDB_EXCLUDES(mutex_);
  bool HasRoomBeside(const OpenedSegment& opened, const Kind& kind) const;
  Status BuildInMemory(const OpenedSegment& opened, const Kind& kind, uint64_t work,
                       Lanes::Control* control);
  // False: memory is short, so that K and V are read.
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
