// The way into one call that several threads share, each with a part of it: the first part to
// enter sets the call up, the last that leaves ends it.
//
//   const CallGate::Call found = gate.Enter(call, [&] { Begin(); });
//   if (found != call) refuse: a part of another call;
//   work;
//   gate.Leave([&] { End(); });
//
// Order:   no part works before `begin` returned, and `end` runs after all have worked. Parts may
//          come at the same time, or one after another in one thread: none waits for one that has
//          not come yet.
// Errors:  none; a part of another call than the one under way is told which one that is.
// Threads: thread-safe.
// Atomics: the release of call_ = 0 by the last part of a call pairs with the acquire of call_ by
//          all parts of the next, which so see neither state nor is_open_ of the call before.
//          is_open_ is set after `begin`; a part that sees it set sees what `begin` wrote. The
//          release of each decrement of num_inside_ pairs with the acquire of the last one, so that
//          `end` sees what all parts wrote.
#ifndef ATTNDB_SESSION_CALL_GATE_H_
#define ATTNDB_SESSION_CALL_GATE_H_

#include <atomic>
#include <cstdint>

#include "attndb/types.h"
#include "common/event_count.h"

namespace attndb::internal {

class CallGate {
 public:
  struct Call {
    LayerId layer = 0;
    uint32_t num_parts = 0;  // 1 or more.
    friend bool operator==(const Call&, const Call&) = default;
  };

  // Lets a part of `call` in, once `begin` has run, which the first part does. Returns the call
  // under way: if that is another one, the part is not let in.
  template <typename Begin>
  Call Enter(const Call& call, const Begin& begin) {
    const uint64_t word = (uint64_t{call.layer} << 32) | call.num_parts;
    uint64_t found = 0;
    if (call_.compare_exchange_strong(found, word, std::memory_order_acquire)) {
      begin();
      num_inside_.store(call.num_parts, std::memory_order_relaxed);
      is_open_.store(true);
      opened_.WakeAll();
      return call;
    }
    if (found == word) opened_.Await([this] { return is_open_.load(); });
    return {static_cast<LayerId>(found >> 32), static_cast<uint32_t>(found)};
  }

  // REQUIRES: each part that was let in leaves, once.
  template <typename End>
  void Leave(const End& end) {
    if (num_inside_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    end();
    is_open_.store(false, std::memory_order_relaxed);
    call_.store(0, std::memory_order_release);
  }

  bool is_under_way() const { return call_.load(std::memory_order_acquire) != 0; }

 private:
  std::atomic<uint64_t> call_ = 0;  // Layer and number of parts; 0: no call is under way.
  std::atomic<bool> is_open_ = false;
  // Parts that have not left yet, whether or not they have entered.
  std::atomic<uint32_t> num_inside_ = 0;
  EventCount opened_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_CALL_GATE_H_
