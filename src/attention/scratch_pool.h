// Scratch memory of calls: shared by all sessions of a DB, and counted in its memory limit.
//
// A call leases one block and returns it when it ends. Unused blocks wait for the next call as
// residents of the budget, which drops them if the memory is wanted for something else. So there
// are never more blocks than concurrent calls, and a call like earlier ones allocates nothing.
//
// Errors:  kResourceExhausted, of the budget or the system, with numbers.
// Threads: thread-safe. Outlives its leases; the budget outlives it.
#ifndef ATTNDB_ATTENTION_SCRATCH_POOL_H_
#define ATTNDB_ATTENTION_SCRATCH_POOL_H_

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "common/mutex.h"
#include "storage/kv/memory_budget.h"

namespace attndb::attention {

class ScratchPool;

// A block of memory; goes back to the pool when destroyed.
class ScratchLease {
 public:
  ScratchLease() = default;  // Holds nothing.
  ScratchLease(ScratchLease&& other) noexcept = default;
  ScratchLease& operator=(ScratchLease&& other) noexcept;
  ~ScratchLease() { Return(); }

  // 64-byte aligned; contents are indeterminate.
  std::byte* data() const;
  size_t size() const;  // Bytes of the block: at least the requested number.
  void Return();

 private:
  friend class ScratchPool;
  struct Block;
  ScratchLease(ScratchPool* pool, std::shared_ptr<Block> block)
      : pool_(pool), block_(std::move(block)) {}

  ScratchPool* pool_ = nullptr;
  std::shared_ptr<Block> block_;  // Null: it holds nothing.
};

class ScratchPool {
 public:
  explicit ScratchPool(storage::MemoryBudget* budget) : budget_(budget) {}
  ScratchPool(const ScratchPool&) = delete;
  ScratchPool& operator=(const ScratchPool&) = delete;

  Result<ScratchLease> Lease(size_t num_bytes) ATTNDB_EXCLUDES(mutex_);

 private:
  friend class ScratchLease;
  using Block = ScratchLease::Block;
  struct Idle {
    size_t num_bytes = 0;
    std::weak_ptr<Block> block;  // Kept alive by the budget.
  };

  // The smallest idle block of at least num_bytes, else the largest one; null if all are leased.
  std::shared_ptr<Block> TakeIdle(size_t num_bytes) ATTNDB_EXCLUDES(mutex_);
  Result<std::shared_ptr<Block>> MakeBlock(size_t num_bytes, size_t wanted_bytes);
  void Return(std::shared_ptr<Block> block) ATTNDB_EXCLUDES(mutex_);

  storage::MemoryBudget* const budget_;

  // A leaf: nothing is locked under it.
  Mutex mutex_;
  std::vector<Idle> idle_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_SCRATCH_POOL_H_
