// The gate of one call that several threads share, each with a part. The first part to enter sets
// the call up; the last part to leave ends it.
//
//   ATTNDB_RETURN_IF_ERROR(gate.Enter(call, part, [&] { Begin(); }));
//   work;
//   gate.Leave([&] { End(); });
//
// Order:   no part works before `begin` has returned, and `end` runs after all parts have worked.
//          Parts may come at the same time, or one after another in one thread: no part waits for
//          one that has not come yet.
// Errors:  a part of another call than the one under way is refused, and so is a part that has come
//          already. A call whose parts do not all come stays under way until it is given up.
// Threads: thread-safe, except GiveUp.
// Atomics: the last part of a call stores call_ = 0 with release; all parts of the next call load
//          call_ with acquire. They so see no state of the call before: neither is_open_ nor its
//          parts. is_open_ is set after `begin`; a part that sees it set sees the writes of
//          `begin`. The release of each decrement of num_inside_ pairs with the acquire of the last
//          one, so that `end` sees the writes of all parts. The words of have_come_ order nothing.
#ifndef ATTNDB_SESSION_CALL_GATE_H_
#define ATTNDB_SESSION_CALL_GATE_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "attndb/status.h"
#include "attndb/types.h"
#include "common/event_count.h"

namespace attndb::internal {

class CallGate {
 public:
  static constexpr uint32_t kMaxParts = 1024;
  struct Call {
    LayerId layer = 0;
    uint32_t num_parts = 0;  // 1 to kMaxParts.
    friend bool operator==(const Call&, const Call&) = default;
  };

  // Lets a part of `call` in, once `begin` has run; the first part runs it.
  // Errors: kFailedPrecondition (another call is under way; the part has come already); the part is
  //         not let in then. REQUIRES: part < call.num_parts.
  template <typename Begin>
  Status Enter(const Call& call, uint32_t part, const Begin& begin) {
    const uint64_t word = (uint64_t{call.layer} << 32) | call.num_parts;
    uint64_t found = 0;
    if (call_.compare_exchange_strong(found, word, std::memory_order_acquire)) {
      for (std::atomic<uint64_t>& parts : have_come_) parts.store(0, std::memory_order_relaxed);
      begin();
      num_inside_.store(call.num_parts, std::memory_order_relaxed);
      is_open_.store(true);
      opened_.WakeAll();
    } else if (found != word) {
      return RefuseOther(call, CallOf(found));
    }
    opened_.Await([this] { return is_open_.load(); });
    const uint64_t bit = uint64_t{1} << (part % 64);
    if ((have_come_[part / 64].fetch_or(bit, std::memory_order_relaxed) & bit) == 0) return {};
    return RefuseTwice(call, part);
  }

  // REQUIRES: each part that was let in leaves exactly once.
  template <typename End>
  void Leave(const End& end) {
    if (num_inside_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    end();
    Close();
  }

  // Ends the call under way, if there is one, without the missing parts. `end` gets the call.
  // REQUIRES: no part is inside, and none comes meanwhile.
  template <typename End>
  void GiveUp(const End& end) {
    if (!is_under_way()) return;
    end(under_way());
    Close();
  }

  // The call under way; num_parts is 0 if there is none.
  Call under_way() const { return CallOf(call_.load(std::memory_order_acquire)); }
  // Ok if no call is under way; else kFailedPrecondition, which names the call.
  Status CheckIdle() const;
  bool is_under_way() const { return call_.load(std::memory_order_acquire) != 0; }

 private:
  static Call CallOf(uint64_t word) {
    return {static_cast<LayerId>(word >> 32), static_cast<uint32_t>(word)};
  }
  static Status RefuseOther(const Call& call, const Call& under_way);
  static Status RefuseTwice(const Call& call, uint32_t part);
  void Close() {
    is_open_.store(false, std::memory_order_relaxed);
    call_.store(0, std::memory_order_release);
  }

  std::atomic<uint64_t> call_ = 0;  // Layer and number of parts; 0: no call is under way.
  std::array<std::atomic<uint64_t>, kMaxParts / 64> have_come_ = {};  // A bit for each part.
  std::atomic<bool> is_open_ = false;
  // Parts that have not left yet, whether or not they have entered.
  std::atomic<uint32_t> num_inside_ = 0;
  EventCount opened_;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_CALL_GATE_H_
