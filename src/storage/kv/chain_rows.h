// Rows of a layer of a chain, in memory: a segment's layer is read whole when its first row is
// asked for; runs that are in memory already, as a tail's are, stay where they are.
//
// Errors:  those of Segment::PinLayer.
// Memory:  a layer stays in memory until Reset. Adding runs allocates nothing once buffers have
//          grown.
// Threads: as ChainSource. Of several threads that ask first for a segment, one reads it and the
//          others wait.
#ifndef ATTNDB_STORAGE_KV_CHAIN_ROWS_H_
#define ATTNDB_STORAGE_KV_CHAIN_ROWS_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "common/mutex.h"
#include "storage/kv/chain_source.h"

namespace attndb::storage {

class ChainRows final : public ChainSource {
 public:
  void Reset(const LayerShape& shape, DType dtype) override ATTNDB_EXCLUDES(mutex_);
  void AddSegment(Segment* segment, LayerId layer, uint64_t num_tokens) override;
  void AddTail(const KvTail& tail, LayerId layer) override;
  // Adds a run that is in memory: [num_kv_heads] heads of equal length.
  void AddRun(std::span<const KvRows> heads);

  std::span<const uint64_t> run_tokens() const override { return run_tokens_; }
  Status BringRun(uint32_t run) override ATTNDB_EXCLUDES(mutex_);
  Status Acquire(RowLease* lease) const override ATTNDB_EXCLUDES(mutex_);
  const void* Resident(const Strip& strip) const override;
  std::optional<Failure> TakeFailure() override ATTNDB_EXCLUDES(mutex_);

 private:
  struct Run {
    Segment* segment = nullptr;  // Null: the run is in memory already, and `rows` has it.
    LayerId layer = 0;
    std::vector<KvRows> rows;  // By kv head.
    LayerPin pin;              // Pin of the segment's layer. Written once, under mutex_.
    // [num_kv_heads]; null until the segment's layer is in memory. Set with release, read with
    // acquire, so that a reader sees the rows.
    std::atomic<const KvRows*> heads = nullptr;
  };

  Run& NextRun(uint64_t num_tokens);
  Result<const KvRows*> Bring(Run* run) const ATTNDB_EXCLUDES(mutex_);

  RowFormats formats_;
  std::vector<uint64_t> run_tokens_;
  std::vector<std::unique_ptr<Run>> runs_;  // The first run_tokens_.size() of them.

  // No I/O is waited for under it.
  mutable Mutex mutex_;
  mutable std::optional<Failure> failure_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_CHAIN_ROWS_H_
