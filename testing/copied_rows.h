// A source that copies each row that it is asked for, and nothing beside it, to a place of its own:
// what reads rows that it did not ask for meets NaN. It counts what was asked for.
//
// Ranges:  pieces of RowLease::kPieceRows rows, with NaN between them, unless one is asked for
//          whole.
// Threads: thread-safe. Rows of a lease stay until it asks again.
#ifndef ATTNDB_TESTING_COPIED_ROWS_H_
#define ATTNDB_TESTING_COPIED_ROWS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/mutex.h"
#include "storage/kv/row_source.h"

namespace attndb::test {

class CopiedRows final : public storage::RowSource {
 public:
  // (run, kv head, row of the run)
  using Asked = std::set<std::tuple<uint32_t, uint32_t, uint64_t>>;

  // Copies from `base`, which must outlive it, and forgets what was asked for.
  void Reset(const storage::RowSource* base) ATTNDB_EXCLUDES(mutex_);

  Status Acquire(storage::RowLease* lease) const override ATTNDB_EXCLUDES(mutex_);

  // Rows that were asked for, since Reset.
  Asked asked(storage::RowPart part) const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Copies {
    std::vector<AlignedBuffer> buffers;
    std::vector<std::unique_ptr<uint32_t[]>> lists;  // 0, 1, ...: where listed rows are.
  };
  void Note(const storage::RowRequest& request) const ATTNDB_REQUIRES(mutex_);
  // Copy the request `number` of a lease that was read in `from`.
  static void CopyList(const storage::RowLease& from, size_t number, storage::RowLease* lease,
                       Copies* copies);
  static void CopyRange(const storage::RowLease& from, size_t number, storage::RowLease* lease,
                        Copies* copies);

  const storage::RowSource* base_ = nullptr;
  mutable Mutex mutex_;
  mutable std::map<const storage::RowLease*, Copies> copies_ ATTNDB_GUARDED_BY(mutex_);
  mutable Asked keys_ ATTNDB_GUARDED_BY(mutex_);
  mutable Asked values_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_COPIED_ROWS_H_
