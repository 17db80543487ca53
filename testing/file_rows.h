// Rows of a chain that are read from the segments' files when they are asked for, each by itself,
// and are nowhere afterwards: what a source is that keeps nothing in memory. It counts.
//
// Threads: as ChainSource. Counts may be taken by any thread.
#ifndef ATTNDB_TESTING_FILE_ROWS_H_
#define ATTNDB_TESTING_FILE_ROWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/mutex.h"
#include "storage/kv/chain_rows.h"
#include "storage/kv/chain_source.h"

namespace attndb::test {

// Counts what all sources that share it have read.
class RowCounts {
 public:
  // (run, kv head, part, row of the run)
  using Row = std::tuple<uint32_t, uint32_t, storage::RowPart, uint64_t>;

  void Add(const Row& row) ATTNDB_EXCLUDES(mutex_);
  // The different rows that were read since the last call.
  std::set<Row> Take() ATTNDB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  std::set<Row> rows_ ATTNDB_GUARDED_BY(mutex_);
};

class FileRows final : public storage::ChainSource {
 public:
  explicit FileRows(std::shared_ptr<RowCounts> counts) : counts_(std::move(counts)) {}

  void Reset(const storage::LayerShape& shape, DType dtype) override ATTNDB_EXCLUDES(mutex_);
  void AddSegment(storage::Segment* segment, LayerId layer, uint64_t num_tokens) override;
  void AddTail(const storage::KvTail& tail, LayerId layer, int64_t first_position) override;
  std::span<const uint64_t> run_tokens() const override { return run_tokens_; }
  Status BringRun(uint32_t /*run*/) override { return Status::Ok(); }
  Status Acquire(storage::RowLease* lease) const override ATTNDB_EXCLUDES(mutex_);
  std::optional<Failure> TakeFailure() override ATTNDB_EXCLUDES(mutex_);

 private:
  struct SegmentRun {
    storage::Segment* segment = nullptr;
    LayerId layer = 0;
  };
  // The rows that the requests of a lease have read.
  struct Copies {
    std::vector<AlignedBuffer> buffers;
    std::vector<std::unique_ptr<uint32_t[]>> lists;
  };
  Status ReadRequest(const storage::RowRequest& request, std::byte* to) const
      ATTNDB_EXCLUDES(mutex_);
  void PlaceTail(const storage::RowRequest& request, storage::RowLease* lease) const;

  const std::shared_ptr<RowCounts> counts_;
  storage::RowFormats formats_;
  std::vector<SegmentRun> segments_;
  std::vector<uint64_t> run_tokens_;
  storage::ChainRows tail_;  // Its runs are numbered from 0.

  mutable Mutex mutex_;
  mutable std::map<const storage::RowLease*, Copies> copies_ ATTNDB_GUARDED_BY(mutex_);
  mutable std::optional<Failure> failure_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_FILE_ROWS_H_
