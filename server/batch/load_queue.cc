#include "server/batch/load_queue.h"

#include <list>
#include <mutex>
#include <utility>

namespace attndb::server {

// What a queue shares with what it has given to `run`.
struct LoadQueue::State {
  struct Waiting {
    std::function<void()> load;
    std::function<bool()> is_gone;
  };
  using Queue = std::list<Waiting>;

  explicit State(std::function<void(std::function<void()>)> runs) : run(std::move(runs)) {}

  // Takes those off the queue who are gone.
  Queue TakeGone() {
    Queue gone;
    const std::lock_guard<std::mutex> lock(mutex);
    for (auto next = waiting.begin(); next != waiting.end();) {
      const auto one = next++;
      if (one->is_gone()) gone.splice(gone.end(), waiting, one);
    }
    return gone;
  }
  // The first who is not gone; or none, as each that is let go of leaves one of `run`'s too many.
  Queue TakeFirst() {
    const Queue gone = TakeGone();
    Queue first;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!waiting.empty()) first.splice(first.end(), waiting, waiting.begin());
    return first;
  }

  const std::function<void(std::function<void()>)> run;
  mutable std::mutex mutex;
  Queue waiting;  // Guarded by mutex. In the order in which they came.
};

LoadQueue::LoadQueue(std::function<void(std::function<void()>)> run)
    : state_(std::make_shared<State>(std::move(run))) {}

void LoadQueue::Add(std::function<void()> load, std::function<bool()> is_gone) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->waiting.push_back({std::move(load), std::move(is_gone)});
  }
  state_->run([state = state_] {
    for (const State::Waiting& one : state->TakeFirst()) one.load();
  });
}

void LoadQueue::LookForGone() { state_->TakeGone(); }

size_t LoadQueue::num_waiting() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->waiting.size();
}

}  // namespace attndb::server
