#include "common/thread_pool.h"

#include <algorithm>

#include "common/check.h"

namespace attndb {

ThreadPool::ThreadPool(uint32_t num_threads) {
  if (num_threads == 0) num_threads = std::max(1u, std::thread::hardware_concurrency());
  workers_.reserve(num_threads - 1);
  for (uint32_t i = 1; i < num_threads; ++i) workers_.emplace_back([this] { WorkerLoop(); });
}

ThreadPool::~ThreadPool() {
  {
    MutexLock lock(&mutex_);
    ATTNDB_CHECK(jobs_ == nullptr);
    stopping_ = true;
  }
  work_.NotifyAll();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(uint32_t num_parts, PartFn fn, const void* context) {
  if (workers_.empty() || num_parts <= 1) {
    for (uint32_t part = 0; part < num_parts; ++part) fn(context, part);
    return;
  }
  Job job{.fn = fn, .context = context, .num_parts = num_parts, .done = {}};
  MutexLock lock(&mutex_);
  Enqueue(&job);
  for (uint32_t i = 1; i < std::min(num_parts, num_threads()); ++i) work_.NotifyOne();
  while (job.next_part < job.num_parts) RunOnePart(&job);
  while (job.num_done < job.num_parts) job.done.Wait(&mutex_);
}

void ThreadPool::RunOnePart(Job* job) {
  const uint32_t part = job->next_part++;
  if (job->next_part == job->num_parts) Dequeue(job);
  mutex_.Unlock();
  job->fn(job->context, part);
  mutex_.Lock();
  // The caller may free `job` as soon as the mutex is let go.
  if (++job->num_done == job->num_parts) job->done.NotifyOne();
}

void ThreadPool::Enqueue(Job* job) {
  Job** link = &jobs_;
  while (*link != nullptr) link = &(*link)->next;
  *link = job;
}

void ThreadPool::Dequeue(Job* job) {
  Job** link = &jobs_;
  while (*link != job) link = &(*link)->next;
  *link = job->next;
}

void ThreadPool::WorkerLoop() {
  MutexLock lock(&mutex_);
  for (;;) {
    while (jobs_ == nullptr && !stopping_) work_.Wait(&mutex_);
    if (jobs_ == nullptr) return;
    RunOnePart(jobs_);
  }
}

}  // namespace attndb
