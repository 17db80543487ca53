// Rows of a layer of a chain, in memory. A segment's layer is read whole when its first row is
// requested. Runs that are already in memory, such as a tail's, are not copied.
//
// Keys:    not copied either, unless they are stored without RoPE: then each lease has copies.
// Errors:  those of Segment::PinLayer.
// Memory:  a layer stays in memory until Reset. Adding runs allocates nothing once buffers have
//          grown.
// Threads: as ChainSource. If several threads request a segment first, one reads it and the others
//          wait.
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
  void AddTail(const KvTail& tail, LayerId layer, int64_t first_position) override;
  // Adds a run that is in memory: [num_kv_heads] heads of equal length, their first token at
  // position 0.
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
    int64_t first_position = 0;
    std::vector<KvRows> rows;  // By kv head.
    LayerPin pin;              // Pin of the segment's layer. Written once, under mutex_.
    // [num_kv_heads]; null until the segment's layer is in memory. Set with release, read with
    // acquire, so that a reader sees the rows.
    std::atomic<const KvRows*> heads = nullptr;
  };

  Run& NextRun(uint64_t num_tokens);
  // The rows of a run of a segment. REQUIRES: it is one.
  Result<const KvRows*> Bring(uint32_t number) const ATTNDB_EXCLUDES(mutex_);

  RowFormats formats_;
  std::shared_ptr<const PositionTurns> key_turns_;  // See LayerShape::key_turns.
  std::vector<uint64_t> run_tokens_;
  std::vector<std::unique_ptr<Run>> runs_;  // The first run_tokens_.size() are in use.

  // No I/O is waited for under it.
  mutable Mutex mutex_;
  mutable std::optional<Failure> failure_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_CHAIN_ROWS_H_
