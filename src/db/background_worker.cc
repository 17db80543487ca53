#include "db/background_worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/clock.h"

namespace attndb::internal {
namespace {

// Linux has a nice value for each thread, although POSIX has one for the process. That it can't be
// set is no reason not to work.
void LowerPriority() {
  constexpr int kLowest = 19;
  (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kLowest);
}

bool IsFailure(const Status& status) {
  return !status.ok() && status.code() != StatusCode::kCancelled &&
         status.code() != StatusCode::kFailedPrecondition;
}

}  // namespace

void BackgroundWorker::Add(db::SegmentId segment, uint64_t work) {
  MutexLock lock(&mutex_);
  const bool waits =
      std::ranges::any_of(items_, [segment](const Item& item) { return item.segment == segment; });
  if (stopping_ || waits) return;
  if (IsIdle()) work_done_ = work_total_ = 0;
  items_.push_back({segment, work});
  work_total_ += work;
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  added_.NotifyOne();
}

void BackgroundWorker::Cancel(db::SegmentId segment) {
  MutexLock lock(&mutex_);
  std::erase_if(items_, [&](const Item& item) ATTNDB_NO_THREAD_SAFETY_ANALYSIS {
    if (item.segment != segment) return false;
    work_total_ -= item.work;
    return true;
  });
  if (current_.has_value() && current_->segment == segment) {
    cancel_.store(true, std::memory_order_relaxed);
  }
  changed_.NotifyAll();
}

void BackgroundWorker::Await(db::SegmentId segment) {
  MutexLock lock(&mutex_);
  while (current_.has_value() && current_->segment == segment) changed_.Wait(&mutex_);
}

void BackgroundWorker::CancelAll() {
  MutexLock lock(&mutex_);
  items_.clear();
  cancel_.store(true, std::memory_order_relaxed);
  changed_.NotifyAll();
  while (!IsIdle()) changed_.Wait(&mutex_);
}

Status BackgroundWorker::Wait(const Progress& progress) {
  MutexLock lock(&mutex_);
  while (!IsIdle()) {
    if (progress) {
      const uint64_t done = work_done_ + current_done_;
      const uint64_t total = work_total_;
      lock.Unlock();
      const bool go_on = progress(done, total);
      lock.Lock();
      if (!go_on) {
        return Status::Cancelled("waited no longer: " + std::to_string(done) + " of " +
                                 std::to_string(total) + " bytes done in the background");
      }
      // What changed while the mutex was free is not waited for.
      if (IsIdle() || done != work_done_ + current_done_ || total != work_total_) continue;
    }
    changed_.Wait(&mutex_);
  }
  return std::exchange(error_, Status());
}

void BackgroundWorker::Stop() {
  std::thread thread;
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    items_.clear();
    cancel_.store(true, std::memory_order_relaxed);
    added_.NotifyOne();
    changed_.NotifyAll();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

BackgroundWorker::Counters BackgroundWorker::counters() const {
  MutexLock lock(&mutex_);
  return counters_;
}

void BackgroundWorker::Report(uint64_t done) {
  MutexLock lock(&mutex_);
  current_done_ = std::min(done, current_->work);
  changed_.NotifyAll();
}

void BackgroundWorker::Run() {
  LowerPriority();
  ThreadPool pool(num_threads_);  // Threads have the priority of who starts them.
  MutexLock lock(&mutex_);
  for (;;) {
    while (items_.empty() && !stopping_) added_.Wait(&mutex_);
    if (stopping_) return;
    current_ = items_.front();
    items_.pop_front();
    RunOne(*current_, &pool);
    current_.reset();
    changed_.NotifyAll();
  }
}

void BackgroundWorker::RunOne(const Item& item, ThreadPool* pool) {
  const db::SegmentId segment = item.segment;
  const uint64_t work = item.work;
  cancel_.store(false, std::memory_order_relaxed);
  mutex_.Unlock();
  Control control(this, pool);
  const int64_t start_ns = SteadyNowNanos();
  Status status = job_(segment, &control);
  const int64_t busy_ns = SteadyNowNanos() - start_ns;
  mutex_.Lock();
  current_done_ = 0;
  work_done_ += work;
  counters_.busy_ns += busy_ns;
  if (status.ok()) ++counters_.num_done;
  if (!IsFailure(status)) return;
  ++counters_.num_failed;
  if (error_.ok()) error_ = std::move(status);
}

}  // namespace attndb::internal
