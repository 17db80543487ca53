#include "storage/kv/memory_budget.h"

#include <algorithm>
#include <string>

#include "attndb/units.h"
#include "common/check.h"

namespace attndb::storage {

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Release();
    budget_ = std::exchange(other.budget_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void Reservation::Release() {
  if (budget_ != nullptr) budget_->GiveBack(bytes_);
  budget_ = nullptr;
  bytes_ = 0;
}

MemoryBudget::~MemoryBudget() {
  std::vector<std::shared_ptr<const Resident>> residents;
  {
    MutexLock lock(&mutex_);
    residents.swap(residents_);
  }
  residents.clear();
  ATTNDB_CHECK(used_bytes() == 0);  // Someone would release into freed memory.
}

Result<Reservation> MemoryBudget::Reserve(uint64_t bytes, std::string_view what) {
  while (!TryTake(bytes)) {
    // The victim is freed at the end of the iteration, outside the mutex, and only if no pin came
    // meanwhile. A request that would not fit into an empty budget drops nothing.
    const std::shared_ptr<const Resident> victim = bytes <= limit_bytes_ ? TakeVictim() : nullptr;
    if (victim == nullptr) {
      // The amount in use would tell a tenant about the others; DB::Stats tells it to permitted
      // callers.
      return Status::ResourceExhausted(std::string(what) + " needs " + FormatBytes(bytes) +
                                       " of host memory, which the limit of " +
                                       FormatBytes(limit_bytes_) +
                                       " has no room for now; close sessions, or raise the limit");
    }
  }
  return Reservation(this, bytes);
}

std::optional<Reservation> MemoryBudget::ReserveIfFree(uint64_t bytes) {
  if (!TryTake(bytes)) return std::nullopt;
  return Reservation(this, bytes);
}

bool MemoryBudget::TryTake(uint64_t bytes) {
  uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_bytes_ || used > limit_bytes_ - bytes) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  return true;
}

void MemoryBudget::GiveBack(uint64_t bytes) {
  const uint64_t before = used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  ATTNDB_CHECK(before >= bytes);
}

void MemoryBudget::Keep(std::shared_ptr<const Resident> resident) {
  Touch(*resident);
  MutexLock lock(&mutex_);
  residents_.push_back(std::move(resident));
}

void MemoryBudget::Drop(const Resident* resident) {
  std::shared_ptr<const Resident> dropped;  // Freed after the mutex is released.
  MutexLock lock(&mutex_);
  const auto found = std::ranges::find_if(
      residents_, [=](const auto& candidate) { return candidate.get() == resident; });
  if (found == residents_.end()) return;
  dropped = std::move(*found);
  *found = std::move(residents_.back());
  residents_.pop_back();
}

bool MemoryBudget::DropsBefore(const Resident& a, const Resident& b) {
  const uint64_t a_group = a.group_->last_use_.load(std::memory_order_relaxed);
  const uint64_t b_group = b.group_->last_use_.load(std::memory_order_relaxed);
  if (a_group != b_group) return a_group < b_group;
  return a.last_use_.load(std::memory_order_relaxed) > b.last_use_.load(std::memory_order_relaxed);
}

std::shared_ptr<const Resident> MemoryBudget::TakeVictim() {
  MutexLock lock(&mutex_);
  auto victim_place = residents_.end();
  for (auto it = residents_.begin(); it != residents_.end(); ++it) {
    // Other holders exist: dropping it would free nothing. An outdated count costs a retry or a
    // second read of the layer, never a wrong byte: the pins own their data.
    if (it->use_count() > 1) continue;
    if (victim_place == residents_.end() || DropsBefore(**it, **victim_place)) victim_place = it;
  }
  if (victim_place == residents_.end()) return nullptr;
  std::shared_ptr<const Resident> victim = std::move(*victim_place);
  *victim_place = std::move(residents_.back());
  residents_.pop_back();
  num_dropped_.fetch_add(1, std::memory_order_relaxed);
  return victim;
}

}  // namespace attndb::storage
