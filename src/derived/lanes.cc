#include "derived/lanes.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "attndb/result.h"
#include "attndb/units.h"
#include "common/clock.h"
#include "common/start_thread.h"

namespace attndb::derived {
namespace {

// Linux has a nice value for each thread, although POSIX has one for the process. That it can't be
// set is no reason not to work.
void SetPriority(Lanes::Priority priority) {
  constexpr int kLowest = 19;  // A seventieth of another thread's share.
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
  // Threads inherit the priority of the thread that starts them.
  if (*pool_ == nullptr) *pool_ = std::make_unique<ThreadPool>(lanes_->num_threads_);
  return pool_->get();
}

Lanes::Lanes(std::initializer_list<Priority> priorities, uint32_t num_threads)
    : num_threads_(num_threads) {
  for (const Priority priority : priorities) lanes_.push_back(std::make_unique<Lane>(priority));
}

Lanes::AddedPtr Lanes::Add(size_t lane_number, Job job) {
  Lane* const lane = lanes_.at(lane_number).get();
  const auto added = std::make_shared<Added>(Added{.job = std::move(job), .lane = lane});
  Discarded discarded;
  MutexLock lock(&mutex_);
  if (stopping_) {
    Discard(added.get(), &discarded);
    return added;
  }
  Work& owners_work = owners_[added->job.owner].work;
  if (IsIdle(added->job.owner)) owners_work = {};
  if (IsIdle()) all_ = {};
  owners_work.total += added->job.work;
  all_.total += added->job.work;
  lane->jobs.push_back(added);
  StartThread(lane);
  lane->added.NotifyOne();
  changed_.NotifyAll();
  return added;
}

void Lanes::StartThread(Lane* lane) {
  if (!lane->thread.joinable()) lane->thread = TryStartThread([this, lane] { Run(lane); });
}

void Lanes::Discard(Added* added, Discarded* discarded) {
  discarded->push_back(std::exchange(added->job.run, nullptr));
  added->is_over = true;
  added->status = Status::Cancelled("the job was given up before it began");
}

void Lanes::Cancel(uint64_t subject) {
  Discarded discarded;
  MutexLock lock(&mutex_);
  for (const auto& lane : lanes_) {
    const auto is_for = [subject](const AddedPtr& added) { return added->job.subject == subject; };
    for (const AddedPtr& added : lane->jobs) {
      if (!is_for(added)) continue;
      owners_[added->job.owner].work.total -= added->job.work;
      all_.total -= added->job.work;
      Discard(added.get(), &discarded);
    }
    std::erase_if(lane->jobs, is_for);
    if (lane->current != nullptr && is_for(lane->current)) {
      lane->cancel.store(true, std::memory_order_relaxed);
    }
  }
  changed_.NotifyAll();
}

void Lanes::Await(uint64_t subject) {
  MutexLock lock(&mutex_);
  for (const auto& lane : lanes_) {
    while (lane->current != nullptr && lane->current->job.subject == subject)
      changed_.Wait(&mutex_);
  }
}

void Lanes::CancelLane(Lane* lane, Discarded* discarded) {
  for (const AddedPtr& added : lane->jobs) {
    owners_[added->job.owner].work.total -= added->job.work;
    all_.total -= added->job.work;
    Discard(added.get(), discarded);
  }
  lane->jobs.clear();
  lane->cancel.store(true, std::memory_order_relaxed);
  changed_.NotifyAll();
}

void Lanes::CancelLanes(std::span<const size_t> lanes) {
  Discarded discarded;
  std::vector<AddedPtr> under_way;
  MutexLock lock(&mutex_);
  for (const size_t number : lanes) {
    Lane* const lane = lanes_.at(number).get();
    CancelLane(lane, &discarded);
    if (lane->current != nullptr) under_way.push_back(lane->current);
  }
  for (const AddedPtr& added : under_way) {
    while (!added->is_over) changed_.Wait(&mutex_);
  }
}

Status Lanes::WaitUntil(const Goal& goal, const Progress& progress) {
  std::unique_ptr<ThreadPool> pool;
  MutexLock lock(&mutex_);
  while (!goal.is_over()) {
    if (progress) {
      const Work work = goal.work();
      lock.Unlock();
      const bool go_on = progress(work.done, work.total);
      lock.Lock();
      if (!go_on) {
        return Status::Cancelled("waited no longer: " + FormatBytes(work.done) + " of " +
                                 FormatBytes(work.total) + " done in the background");
      }
      // A change while the mutex was free does not wake this wait: looks again.
      if (goal.is_over() || work != goal.work()) continue;
    }
    if (Lane* const lane = goal.find_next(progress ? Help::kWithoutThread : Help::kAll)) {
      RunNext(lane, &pool);
      continue;
    }
    changed_.Wait(&mutex_);
  }
  return Status::Ok();
}

Status Lanes::WaitFor(std::span<const AddedPtr> jobs, const Progress& progress) {
  const Goal goal = {.is_over =
                         [jobs] {
                           return std::ranges::all_of(
                               jobs, [](const AddedPtr& added) { return added->is_over; });
                         },
                     .find_next = [jobs](Help help) { return FindNextOf(jobs, help); },
                     .work =
                         [jobs] {
                           Work work;
                           for (const AddedPtr& added : jobs) {
                             work.done += added->is_over ? added->job.work : added->done;
                             work.total += added->job.work;
                           }
                           return work;
                         }};
  ATTNDB_RETURN_IF_ERROR(WaitUntil(goal, progress));
  MutexLock lock(&mutex_);
  for (const AddedPtr& added : jobs) {
    if (IsFailure(added->status)) return added->status;
  }
  return Status::Ok();
}

Status Lanes::Wait(uint64_t owner, const Progress& progress) {
  const Goal goal = {
      .is_over = [=, this]() ATTNDB_NO_THREAD_SAFETY_ANALYSIS { return IsIdle(owner); },
      .find_next = [=, this](Help help)
                       ATTNDB_NO_THREAD_SAFETY_ANALYSIS { return FindNext(owner, help); },
      .work = [=, this]() ATTNDB_NO_THREAD_SAFETY_ANALYSIS { return AllWork(owner); }};
  ATTNDB_RETURN_IF_ERROR(WaitUntil(goal, progress));
  MutexLock lock(&mutex_);
  return TakeError(owner);
}

Status Lanes::TakeError(uint64_t waited) {
  Status first;
  for (auto& [owner, jobs] : owners_) {
    if (!IsWaitedFor(owner, waited)) continue;
    Status error = std::exchange(jobs.error, Status());
    if (first.ok()) first = std::move(error);
  }
  return first;
}

void Lanes::Stop() {
  std::vector<std::thread> threads;
  {
    Discarded discarded;
    MutexLock lock(&mutex_);
    stopping_ = true;
    for (const auto& lane : lanes_) {
      CancelLane(lane.get(), &discarded);
      lane->added.NotifyOne();
      threads.push_back(std::move(lane->thread));
    }
  }
  for (std::thread& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  MutexLock lock(&mutex_);
  while (!IsIdle()) changed_.Wait(&mutex_);  // A waiting thread may still run a job.
}

int64_t Lanes::busy_ns() const {
  MutexLock lock(&mutex_);
  return busy_ns_;
}

bool Lanes::IsIdle(uint64_t waited) const {
  const auto is_waited_for = [waited](const AddedPtr& added) {
    return added != nullptr && IsWaitedFor(added->job.owner, waited);
  };
  return std::ranges::none_of(lanes_, [&](const auto& lane) {
    return is_waited_for(lane->current) || std::ranges::any_of(lane->jobs, is_waited_for);
  });
}

Lanes::Work Lanes::AllWork(uint64_t waited) const {
  Work work = all_;
  if (waited != kNobody) {
    const auto found = owners_.find(waited);
    work = found == owners_.end() ? Work() : found->second.work;
  }
  for (const auto& lane : lanes_) {
    const Added* const current = lane->current.get();
    if (current != nullptr && IsWaitedFor(current->job.owner, waited)) work.done += current->done;
  }
  return work;
}

void Lanes::Report(Lane* lane, uint64_t done) {
  MutexLock lock(&mutex_);
  lane->current->done = std::min(done, lane->current->job.work);
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

Lanes::Lane* Lanes::FindNext(uint64_t waited, Help help) const {
  const auto found = std::ranges::find_if(lanes_, [waited, help](const auto& lane) {
    return MayHelp(*lane, help) && std::ranges::any_of(lane->jobs, [waited](const AddedPtr& added) {
             return IsWaitedFor(added->job.owner, waited);
           });
  });
  return found == lanes_.end() ? nullptr : found->get();
}

Lanes::Lane* Lanes::FindNextOf(std::span<const AddedPtr> jobs, Help help) {
  const auto found = std::ranges::find_if(jobs, [help](const AddedPtr& added) {
    return !added->is_over && MayHelp(*added->lane, help);
  });
  return found == jobs.end() ? nullptr : (*found)->lane;
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
  Job& job = lane->current->job;  // Nobody else changes it.
  mutex_.Unlock();
  Control control(this, lane, pool);
  const int64_t start_ns = SteadyNowNanos();
  Status status = job.run(&control);
  const int64_t busy_ns = SteadyNowNanos() - start_ns;
  job.run = nullptr;  // Destroys the job's data while no thread waits for the mutex.
  mutex_.Lock();
  lane->current->is_over = true;
  lane->current->status = status;
  OwnersJobs& owners_jobs = owners_[job.owner];
  owners_jobs.work.done += job.work;
  all_.done += job.work;
  busy_ns_ += busy_ns;
  if (IsFailure(status) && owners_jobs.error.ok()) owners_jobs.error = std::move(status);
}

}  // namespace attndb::derived
