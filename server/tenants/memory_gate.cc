#include "server/tenants/memory_gate.h"

#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"

namespace attndb::server {

uint64_t PromisableBytes(uint64_t limit_bytes) {
  return limit_bytes - limit_bytes / kBytesToOneUnpromised;
}

// What a gate shares with its places.
struct MemoryGate::State : std::enable_shared_from_this<State> {
  struct Waiting {
    uint64_t bytes = 0;
    Go go;
    std::function<bool()> is_gone;
    uint32_t num_overtakes = 0;  // By requests that came later.
  };
  using Queue = std::list<Waiting>;

  State(uint64_t limit, size_t most, std::function<void(std::function<void()>)> runs)
      : limit_bytes(limit), max_waiting(most), run(std::move(runs)) {}

  bool Fits(uint64_t bytes) const { return limit_bytes == 0 || bytes <= limit_bytes - held_bytes; }
  // Whether a request may go before the first of those that wait, which has been overtaken most:
  // whoever overtakes another one overtakes all that came before that, too.
  bool MayOvertake() const {
    return waiting.empty() || waiting.front().num_overtakes < kMaxOvertakes;
  }
  // For a request that goes before all that wait ahead of `end`. REQUIRES: mutex is held; it fits.
  Place Take(uint64_t bytes, Queue::iterator end) {
    for (auto one = waiting.begin(); one != end; ++one) ++one->num_overtakes;
    held_bytes += bytes;
    return {this, [state = shared_from_this(), bytes](void*) { state->GiveBack(bytes); }};
  }
  // Takes those off the queue that may go now. REQUIRES: mutex is held.
  std::vector<std::function<void()>> TakeReady() {
    std::vector<std::function<void()>> ready;
    for (auto one = waiting.begin(); one != waiting.end();) {
      if (one != waiting.begin() && !MayOvertake()) break;
      if (!Fits(one->bytes)) {
        ++one;
        continue;
      }
      Place place = Take(one->bytes, one);
      ready.push_back([go = std::move(one->go), place = std::move(place)] { go(place); });
      one = waiting.erase(one);
    }
    return ready;
  }
  // Takes those off the queue who are gone. REQUIRES: mutex is held.
  std::vector<std::function<void()>> TakeGone() {
    std::vector<std::function<void()>> gone;
    for (auto one = waiting.begin(); one != waiting.end();) {
      if (!one->is_gone || !one->is_gone()) {
        ++one;
        continue;
      }
      const auto nothing = std::make_shared<int>(0);
      gone.push_back([go = std::move(one->go), nothing] { go(nothing); });
      one = waiting.erase(one);
    }
    return gone;
  }
  void GiveBack(uint64_t bytes) {
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      held_bytes -= bytes;
      ready = TakeReady();
    }
    RunAll(std::move(ready));
  }
  void RunAll(std::vector<std::function<void()>> ready) const {
    for (std::function<void()>& one : ready) run(std::move(one));
  }

  const uint64_t limit_bytes;
  const size_t max_waiting;
  const std::function<void(std::function<void()>)> run;
  mutable std::mutex mutex;
  uint64_t held_bytes = 0;  // Guarded by mutex.
  Queue waiting;            // Guarded by mutex. In the order in which they came.
  bool closed = false;      // Guarded by mutex.
};

MemoryGate::MemoryGate(uint64_t limit_bytes, size_t max_waiting,
                       std::function<void(std::function<void()>)> run)
    : state_(std::make_shared<State>(limit_bytes, max_waiting, std::move(run))) {}

Status MemoryGate::Enter(uint64_t bytes, Go go, std::function<bool()> is_gone) {
  Place place;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->closed) return Status::Cancelled("the server stops");
    if (state_->limit_bytes > 0 && bytes > state_->limit_bytes) {
      return Status::InvalidArgument(
          "the request may need " + FormatBytes(bytes) +
          " of memory for the keys and values of its prompt and max_tokens, but the server "
          "can promise " +
          FormatBytes(state_->limit_bytes) + " at most");
    }
    if (!state_->Fits(bytes) || !state_->MayOvertake()) {
      if (state_->waiting.size() >= state_->max_waiting) {
        // Not how many: that is of other tenants.
        return Status::ResourceExhausted(
            "too many requests wait for memory already; try again later");
      }
      state_->waiting.push_back(
          {.bytes = bytes, .go = std::move(go), .is_gone = std::move(is_gone)});
      return Status::Ok();
    }
    place = state_->Take(bytes, state_->waiting.end());
  }
  go(std::move(place));
  return Status::Ok();
}

void MemoryGate::LookForGone() {
  std::vector<std::function<void()>> gone;
  std::vector<std::function<void()>> ready;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    gone = state_->TakeGone();
    if (!gone.empty()) ready = state_->TakeReady();
  }
  state_->RunAll(std::move(gone));
  state_->RunAll(std::move(ready));
}

void MemoryGate::Close() {
  State::Queue waiting;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->closed = true;
    waiting.swap(state_->waiting);
  }
  for (const State::Waiting& one : waiting) one.go(nullptr);
}

uint64_t MemoryGate::limit_bytes() const { return state_->limit_bytes; }

size_t MemoryGate::num_waiting() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->waiting.size();
}

uint64_t MemoryGate::num_held_bytes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->held_bytes;
}

}  // namespace attndb::server
