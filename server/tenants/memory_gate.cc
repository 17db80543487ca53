#include "server/tenants/memory_gate.h"

#include <deque>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "attndb/units.h"

namespace attndb::server {

// What a gate shares with its places.
struct MemoryGate::State : std::enable_shared_from_this<State> {
  struct Waiting {
    uint64_t bytes = 0;
    Go go;
  };

  State(uint64_t limit, size_t most, std::function<void(std::function<void()>)> runs)
      : limit_bytes(limit), max_waiting(most), run(std::move(runs)) {}

  bool Fits(uint64_t bytes) const { return limit_bytes == 0 || bytes <= limit_bytes - held_bytes; }
  // REQUIRES: mutex is held, and it fits.
  Place Take(uint64_t bytes) {
    held_bytes += bytes;
    return {this, [state = shared_from_this(), bytes](void*) { state->GiveBack(bytes); }};
  }
  void GiveBack(uint64_t bytes) {
    std::vector<std::function<void()>> ready;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      held_bytes -= bytes;
      while (!waiting.empty() && Fits(waiting.front().bytes)) {
        Place place = Take(waiting.front().bytes);
        ready.push_back(
            [go = std::move(waiting.front().go), place = std::move(place)] { go(place); });
        waiting.pop_front();
      }
    }
    for (std::function<void()>& one : ready) run(std::move(one));
  }

  const uint64_t limit_bytes;
  const size_t max_waiting;
  const std::function<void(std::function<void()>)> run;
  mutable std::mutex mutex;
  uint64_t held_bytes = 0;      // Guarded by mutex.
  std::deque<Waiting> waiting;  // Guarded by mutex.
  bool closed = false;          // Guarded by mutex.
};

MemoryGate::MemoryGate(uint64_t limit_bytes, size_t max_waiting,
                       std::function<void(std::function<void()>)> run)
    : state_(std::make_shared<State>(limit_bytes, max_waiting, std::move(run))) {}

Status MemoryGate::Enter(uint64_t bytes, Go go) {
  Place place;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->closed) return Status::Cancelled("the server stops");
    if (state_->limit_bytes > 0 && bytes > state_->limit_bytes) {
      return Status::InvalidArgument(
          "the request may need " + FormatBytes(bytes) +
          " of memory for the keys and values of its prompt and max_tokens, but the server "
          "has " +
          FormatBytes(state_->limit_bytes));
    }
    if (!state_->waiting.empty() || !state_->Fits(bytes)) {
      if (state_->waiting.size() >= state_->max_waiting) {
        // Not how many: that is of other tenants.
        return Status::ResourceExhausted(
            "too many requests wait for memory already; try again later");
      }
      state_->waiting.push_back({bytes, std::move(go)});
      return Status::Ok();
    }
    place = state_->Take(bytes);
  }
  go(std::move(place));
  return Status::Ok();
}

void MemoryGate::Close() {
  std::deque<State::Waiting> waiting;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->closed = true;
    waiting.swap(state_->waiting);
  }
  for (const State::Waiting& one : waiting) one.go(nullptr);
}

size_t MemoryGate::num_waiting() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->waiting.size();
}

uint64_t MemoryGate::num_held_bytes() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->held_bytes;
}

}  // namespace attndb::server
