// The limit on bytes in memory of K and V, of derived objects and of scratch; and the list of
// residents that may be dropped under that limit.
//
// Every holder of such bytes reserves them first. Data that can be had again (a verified layer of a
// segment, unused scratch) is registered as resident. If a reservation does not fit, residents that
// only the budget holds are dropped: first the most recently used resident of the least recently
// used group (segment).
//
// Reason:  decoding passes through the layers of a context again and again, so the layer that was
//          used last is needed latest. Dropping the least recently used layer would always drop the
//          next one to be used. A context one layer larger than memory would then be read from disk
//          whole for every token.
//
// Errors:  kResourceExhausted naming the request, the limit and the bytes in use.
// Threads: thread-safe. Must outlive every reservation.
#ifndef ATTNDB_STORAGE_KV_MEMORY_BUDGET_H_
#define ATTNDB_STORAGE_KV_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/result.h"
#include "common/mutex.h"

namespace attndb::storage {

class MemoryBudget;

// Bytes taken from a budget; gives them back when destroyed.
class Reservation {
 public:
  Reservation() = default;  // Holds nothing.
  Reservation(Reservation&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Release(); }

  uint64_t bytes() const { return bytes_; }
  void Release();

 private:
  friend class MemoryBudget;
  Reservation(MemoryBudget* budget, uint64_t bytes) : budget_(budget), bytes_(bytes) {}

  MemoryBudget* budget_ = nullptr;
  uint64_t bytes_ = 0;
};

// Residents that are used together, one after another: the layers of a segment.
class ResidentGroup {
 private:
  friend class MemoryBudget;
  // Tick of the last use of any resident of the group. Relaxed, as Resident's.
  std::atomic<uint64_t> last_use_{0};
};

// Something in memory that can be made again. Owns its reservation.
class Resident {
 public:
  virtual ~Resident() = default;

 protected:
  Resident(Reservation reservation, std::shared_ptr<ResidentGroup> group)
      : reservation_(std::move(reservation)), group_(std::move(group)) {}

 private:
  friend class MemoryBudget;
  Reservation reservation_;
  const std::shared_ptr<ResidentGroup> group_;
  // Tick of the last use. Relaxed: an old value only makes the choice of a victim less good.
  mutable std::atomic<uint64_t> last_use_{0};
};

class MemoryBudget {
 public:
  explicit MemoryBudget(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}
  ~MemoryBudget();
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // Takes `bytes`, dropping residents if necessary. `what` names the request in the error. Does not
  // wait for the disk.
  Result<Reservation> Reserve(uint64_t bytes, std::string_view what) ATTNDB_EXCLUDES(mutex_);

  // Takes `bytes` if they are free, and drops nothing: for data that is worth having only if there
  // is room.
  std::optional<Reservation> ReserveIfFree(uint64_t bytes);

  // Keeps `resident` in memory until it is dropped for room, or by Drop.
  void Keep(std::shared_ptr<const Resident> resident) ATTNDB_EXCLUDES(mutex_);
  // Marks the resident as just used.
  void Touch(const Resident& resident) {
    const uint64_t now = tick_.fetch_add(1, std::memory_order_relaxed) + 1;
    resident.last_use_.store(now, std::memory_order_relaxed);
    resident.group_->last_use_.store(now, std::memory_order_relaxed);
  }
  // Takes the resident off the list. It is freed when its last holder releases it.
  void Drop(const Resident* resident) ATTNDB_EXCLUDES(mutex_);

  uint64_t limit_bytes() const { return limit_bytes_; }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }
  uint64_t num_dropped() const { return num_dropped_.load(std::memory_order_relaxed); }

 private:
  friend class Reservation;

  bool TryTake(uint64_t bytes);
  void GiveBack(uint64_t bytes);
  // Takes the resident that should be dropped first off the list; null if others hold all of them.
  std::shared_ptr<const Resident> TakeVictim() ATTNDB_EXCLUDES(mutex_);
  static bool DropsBefore(const Resident& a, const Resident& b);

  const uint64_t limit_bytes_;

  // Counts only; no memory is published through them, so all are relaxed.
  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> num_dropped_{0};
  std::atomic<uint64_t> tick_{0};

  // A leaf: nothing else is locked, and no resident destroyed, under it.
  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const Resident>> residents_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_MEMORY_BUDGET_H_
