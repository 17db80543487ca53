// A thread of low priority that does the same thing to one segment after another, when asked to.
//
// It starts with the first segment that is added, so that who adds none has no thread. Jobs run in
// the order in which they were added, each once; what they leave undone is the caller's to add
// again.
//
// Errors:  what a job returns is kept for Wait, but for kCancelled and kFailedPrecondition, which
//          say that the job is not needed any more.
// Threads: thread-safe. A job may call Add and Cancel, and what blocks as long as nobody waits for
//          the job under a lock that it takes.
#ifndef ATTNDB_DB_BACKGROUND_WORKER_H_
#define ATTNDB_DB_BACKGROUND_WORKER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "attndb/status.h"
#include "common/mutex.h"
#include "common/thread_pool.h"
#include "db/catalog/catalog_types.h"

namespace attndb::internal {

class BackgroundWorker {
 public:
  // What a job sees of its worker.
  class Control {
   public:
    // True: end soon, with kCancelled.
    const std::atomic<bool>* cancel() const { return &worker_->cancel_; }
    // The worker's threads, for the job alone.
    ThreadPool* pool() const { return pool_; }
    // So much of the job's work is done.
    void Report(uint64_t done) { worker_->Report(done); }

   private:
    friend class BackgroundWorker;
    Control(BackgroundWorker* worker, ThreadPool* pool) : worker_(worker), pool_(pool) {}
    BackgroundWorker* const worker_;
    ThreadPool* const pool_;
  };
  using Job = std::function<Status(db::SegmentId, Control*)>;
  // Work done and in all of the jobs since the worker was last idle; false = wait no longer.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  struct Counters {
    uint64_t num_done = 0;  // Jobs that ended well.
    uint64_t num_failed = 0;
    int64_t busy_ns = 0;  // In jobs.
  };

  // Jobs run one by one, each on so many threads; 0 = one a core.
  BackgroundWorker(uint32_t num_threads, Job job)
      : num_threads_(num_threads), job_(std::move(job)) {}
  ~BackgroundWorker() { Stop(); }
  BackgroundWorker(const BackgroundWorker&) = delete;
  BackgroundWorker& operator=(const BackgroundWorker&) = delete;

  // `work` in any unit, for progress. No effect if the segment waits already, or after Stop.
  void Add(db::SegmentId segment, uint64_t work) ATTNDB_EXCLUDES(mutex_);
  // Takes the segment off the list; if it is being worked on, tells the job. Does not wait.
  void Cancel(db::SegmentId segment) ATTNDB_EXCLUDES(mutex_);
  // Until the segment is not being worked on; it may wait its turn.
  void Await(db::SegmentId segment) ATTNDB_EXCLUDES(mutex_);
  // Forgets what waits, cancels the job under way and waits until it has ended.
  void CancelAll() ATTNDB_EXCLUDES(mutex_);
  // Until nothing is left to do.
  // Errors: kCancelled (by `progress`, which may be null); the first of the jobs' errors since the
  //         last Wait.
  Status Wait(const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Forgets what waits, cancels the job under way and ends the thread.
  void Stop() ATTNDB_EXCLUDES(mutex_);

  Counters counters() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Item {
    db::SegmentId segment = 0;
    uint64_t work = 0;
  };

  void Run() ATTNDB_EXCLUDES(mutex_);
  // Lets the mutex go while the job runs.
  void RunOne(const Item& item, ThreadPool* pool) ATTNDB_REQUIRES(mutex_);
  void Report(uint64_t done) ATTNDB_EXCLUDES(mutex_);
  bool IsIdle() const ATTNDB_REQUIRES(mutex_) { return !current_.has_value() && items_.empty(); }

  const uint32_t num_threads_;
  const Job job_;
  // Set under mutex_ for the job under way; read by it without. Relaxed: it orders nothing.
  std::atomic<bool> cancel_ = false;

  // A leaf. No job runs, and no progress is called, under it.
  mutable Mutex mutex_;
  CondVar added_;
  CondVar changed_;  // Progress was made, or the worker became idle.
  std::thread thread_ ATTNDB_GUARDED_BY(mutex_);
  bool stopping_ ATTNDB_GUARDED_BY(mutex_) = false;
  std::deque<Item> items_ ATTNDB_GUARDED_BY(mutex_);
  std::optional<Item> current_ ATTNDB_GUARDED_BY(mutex_);
  uint64_t current_done_ ATTNDB_GUARDED_BY(mutex_) = 0;
  uint64_t work_done_ ATTNDB_GUARDED_BY(mutex_) = 0;   // Since the worker was last idle,
  uint64_t work_total_ ATTNDB_GUARDED_BY(mutex_) = 0;  // ... as this.
  Status error_ ATTNDB_GUARDED_BY(mutex_);
  Counters counters_ ATTNDB_GUARDED_BY(mutex_);
};

}  // namespace attndb::internal

#endif  // ATTNDB_DB_BACKGROUND_WORKER_H_
