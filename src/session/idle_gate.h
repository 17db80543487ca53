// Tells whether an object is in use, and keeps users out for a moment if it is not.
//
//   user:   gate.Enter(); use; gate.Leave();
//   other:  if (gate.TryClose()) { change; gate.Open(); }
//
// Waiting: Enter waits while the gate is closed, as event_count.h does; no other function waits.
// Errors:  none.
// Threads: thread-safe.
// Atomics: each side sees the other's writes before Leave or Open. Leave and TryClose are
//          sequentially consistent. So if TryClose fails, a flag that was set before TryClose is
//          seen when it is read after Leave.
#ifndef ATTNDB_SESSION_IDLE_GATE_H_
#define ATTNDB_SESSION_IDLE_GATE_H_

#include <atomic>
#include <cstdint>

#include "common/event_count.h"

namespace attndb::internal {

class IdleGate {
 public:
  void Enter() {
    while (!TryEnter()) opened_.Await([this] { return num_users_.load() != kClosed; });
  }
  void Leave() { num_users_.fetch_sub(1); }

  // Closes the gate if it has no users and is not closed already.
  bool TryClose() {
    uint32_t none = 0;
    return num_users_.compare_exchange_strong(none, kClosed);
  }
  // REQUIRES: the caller has closed the gate.
  void Open() {
    num_users_.store(0);
    opened_.WakeAll();
  }

 private:
  static constexpr uint32_t kClosed = ~uint32_t{0};

  bool TryEnter() {
    uint32_t found = num_users_.load(std::memory_order_relaxed);
    while (found != kClosed) {
      if (num_users_.compare_exchange_weak(found, found + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  std::atomic<uint32_t> num_users_ = 0;
  EventCount opened_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_IDLE_GATE_H_
