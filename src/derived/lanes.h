// Work in the background, in lanes: each lane is a thread that does one job after another, so that
// a long job delays only what stands in its own lane.
//
// A lane's thread starts with its first job, so that a program that adds none has no thread. Where
// the system starts none, it is tried again with each job, and who waits does the lane's jobs. Jobs
// of a lane run in the order in which they were added, one at a time, each once; if a job leaves
// work undone, its caller adds it again. A thread that waits for the lanes runs their jobs itself,
// at its own priority: threads of low priority starve on a busy machine.
//
// Errors:  what a job returns is kept for Wait, but for kCancelled and kFailedPrecondition, which
//          say that the job is not needed any more.
// Threads: thread-safe. A job may call Add and Cancel. It may block, as long as nobody waits for
//          the job while holding the lock that it blocks on.
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
  // What a running job sees of its lane.
  class Control {
   public:
    // True: the job should end soon, with kCancelled.
    const std::atomic<bool>* cancel() const;
    // Threads of the lane's priority, for this job alone. They start when a job first asks for
    // them.
    ThreadPool* pool();
    // Tells that so much of the job's work is done.
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
    uint64_t owner = kNobody;  // Whose it is: the argument of Wait.
    uint64_t subject = 0;      // What the job is for: the argument of Cancel and Await.
    uint64_t work = 0;         // Size of the job in any unit, for progress.
    std::function<Status(Control*)> run;
  };
  enum class Priority { kLowest, kLow, kNormal };
  // A job that was added. Its members are guarded by the lanes' mutex.
  struct Added {
    Job job;
    Lane* lane = nullptr;
    uint64_t done = 0;  // How much of job.work is done.
    bool is_over = false;
    Status status;  // What the job returned; kCancelled if it never began.
  };
  using AddedPtr = std::shared_ptr<Added>;
  // Called with the work done and the work in all; false = wait no longer.
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  // Makes a lane for each priority. Jobs have `num_threads` threads; 0 = one a core.
  Lanes(std::initializer_list<Priority> priorities, uint32_t num_threads);
  ~Lanes() { Stop(); }
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  // Adds a job to a lane. After Stop it is over at once. REQUIRES: there is such a lane.
  AddedPtr Add(size_t lane, Job job) ATTNDB_EXCLUDES(mutex_);
  // Forgets the subject's jobs that wait, and tells the one under way to end. Does not wait.
  void Cancel(uint64_t subject) ATTNDB_EXCLUDES(mutex_);
  // Waits until no job is under way for the subject; jobs may still be queued.
  void Await(uint64_t subject) ATTNDB_EXCLUDES(mutex_);
  // Forgets the lanes' jobs that wait, cancels those under way and waits until they have ended. A
  // job that is forgotten never runs: its owner must not count on it.
  void CancelLanes(std::span<const size_t> lanes) ATTNDB_EXCLUDES(mutex_);
  // Waits until these jobs are over, whatever else is left to do; without `progress`, or where a
  // lane has no thread, the caller runs jobs of their lanes, too. Progress counts these jobs.
  // Errors: kCancelled (by `progress`, which may be null); the first of these jobs' errors.
  Status WaitFor(std::span<const AddedPtr> jobs, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Waits until nothing is left to do of the owner's jobs, or of all with kNobody; without
  // `progress`, or where a lane has no thread, the caller runs jobs, too. Progress counts these
  // jobs from when none of them was left, whatever is left of others'.
  // Errors: kCancelled (by `progress`, which may be null); the first of these jobs' errors since
  //         the last such Wait.
  Status Wait(uint64_t owner, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  Status Wait(const Progress& progress) { return Wait(kNobody, progress); }
  // Forgets the jobs that wait, cancels those under way and ends the threads.
  void Stop() ATTNDB_EXCLUDES(mutex_);

  // Nanoseconds spent in jobs.
  int64_t busy_ns() const ATTNDB_EXCLUDES(mutex_);

 private:
  struct Lane {
    explicit Lane(Priority of_thread) : priority(of_thread) {}

    const Priority priority;
    // Set under mutex_ for the job under way, which reads it without. Relaxed: it orders nothing.
    std::atomic<bool> cancel = false;
    std::unique_ptr<ThreadPool> pool;  // Used by `thread` alone.

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
  // What is known of an owner's jobs.
  struct OwnersJobs {
    Work work;     // What was added since the owner last had none, and what ended of it.
    Status error;  // The first since the last Wait.
  };
  // Whether who waits for `waited`, waits for the jobs of `owner`.
  static bool IsWaitedFor(uint64_t owner, uint64_t waited) {
    return waited == kNobody || owner == waited;
  }

  void Run(Lane* lane) ATTNDB_EXCLUDES(mutex_);
  // Starts the lane's thread, if there is none and the system gives one.
  void StartThread(Lane* lane) ATTNDB_REQUIRES(mutex_);
  // Whether the lane has a job that can begin.
  static bool HasNext(const Lane& lane) { return !lane.jobs.empty() && lane.current == nullptr; }
  // Runs the lane's next job in this thread, whose pool is given. REQUIRES: HasNext.
  void RunNext(Lane* lane, std::unique_ptr<ThreadPool>* pool) ATTNDB_REQUIRES(mutex_);
  // Lets the mutex go while the lane's current job runs.
  void RunCurrent(Lane* lane, std::unique_ptr<ThreadPool>* pool) ATTNDB_REQUIRES(mutex_);
  // Which lanes a caller that waits runs jobs of.
  enum class Help { kAll, kWithoutThread };
  static bool MayHelp(const Lane& lane, Help help) {
    return HasNext(lane) && (help == Help::kAll || !lane.thread.joinable());
  }
  // The next lane that has a job to begin, and one that is waited for; null if none has.
  Lane* FindNext(uint64_t waited, Help help) const ATTNDB_REQUIRES(mutex_);
  // The same, of the lanes that these jobs are in.
  static Lane* FindNextOf(std::span<const AddedPtr> jobs, Help help);
  // What a caller waits for: whether it has come, the next lane that the caller may run jobs of,
  // and how far the work is. Called under mutex_.
  struct Goal {
    std::function<bool()> is_over;
    std::function<Lane*(Help)> find_next;
    std::function<Work()> work;
  };
  // Errors: kCancelled (by `progress`).
  Status WaitUntil(const Goal& goal, const Progress& progress) ATTNDB_EXCLUDES(mutex_);
  // Ends a job that never began, with kCancelled. Moves its `run` to `discarded`, which the caller
  // destroys without the mutex: what a job holds may take other locks when it goes.
  using Discarded = std::vector<std::function<Status(Control*)>>;
  static void Discard(Added* added, Discarded* discarded);
  // Discards the lane's jobs that wait, and tells the one under way to end.
  void CancelLane(Lane* lane, Discarded* discarded) ATTNDB_REQUIRES(mutex_);
  void Report(Lane* lane, uint64_t done) ATTNDB_EXCLUDES(mutex_);
  // Whether no job is left that is waited for.
  bool IsIdle(uint64_t waited = kNobody) const ATTNDB_REQUIRES(mutex_);
  // Work of the jobs that are waited for: over, under way and to come.
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
  Work all_ ATTNDB_GUARDED_BY(mutex_);  // As an owner's, of all jobs.
  int64_t busy_ns_ ATTNDB_GUARDED_BY(mutex_) = 0;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_LANES_H_
