// Work in the background, in lanes: each lane is a thread that does one job after another, so that
// a long job delays only what stands in its own lane.
//
// A lane's thread starts with its first job, so that who adds none has no thread. Jobs of a lane
// run in the order in which they were added, one at a time, each once; what they leave undone is
// the caller's to add again. Who waits for the lanes works in them, at its own priority: threads of
// low priority starve on a busy machine.
//
// Errors:  what a job returns is kept for Wait, but for kCancelled and kFailedPrecondition, which
//          say that the job is not needed any more.
// Threads: thread-safe. A job may call Add and Cancel, and what blocks as long as nobody waits for
//          the job under a lock that it takes.
#ifndef ATTNDB_DERIVED_LANES_H_
#define ATTNDB_DERIVED_LANES_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "attndb/status.h"
#include "common/mutex.h"
#include "common/thread_pool.h"

namespace attndb::derived {

class Lanes {
 private:
  struct Lane;

 public:
  // What a job sees of its lane.
  class Control {
   public:
    // True: end soon, with kCancelled.
    const std::atomic<bool>* cancel() const;
    // Threads of the lane's priority, for the job alone. They start when a job first asks for them.
    ThreadPool* pool();
    // So much of the job's work is done.
    void Report(uint64_t done) { lanes_->Report(lane_, done); }

   private:
    friend class Lanes;
    Control(Lanes* lanes, Lane* lane, std::unique_ptr<ThreadPool>* pool)
        : lanes_(lanes), lane_(lane), pool_(pool) {}
    Lanes* const lanes_;
    Lane* const lane_;
    std::unique_ptr<ThreadPool>* const pool_;  // Of the thread that runs the job.
  };
  struct Job {
    uint64_t subject = 0;  // Whom it is for: what Cancel and Await are told.
    uint64_t work = 0;     // In any unit, for progress.
    std::function<Status(Control*)> run;
  };
  enum class Priority { kLowest, kLow, kNormal };
  // A job that was added. Its state is guarded by the lanes' mutex.
  struct Added {
    Job job;
    Lane* lane = nullptr;
    uint64_t done = 0;  // Of job.work.
    bool is_over = false;
    Status status;  // What it returned; kCancelled if it never began.
  };
  using AddedPtr = std::shared_ptr<Added>;
  // Work done and in all; false = wait no longer.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  // A lane for each priority; jobs have so many threads, 0 = one a core.
  Lanes(std::initializer_list<Priority> priorities, uint32_t num_threads);
  ~Lanes() { Stop(); }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // After Stop, it is over at once. REQUIRES: there is such a lane.
  AddedPtr Add(size_t lane, Job job) ATTNDB_EXCLUDES(mutex_);
  // Forgets what waits for the subject; what is under way for it is told to end. Does not wait.
  void Cancel(uint64_t subject) ATTNDB_EXCLUDES(mutex_);
  // Until nothing is under way for the subject; it may wait its turn.
  void Await(uint64_t subject) ATTNDB_EXCLUDES(mutex_);
  // Forgets what waits, cancels the jobs under way and waits until they have ended.
  void CancelAll() ATTNDB_EXCLUDES(mutex_);
  // Until these jobs are over, whatever else is left to do; without `progress` the caller works in
  // their lanes, too. Progress is of these jobs.
  // Errors: kCancelled (by `progress`, which may be null); the first of these jobs' errors.
  Status WaitFor(std::span<const AddedPtr> jobs, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Until nothing is left to do; without `progress` the caller works, too. Progress is of all jobs
  // since the lanes were last idle.
  // Errors: kCancelled (by `progress`, which may be null); the first of the jobs' errors since the
  //         last Wait.
  Status Wait(const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Forgets what waits, cancels the jobs under way and ends the threads.
  void Stop() ATTNDB_EXCLUDES(mutex_);

  // Time spent in jobs.
  int64_t busy_ns() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Lane {
    explicit Lane(Priority of_thread) : priority(of_thread) {}

    const Priority priority;
    // Set under mutex_ for the job under way; read by it without. Relaxed: it orders nothing.
    std::atomic<bool> cancel = false;
    std::unique_ptr<ThreadPool> pool;  // Of `thread`, which alone uses it.

    // Guarded by mutex_.
    CondVar added;
    std::thread thread;
    std::deque<AddedPtr> jobs;
    AddedPtr current;  // Null if none is under way.
  };

  struct Work {
    uint64_t done = 0;
    uint64_t total = 0;
    friend bool operator==(const Work&, const Work&) = default;
  };

  void Run(Lane* lane) ATTNDB_EXCLUDES(mutex_);
  // Whether the lane has a job to begin.
  static bool HasNext(const Lane& lane) { return !lane.jobs.empty() && lane.current == nullptr; }
  // Runs the lane's next job, by this thread, whose pool is given. REQUIRES: it has one.
  void RunNext(Lane* lane, std::unique_ptr<ThreadPool>* pool) ATTNDB_REQUIRES(mutex_);
  // Lets the mutex go while the lane's current job runs.
  void RunCurrent(Lane* lane, std::unique_ptr<ThreadPool>* pool) ATTNDB_REQUIRES(mutex_);
  // Null if none has a job to begin.
  Lane* FindNext() const ATTNDB_REQUIRES(mutex_);
  // The same of the lanes that the jobs are in.
  static Lane* FindNextOf(std::span<const AddedPtr> jobs);
  // What is waited for: whether it is over, the next lane that the caller may work in, and how far
  // it is. Called under mutex_.
  struct Goal {
    std::function<bool()> is_over;
    std::function<Lane*()> find_next;
    std::function<Work()> work;
  };
  // Errors: kCancelled (by `progress`).
  Status WaitUntil(const Goal& goal, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // It was given up before it began.
  static void Discard(Added* added);
  void Report(Lane* lane, uint64_t done) ATTNDB_EXCLUDES(mutex_);
  bool IsIdle() const ATTNDB_REQUIRES(mutex_);
  // Of the jobs that are over, under way and to come.
  Work AllWork() const ATTNDB_REQUIRES(mutex_);
  void CancelLanes() ATTNDB_REQUIRES(mutex_);

  const uint32_t num_threads_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // Constant after construction, but for what is in it.

  // A leaf. No job runs, and no progress is called, under it.
  mutable Mutex mutex_;
  CondVar changed_;  // Progress was made, a job ended, or one was added.
  bool stopping_ ATTNDB_GUARDED_BY(mutex_) = false;
  uint64_t work_over_ ATTNDB_GUARDED_BY(mutex_) = 0;   // Since the lanes were last idle,
  uint64_t work_total_ ATTNDB_GUARDED_BY(mutex_) = 0;  // ... as this.
  Status error_ ATTNDB_GUARDED_BY(mutex_);
  int64_t busy_ns_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_LANES_H_
