#include "derived/lanes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/clock.h"

namespace attndb::derived {
namespace {

// Linux has a nice value for each thread, although POSIX has one for the process. That it can't be
// set is no reason not to work.
void SetPriority(Lanes::Priority priority) {
  constexpr int kLowest = 19;  // A seventieth of what another thread gets.
  constexpr int kLow = 10;     // A tenth.
  if (priority == Lanes::Priority::kNormal) return;
  const int nice = priority == Lanes::Priority::kLowest ? kLowest : kLow;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), nice);
}

bool IsFailure(const Status& status) {
  return !status.ok() && status.code() != StatusCode::kCancelled &&
         status.code() != StatusCode::kFailedPrecondition;
}

}  // namespace

const std::atomic<bool>* Lanes::Control::cancel() const { return &lane_->cancel; }

ThreadPool* Lanes::Control::pool() {
  // Threads have the priority of who starts them.
  if (*pool_ == nullptr) *pool_ = std::make_unique<ThreadPool>(lanes_->num_threads_);
  return pool_->get();
}

Lanes::Lanes(std::initializer_list<Priority> priorities, uint32_t num_threads)
    : num_threads_(num_threads) {
  for (const Priority priority : priorities) lanes_.push_back(std::make_unique<Lane>(priority));
}

void Lanes::Add(size_t lane_number, Job job) {
  Lane* const lane = lanes_.at(lane_number).get();
  MutexLock lock(&mutex_);
  if (stopping_) return;
  if (IsIdle()) work_over_ = work_total_ = 0;
  work_total_ += job.work;
  lane->jobs.push_back(std::move(job));
  if (!lane->thread.joinable()) lane->thread = std::thread([this, lane] { Run(lane); });
  lane->added.NotifyOne();
  changed_.NotifyAll();
}

void Lanes::Cancel(uint64_t subject) {
  MutexLock lock(&mutex_);
  for (const auto& lane : lanes_) {
    const auto is_for = [subject](const Job& job) { return job.subject == subject; };
    for (const Job& job : lane->jobs) work_total_ -= is_for(job) ? job.work : 0;
    std::erase_if(lane->jobs, is_for);
    if (lane->current && is_for(*lane->current)) {
      lane->cancel.store(true, std::memory_order_relaxed);
    }
  }
  changed_.NotifyAll();
}

void Lanes::Await(uint64_t subject) {
  MutexLock lock(&mutex_);
  for (const auto& lane : lanes_) {
    while (lane->current && lane->current->subject == subject) changed_.Wait(&mutex_);
  }
}

void Lanes::CancelLanes() {
  for (const auto& lane : lanes_) {
    lane->jobs.clear();
    lane->cancel.store(true, std::memory_order_relaxed);
  }
  changed_.NotifyAll();
}

void Lanes::CancelAll() {
  MutexLock lock(&mutex_);
  CancelLanes();
  while (!IsIdle()) changed_.Wait(&mutex_);
}

Status Lanes::Wait(const Progress& progress) {
  std::unique_ptr<ThreadPool> pool;
  MutexLock lock(&mutex_);
  while (!IsIdle()) {
    if (Lane* const lane = progress ? nullptr : FindNext()) {
      RunNext(lane, &pool);
      continue;
    }
    if (progress) {
      const uint64_t done = WorkDone();
      const uint64_t total = work_total_;
      lock.Unlock();
      const bool go_on = progress(done, total);
      lock.Lock();
      if (!go_on) {
        return Status::Cancelled("waited no longer: " + std::to_string(done) + " of " +
                                 std::to_string(total) + " bytes done in the background");
      }
      // What changed while the mutex was free is not waited for.
      if (IsIdle() || done != WorkDone() || total != work_total_) continue;
    }
    changed_.Wait(&mutex_);
  }
  return std::exchange(error_, Status());
}

void Lanes::Stop() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    CancelLanes();
    for (const auto& lane : lanes_) {
      lane->added.NotifyOne();
      threads.push_back(std::move(lane->thread));
    }
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  MutexLock lock(&mutex_);
  while (!IsIdle()) changed_.Wait(&mutex_);  // Who waits may be at a job.
}

int64_t Lanes::busy_ns() const {
  MutexLock lock(&mutex_);
  return busy_ns_;
}

bool Lanes::IsIdle() const {
  return std::ranges::all_of(
      lanes_, [](const auto& lane) { return !lane->current.has_value() && lane->jobs.empty(); });
}

uint64_t Lanes::WorkDone() const {
  uint64_t done = work_over_;
  for (const auto& lane : lanes_) done += lane->current_done;
  return done;
}

void Lanes::Report(Lane* lane, uint64_t done) {
  MutexLock lock(&mutex_);
  lane->current_done = std::min(done, lane->current->work);
  changed_.NotifyAll();
}

void Lanes::Run(Lane* lane) {
  SetPriority(lane->priority);
  MutexLock lock(&mutex_);
  for (;;) {
    while (!HasNext(*lane) && !stopping_) lane->added.Wait(&mutex_);
    if (stopping_) return;
    RunNext(lane, &lane->pool);
  }
}

Lanes::Lane* Lanes::FindNext() const {
  const auto found = std::ranges::find_if(lanes_, [](const auto& lane) { return HasNext(*lane); });
  return found == lanes_.end() ? nullptr : found->get();
}

void Lanes::RunNext(Lane* lane, std::unique_ptr<ThreadPool>* pool) {
  lane->current = std::move(lane->jobs.front());
  lane->jobs.pop_front();
  RunCurrent(lane, pool);
  lane->current.reset();
  lane->added.NotifyOne();
  changed_.NotifyAll();
}

void Lanes::RunCurrent(Lane* lane, std::unique_ptr<ThreadPool>* pool) {
  lane->cancel.store(false, std::memory_order_relaxed);
  Job& job = *lane->current;  // Nobody else changes it.
  mutex_.Unlock();
  Control control(this, lane, pool);
  const int64_t start_ns = SteadyNowNanos();
  Status status = job.run(&control);
  const int64_t busy_ns = SteadyNowNanos() - start_ns;
  job.run = nullptr;  // What it holds goes while nobody waits for the mutex.
  mutex_.Lock();
  lane->current_done = 0;
  work_over_ += job.work;
  busy_ns_ += busy_ns;
  if (IsFailure(status) && error_.ok()) error_ = std::move(status);
}

}  // namespace attndb::derived
