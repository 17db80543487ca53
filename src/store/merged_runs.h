// The merges since the store was opened, for holders of the old segments. A session's chain gets
// the merged segment in place of the whole run, or stays as it is.
//
// Threads: ReplaceRun is a pure function; MergedRuns is thread-safe.
#ifndef ATTNDB_STORE_MERGED_RUNS_H_
#define ATTNDB_STORE_MERGED_RUNS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "common/mutex.h"
#include "storage/kv/chain_entry.h"
#include "storage/kv/segment.h"
#include "store/catalog/catalog_types.h"

namespace attndb::store {

// Consecutive segments of a chain with their used tokens, and the segment that was made of these
// tokens.
struct MergedRun {
  std::vector<ChainLink> run;
  std::shared_ptr<storage::Segment> merged;
};

// Returns the chain with the merged segment in place of the run. The chain may use fewer tokens of
// the run's last segment. Returns nothing if the chain does not hold the whole run.
std::optional<std::vector<storage::ChainEntry>> ReplaceRun(
    std::span<const storage::ChainEntry> chain, const MergedRun& merged);

class MergedRuns {
 public:
  using Test = std::function<bool(const MergedRun&)>;

  // `is_ready` tells whether the merged segment may already replace the run. It is called under a
  // lock and must not call back. `changed` is called when Renew may find more than before; it may
  // be null.
  explicit MergedRuns(Test is_ready, std::function<void()> changed = nullptr)
      : is_ready_(std::move(is_ready)), changed_(std::move(changed)) {}

  void Add(MergedRun run) ATTNDB_EXCLUDES(mutex_);
  // Tells that a run may have become ready, if there are runs.
  void Announce() const;
  // Forgets the runs that pass the test; returns how many did.
  size_t Forget(const Test& test) ATTNDB_EXCLUDES(mutex_);
  // Returns the chain after all replacements that apply and are ready, in the order of merging;
  // nothing if there is none.
  std::optional<std::vector<storage::ChainEntry>> Renew(
      std::span<const storage::ChainEntry> chain) const ATTNDB_EXCLUDES(mutex_);

  // The number of added runs. While it is 0 or unchanged, calling Renew is unnecessary.
  const std::atomic<uint64_t>& num_added() const { return num_added_; }

 private:
  const Test is_ready_;
  const std::function<void()> changed_;

  mutable Mutex mutex_;
  std::vector<MergedRun> runs_ ATTNDB_GUARDED_BY(mutex_);
  // Written under mutex_, read without it. Release pairs with the reader's acquire.
  std::atomic<uint64_t> num_added_ = 0;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_MERGED_RUNS_H_
