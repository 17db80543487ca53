// Background work in lanes. Each lane is a thread that runs one job after another, so that a long
// job delays only jobs in its own lane.
//
// A lane's thread starts with its first job, so that a program without jobs has no thread. If the
// system can't start a thread, each later job tries again, and a waiting caller runs the lane's
// jobs. Jobs of a lane run in the order of adding, one at a time, each once. If a job leaves work
// undone, its caller adds it again. A thread that waits for the lanes runs their jobs itself, at
// its own priority: threads of low priority starve on a busy machine.
//
// Errors:  a job's error is kept for Wait, except kCancelled and kFailedPrecondition, which say
//          that the job is not needed any more.
// Threads: thread-safe. A job may call Add and Cancel. It may block, as long as no thread waits for
//          the job while it holds the lock that the job blocks on.
#ifndef ATTNDB_DERIVED_LANES_H_
#define ATTNDB_DERIVED_LANES_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
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
  // A running job's view of its lane.
  class Control {
   public:
    // True: the job should end soon, with kCancelled.
    const std::atomic<bool>* cancel() const;
    // Threads of the lane's priority, for this job only. They start when a job first asks for them.
    ThreadPool* pool();
    // Reports the amount of the job's work that is done.
    void Report(uint64_t done) { lanes_->Report(lane_, done); }

   private:
    friend class Lanes;
    Control(Lanes* lanes, Lane* lane, std::unique_ptr<ThreadPool>* pool)
        : lanes_(lanes), lane_(lane), pool_(pool) {}
    Lanes* const lanes_;
    Lane* const lane_;
    std::unique_ptr<ThreadPool>* const pool_;  // The pool of the thread that runs the job.
  };
  static constexpr uint64_t kNobody = 0;
  struct Job {
    uint64_t owner = kNobody;  // The owner of the job: the argument of Wait.
    uint64_t subject = 0;      // The subject of the job: the argument of Cancel and Await.
    uint64_t work = 0;         // Size of the job in any unit, for progress.
    std::function<Status(Control*)> run;
  };
  enum class Priority { kLowest, kLow, kNormal };
  // A job that was added. Its members are guarded by the lanes' mutex.
  struct Added {
    Job job;
    Lane* lane = nullptr;
    uint64_t done = 0;  // The part of job.work that is done.
    bool is_over = false;
    Status status;  // The job's result; kCancelled if it never began.
  };
  using AddedPtr = std::shared_ptr<Added>;
  // Called with the work done and the work in all; false ends the wait.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  // Makes a lane for each priority. Jobs have `num_threads` threads; 0 = one per core.
  Lanes(std::initializer_list<Priority> priorities, uint32_t num_threads);
  ~Lanes() { Stop(); }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Adds a job to a lane. After Stop the job is over at once. REQUIRES: the lane exists.
  AddedPtr Add(size_t lane, Job job) ATTNDB_EXCLUDES(mutex_);
  // Forgets the subject's waiting jobs, and tells the running one to end. Does not wait.
  void Cancel(uint64_t subject) ATTNDB_EXCLUDES(mutex_);
  // Waits until no job of the subject is running; jobs may still be queued.
  void Await(uint64_t subject) ATTNDB_EXCLUDES(mutex_);
  // Forgets the lanes' waiting jobs, cancels the running ones and waits until these have ended. A
  // forgotten job never runs: its owner must not count on it.
  void CancelLanes(std::span<const size_t> lanes) ATTNDB_EXCLUDES(mutex_);
  // Waits until these jobs are over, whatever other work is left. Without `progress`, or if a lane
  // has no thread, the caller also runs jobs of their lanes. Progress counts these jobs.
  // Errors: kCancelled (by `progress`, which may be null); the first of these jobs' errors.
  Status WaitFor(std::span<const AddedPtr> jobs, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Waits until the owner has no jobs left, or nobody has with kNobody. Without `progress`, or if a
  // lane has no thread, the caller also runs jobs. Progress counts these jobs since the last time
  // when none of them was left, whatever is left of others' jobs.
  // Errors: kCancelled (by `progress`, which may be null); the first of these jobs' errors since
  //         the last such Wait.
  Status Wait(uint64_t owner, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  Status Wait(const Progress& progress) { return Wait(kNobody, progress); }
  // Forgets waiting jobs, cancels running ones and ends the threads.
  void Stop() ATTNDB_EXCLUDES(mutex_);

  // Nanoseconds spent in jobs.
  int64_t busy_ns() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Lane {
    explicit Lane(Priority of_thread) : priority(of_thread) {}

    const Priority priority;
    // Set under mutex_ for the running job, which reads it without the mutex. Relaxed: it orders
    // nothing.
    std::atomic<bool> cancel = false;
    std::unique_ptr<ThreadPool> pool;  // Used by `thread` alone.

    // Guarded by mutex_.
    CondVar added;
    std::thread thread;
    std::deque<AddedPtr> jobs;
    AddedPtr current;  // Null if no job is running.
  };

  struct Work {
    uint64_t done = 0;
    uint64_t total = 0;
    friend bool operator==(const Work&, const Work&) = default;
  };
  // The state of an owner's jobs.
  struct OwnersJobs {
    // The work that was added since the owner last had none, and the part of it that has ended.
    Work work;
    Status error;  // The first since the last Wait.
  };
  // Whether a wait for `waited` includes the jobs of `owner`.
  static bool IsWaitedFor(uint64_t owner, uint64_t waited) {
    return waited == kNobody || owner == waited;
  }

  void Run(Lane* lane) ATTNDB_EXCLUDES(mutex_);
  // Starts the lane's thread, if there is none and the system can start one.
  void StartThread(Lane* lane) ATTNDB_REQUIRES(mutex_);
  // Whether the lane has a job that can begin.
  static bool HasNext(const Lane& lane) { return !lane.jobs.empty() && lane.current == nullptr; }
  // Runs the lane's next job in this thread, with this thread's pool. REQUIRES: HasNext.
  void RunNext(Lane* lane, std::unique_ptr<ThreadPool>* pool) ATTNDB_REQUIRES(mutex_);
  // Releases the mutex while the lane's current job runs.
  void RunCurrent(Lane* lane, std::unique_ptr<ThreadPool>* pool) ATTNDB_REQUIRES(mutex_);
  // The lanes whose jobs a waiting caller runs.
  enum class Help { kAll, kWithoutThread };
  static bool MayHelp(const Lane& lane, Help help) {
    return HasNext(lane) && (help == Help::kAll || !lane.thread.joinable());
  }
  // The next lane with a job to begin and a job that is waited for; null if there is none.
  Lane* FindNext(uint64_t waited, Help help) const ATTNDB_REQUIRES(mutex_);
  // The same, among the lanes of these jobs.
  static Lane* FindNextOf(std::span<const AddedPtr> jobs, Help help);
  // A caller's goal: whether it is reached, the next lane that the caller may run jobs of, and the
  // state of the work. Called under mutex_.
  struct Goal {
    std::function<bool()> is_over;
    std::function<Lane*(Help)> find_next;
    std::function<Work()> work;
  };
  // Errors: kCancelled (by `progress`).
  Status WaitUntil(const Goal& goal, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Ends a job that never began, with kCancelled. Moves its `run` to `discarded`, which the caller
  // destroys without the mutex: destroying a job's data may take other locks.
  using Discarded = std::vector<std::function<Status(Control*)>>;
  static void Discard(Added* added, Discarded* discarded);
  // Discards the lane's waiting jobs, and tells the running one to end.
  void CancelLane(Lane* lane, Discarded* discarded) ATTNDB_REQUIRES(mutex_);
  void Report(Lane* lane, uint64_t done) ATTNDB_EXCLUDES(mutex_);
  // Whether no job is left that is waited for.
  bool IsIdle(uint64_t waited = kNobody) const ATTNDB_REQUIRES(mutex_);
  // Work of the jobs that are waited for: over, running and to come.
  Work AllWork(uint64_t waited) const ATTNDB_REQUIRES(mutex_);
  Status TakeError(uint64_t waited) ATTNDB_REQUIRES(mutex_);

  const uint32_t num_threads_;
  // The list is constant after construction; the lanes are not.
  std::vector<std::unique_ptr<Lane>> lanes_;

  // The mutex is a leaf. No job runs or is destroyed, and no progress is called, under it.
  mutable Mutex mutex_;
  CondVar changed_;  // Progress was made, a job ended, or one was added.
  bool stopping_ ATTNDB_GUARDED_BY(mutex_) = false;
  std::map<uint64_t, OwnersJobs> owners_ ATTNDB_GUARDED_BY(mutex_);
  Work all_ ATTNDB_GUARDED_BY(mutex_);  // The same as an owner's Work, over all jobs.
  int64_t busy_ns_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_LANES_H_
