// Lets requests through as long as the memory that they ask for is there for all of them together;
// the others wait.
//
// Counts:  what callers ask for, and nothing else: it knows of no allocation. ScheduleTurn
//          (service.h) and the embeddings' route say what that is. What nobody asks for has to find
//          room in what is free, and in the share that PromisableBytes leaves out.
// Rule:    those that fit go first, in the order in which they came; those that do not fit yet are
//          overtaken meanwhile, each by at most kMaxOvertakes that came after it. From then on none
//          of these goes before it, whether it fits or not.
// Gone:    whoever is gone asks for nothing any more: it goes at once, with a place of no bytes,
//          and holds up nobody behind it.
// Promise: a request that can never fit is refused at once. An admitted one holds its bytes until
//          its Place is destroyed. If every Place is destroyed in the end, every request is
//          admitted in the end.
// Limits:  max_waiting.
// Threads: thread-safe; places may outlive it.
#ifndef ATTNDB_SERVER_TENANTS_MEMORY_GATE_H_
#define ATTNDB_SERVER_TENANTS_MEMORY_GATE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "attndb/status.h"

namespace attndb::server {

// One byte in so many is promised to nobody.
inline constexpr uint64_t kBytesToOneUnpromised = 16;

// How much of a limit on K and V (DBOptions::host_memory_bytes) may be promised. The rest is for
// what takes little beside K and V and is not known before: scratch of attention, sampled queries,
// spare rows of tails. 0, no limit, stays 0.
uint64_t PromisableBytes(uint64_t limit_bytes);

class MemoryGate {
 public:
  using Place = std::shared_ptr<void>;
  // What was asked for is there; null: it closes.
  using Go = std::function<void(Place)>;

  // A few times as many as share a pass by default: passes stay full while a large request waits,
  // and it waits for no more of the small ones than that.
  static constexpr uint32_t kMaxOvertakes = 64;

  // `run` runs those who have waited, on another thread than that which calls it: a place may be
  // let go of under any lock. limit_bytes 0: no limit.
  MemoryGate(uint64_t limit_bytes, size_t max_waiting,
             std::function<void(std::function<void()>)> run);

  // Calls `go` once, here or later. `is_gone`, which may be null, is asked under a lock. Errors:
  // kInvalidArgument (more than there is in all); kResourceExhausted (max_waiting wait); kCancelled
  // (it is closed). `go` is not called then.
  Status Enter(uint64_t bytes, Go go, std::function<bool()> is_gone = nullptr);
  // Lets those go who are gone, and whom they held up.
  void LookForGone();
  // Lets those who wait know, here, and lets nobody in any more.
  void Close();

  uint64_t limit_bytes() const;  // 0: no limit.
  size_t num_waiting() const;
  uint64_t num_held_bytes() const;

 private:
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_TENANTS_MEMORY_GATE_H_
