#include "common/thread_pool.h"

#include <algorithm>
#include <utility>

#include "attndb/num_cores.h"
#include "common/check.h"
#include "common/start_thread.h"

namespace attndb {

ThreadPool::ThreadPool(uint32_t num_threads)
    : num_threads_(num_threads == 0 ? NumCores() : num_threads),
      spins_(num_threads_ <= NumCores()) {
  workers_.reserve(num_threads_ - 1);
  for (uint32_t i = 1; i < num_threads_; ++i) {
    std::thread worker = TryStartThread([this] { WorkerLoop(); });
    if (!worker.joinable()) return;  // The existing threads take a call's parts.
    workers_.push_back(std::move(worker));
  }
}

ThreadPool::~ThreadPool() {
  for (const Slot& slot : slots_) ATTNDB_CHECK(!slot.is_taken.load());
  stopping_.store(true);
  work_.WakeAll();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(uint32_t num_parts, PartFn fn, const void* context) {
  Slot* const slot = workers_.empty() || num_parts <= 1 ? nullptr : TakeSlot();
  if (slot == nullptr) {
    for (uint32_t part = 0; part < num_parts; ++part) fn(context, part);
    return;
  }
  slot->fn = fn;
  slot->context = context;
  slot->num_parts = num_parts;
  slot->num_unfinished.store(num_parts, std::memory_order_relaxed);
  slot->num_unstarted.store(num_parts);
  work_.Wake(num_parts - 1);
  while (RunOnePart(slot)) {
  }
  slot->done.Await([slot] { return slot->num_unfinished.load() == 0; }, spins_);
  slot->is_taken.store(false, std::memory_order_release);
}

ThreadPool::Slot* ThreadPool::TakeSlot() {
  for (Slot& slot : slots_) {
    if (!slot.is_taken.exchange(true, std::memory_order_acquire)) return &slot;
  }
  return nullptr;
}

bool ThreadPool::RunOnePart(Slot* slot) {
  uint32_t num_left = slot->num_unstarted.load(std::memory_order_relaxed);
  do {
    if (num_left == 0) return false;
  } while (!slot->num_unstarted.compare_exchange_weak(
      num_left, num_left - 1, std::memory_order_acquire, std::memory_order_relaxed));
  slot->fn(slot->context, slot->num_parts - num_left);
  // After the last part the slot may be another caller's, which is then woken for nothing.
  if (slot->num_unfinished.fetch_sub(1) == 1) slot->done.WakeAll();
  return true;
}

bool ThreadPool::RunAnyPart() {
  return std::ranges::any_of(slots_, [](Slot& slot) { return RunOnePart(&slot); });
}

bool ThreadPool::HasPart() const {
  return std::ranges::any_of(slots_,
                             [](const Slot& slot) { return slot.num_unstarted.load() != 0; });
}

void ThreadPool::WorkerLoop() {
  while (!stopping_.load()) {
    if (!RunAnyPart()) work_.Await([this] { return HasPart() || stopping_.load(); }, spins_);
  }
}

}  // namespace attndb
