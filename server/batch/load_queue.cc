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

  State(Run runs, Run lets_go) : run(std::move(runs)), let_go(std::move(lets_go)) {}

  // Moves those off the queue who are gone. REQUIRES: mutex is held.
  void TakeGone(Queue* gone) {
    for (auto next = waiting.begin(); next != waiting.end();) {
      const auto one = next++;
      if (one->is_gone()) gone->splice(gone->end(), waiting, one);
    }
  }
  void LetGo(Queue gone) const {
    if (gone.empty()) return;
    let_go([held = std::make_shared<Queue>(std::move(gone))]() mutable { held.reset(); });
  }
  // Runs the first who is not gone; or none: each that was let go of leaves one of `run`'s too
  // many.
  void RunFirst() {
    Queue gone, first;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      TakeGone(&gone);
      if (!waiting.empty()) first.splice(first.end(), waiting, waiting.begin());
    }
    LetGo(std::move(gone));
    for (const Waiting& one : first) one.load();
  }

  const Run run;
  const Run let_go;
  mutable std::mutex mutex;
  Queue waiting;  // Guarded by mutex. In the order in which they came.
};

LoadQueue::LoadQueue(Run run, Run let_go)
    : state_(std::make_shared<State>(std::move(run), std::move(let_go))) {}

void LoadQueue::Add(std::function<void()> load, std::function<bool()> is_gone) {
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->waiting.push_back({std::move(load), std::move(is_gone)});
  }
  state_->run([state = state_] { state->RunFirst(); });
  LookForGone();  // It may have gone before it was there to be found.
}

void LoadQueue::LookForGone() {
  State::Queue gone;
  {
    const std::lock_guard<std::mutex> lock(state_->mutex);
    state_->TakeGone(&gone);
  }
  state_->LetGo(std::move(gone));
}

size_t LoadQueue::num_waiting() const {
  const std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->waiting.size();
}

}  // namespace attndb::server
