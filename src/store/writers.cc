#include "store/writers.h"

#include <utility>

#include "common/check.h"
#include "common/start_thread.h"

namespace attndb::store {

void Writers::Add(std::function<void()> job) {
  MutexLock lock(&mutex_);
  ATTNDB_CHECK(!finishing_ ||
               num_running_ > 0);  // The thread of a job that runs does this one too.
  if (!finishing_ && num_idle_ < jobs_.size() + 1 && num_threads_ < kMaxThreads) {
    std::thread thread = TryStartThread([this] { Run(); });
    if (thread.joinable()) {
      threads_.push_back(std::move(thread));
      ++num_threads_;
    }
  }
  if (num_threads_ == 0) {
    lock.Unlock();
    return job();
  }
  jobs_.push_back(std::move(job));
  changed_.NotifyOne();
}

void Writers::Run() {
  MutexLock lock(&mutex_);
  for (;;) {
    ++num_idle_;
    while (jobs_.empty() && !finishing_) changed_.Wait(&mutex_);
    --num_idle_;
    if (jobs_.empty()) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    ++num_running_;
    lock.Unlock();
    job();
    job = nullptr;
    lock.Lock();
    --num_running_;
  }
}

void Writers::Finish() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    finishing_ = true;
    threads.swap(threads_);
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace attndb::store
