// The moments at which a session forked, and the contexts that hold the tokens from before.
//
// Sessions that forked from one another have the same K and V of their first tokens. The first of
// them that is stored writes these rows. A point remembers its context, so that the Stores of the
// others share the rows instead of writing them again.
//
// Family:  sessions that share a point, directly or through other sessions, have one family. Stores
//          of a family run one after another.
// Limits:  a session remembers its last 64 points, and a point the last 8 contexts.
// Threads: ForkPoint is thread-safe. ForkPoints is thread-compatible.
#ifndef ATTNDB_COMMON_FORK_POINTS_H_
#define ATTNDB_COMMON_FORK_POINTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "attndb/types.h"
#include "common/mutex.h"

namespace attndb {

class ForkPoint {
 public:
  static constexpr size_t kMaxContexts = 8;

  // A context whose first num_tokens tokens are those of the point's sessions.
  struct Stored {
    ContextId context = ContextId::kNone;
    uint64_t num_tokens = 0;

    friend bool operator==(const Stored&, const Stored&) = default;
  };

  // The family of `relative`, or a new one if it is null.
  explicit ForkPoint(const ForkPoint* relative);

  // Identifies the family as long as one of its points exists.
  const void* family() const { return family_.get(); }

  // A session has forked here. Else the point stands for a Store, and perhaps for no other session.
  void NoteForked() { is_forked_.store(true, std::memory_order_relaxed); }
  bool is_forked() const { return is_forked_.load(std::memory_order_relaxed); }

  void NoteStored(const Stored& stored) ATTNDB_EXCLUDES(mutex_);
  // The newest first.
  std::vector<Stored> stored() const ATTNDB_EXCLUDES(mutex_);

 private:
  const std::shared_ptr<const void> family_;
  std::atomic<bool> is_forked_ = false;  // Relaxed: a hint for the layout of segments.
  mutable Mutex mutex_;                  // A leaf.
  std::vector<Stored> stored_ ATTNDB_GUARDED_BY(mutex_);
};

// A point of a session, and how many of the session's first tokens the point's sessions share.
struct SharedFork {
  std::shared_ptr<ForkPoint> point;
  uint64_t num_tokens = 0;
};

class ForkPoints {
 public:
  static constexpr size_t kMaxPoints = 64;

  // Adds a point for all tokens of the session, which other sessions may have, too, from now on.
  // REQUIRES: the session has num_tokens tokens.
  void Add(uint64_t num_tokens);
  // The same for a session that forks now.
  void AddFork(uint64_t num_tokens) {
    Add(num_tokens);
    all_.back().point->NoteForked();
  }
  // The session keeps its first num_tokens tokens.
  void Crop(uint64_t num_tokens);
  // A context holds the session's first num_tokens tokens. Forgets the points that share no more.
  void Forget(uint64_t num_tokens);

  // In ascending order of num_tokens.
  const std::vector<SharedFork>& all() const { return all_; }

 private:
  std::vector<SharedFork> all_;
};

}  // namespace attndb

#endif  // ATTNDB_COMMON_FORK_POINTS_H_
