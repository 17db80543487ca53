// Goal:   each segment that is added is worked on once, in order; what is cancelled ends; waiting
//         ends when nothing is left; stopping ends at once and starts nothing more.
// Method: jobs that note what they do, or wait at a gate (run under TSan too).
#include "db/background_worker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Something that one thread does and others wait for.
class Event {
 public:
  void Set() {
    MutexLock lock(&mutex_);
    set_ = true;
    condition_.NotifyAll();
  }
  void Await() {
    MutexLock lock(&mutex_);
    while (!set_) condition_.Wait(&mutex_);
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool set_ ATTNDB_GUARDED_BY(mutex_) = false;
};

// Ends when it is told to.
Status UntilCancelled(BackgroundWorker::Control* control) {
  while (!control->cancel()->load()) std::this_thread::yield();
  return Status::Cancelled("test");
}

TEST(BackgroundWorker, WorksInOrderAndTellsHowFar) {
  std::vector<db::SegmentId> done;
  Event go;
  BackgroundWorker worker(1, [&](db::SegmentId segment, BackgroundWorker::Control* control) {
    go.Await();
    done.push_back(segment);
    control->Report(5);
    return Status::Ok();
  });
  worker.Add(3, 10);
  worker.Add(1, 20);
  worker.Add(1, 20);  // It waits already.
  worker.Add(2, 30);
  uint64_t last_done = 0;
  ATTNDB_EXPECT_OK(worker.Wait([&](uint64_t work_done, uint64_t work_total) {
    go.Set();
    EXPECT_LE(last_done, work_done);
    EXPECT_EQ(work_total, 60u);
    last_done = work_done;
    return true;
  }));
  EXPECT_THAT(done, ElementsAre(3, 1, 2));
  EXPECT_EQ(worker.counters().num_done, 3u);
  worker.Add(3, 10);  // Again, and counted anew.
  ATTNDB_EXPECT_OK(worker.Wait([](uint64_t, uint64_t work_total) {
    EXPECT_EQ(work_total, 10u);
    return true;
  }));
  EXPECT_THAT(done, ElementsAre(3, 1, 2, 3));
}

TEST(BackgroundWorker, NothingToDoIsNothingToWaitFor) {
  BackgroundWorker worker(1,
                          [](db::SegmentId, BackgroundWorker::Control*) { return Status::Ok(); });
  ATTNDB_EXPECT_OK(worker.Wait(nullptr));
}

TEST(BackgroundWorker, AnErrorIsToldOnceAndStopsNothing) {
  BackgroundWorker worker(1, [](db::SegmentId segment, BackgroundWorker::Control*) {
    if (segment == 2) return Status::FailedPrecondition("gone");
    return segment == 1 ? Status::IoError("no disk") : Status::Ok();
  });
  for (const db::SegmentId segment : {1, 2, 3}) worker.Add(segment, 1);
  EXPECT_THAT(worker.Wait(nullptr), FailsWith(StatusCode::kIoError, HasSubstr("no disk")));
  ATTNDB_EXPECT_OK(worker.Wait(nullptr));
  EXPECT_EQ(worker.counters().num_done, 1u);
  EXPECT_EQ(worker.counters().num_failed, 1u);
}

TEST(BackgroundWorker, WhatIsCancelledEndsAndTheOthersDoNot) {
  std::vector<db::SegmentId> done;
  Event started;
  BackgroundWorker worker(1, [&](db::SegmentId segment, BackgroundWorker::Control* control) {
    if (segment == 1) {
      started.Set();
      return UntilCancelled(control);
    }
    EXPECT_FALSE(control->cancel()->load());
    done.push_back(segment);
    return Status::Ok();
  });
  for (const db::SegmentId segment : {1, 2, 3}) worker.Add(segment, 1);
  started.Await();
  worker.Cancel(2);
  worker.Cancel(9);
  worker.Cancel(1);
  ATTNDB_EXPECT_OK(worker.Wait(nullptr));
  EXPECT_THAT(done, ElementsAre(3));
}

TEST(BackgroundWorker, OneSegmentCanBeAwaited) {
  std::atomic<bool> ended = false;
  Event started;
  BackgroundWorker worker(1, [&](db::SegmentId segment, BackgroundWorker::Control* control) {
    if (segment == 1) started.Set();
    const Status status = UntilCancelled(control);
    if (segment == 1) ended = true;
    return status;
  });
  worker.Add(1, 1);
  worker.Add(2, 1);
  started.Await();
  worker.Await(2);  // Its turn has not come.
  worker.Cancel(1);
  worker.Await(1);
  EXPECT_TRUE(ended);
}

TEST(BackgroundWorker, AllCanBeCancelledAndItGoesOnWithWhatIsAddedThen) {
  std::vector<db::SegmentId> done;
  Event begun;
  BackgroundWorker worker(1, [&](db::SegmentId segment, BackgroundWorker::Control* control) {
    done.push_back(segment);
    if (segment != 1) return Status::Ok();
    begun.Set();
    return UntilCancelled(control);
  });
  worker.Add(1, 1);
  worker.Add(2, 1);
  begun.Await();
  worker.CancelAll();
  EXPECT_THAT(done, ElementsAre(1));
  worker.CancelAll();  // Of nothing.
  worker.Add(3, 1);
  ATTNDB_EXPECT_OK(worker.Wait(nullptr));
  EXPECT_THAT(done, ElementsAre(1, 3));
}

TEST(BackgroundWorker, WhoWaitsCanGiveUp) {
  BackgroundWorker worker(
      1, [](db::SegmentId, BackgroundWorker::Control* control) { return UntilCancelled(control); });
  worker.Add(1, 7);
  EXPECT_THAT(worker.Wait([](uint64_t, uint64_t) { return false; }),
              FailsWith(StatusCode::kCancelled, HasSubstr("0 of 7 bytes")));
}

TEST(BackgroundWorker, JobsHaveThreadsOfTheLowestPriority) {
  std::atomic<int> num_low = 0;
  BackgroundWorker worker(3, [&](db::SegmentId, BackgroundWorker::Control* control) {
    EXPECT_EQ(control->pool()->num_threads(), 3u);
    std::barrier all(3);  // So that each thread takes a part.
    control->pool()->ParallelFor(3, [&](uint32_t) {
      if (getpriority(PRIO_PROCESS, static_cast<id_t>(gettid())) == 19) ++num_low;
      all.arrive_and_wait();
    });
    return Status::Ok();
  });
  worker.Add(1, 1);
  ATTNDB_EXPECT_OK(worker.Wait(nullptr));
  EXPECT_EQ(num_low, 3);
}

TEST(BackgroundWorker, StoppingCancelsAndStartsNothingMore) {
  std::atomic<int> num_started = 0;
  Event started;
  BackgroundWorker worker(1, [&](db::SegmentId, BackgroundWorker::Control* control) {
    ++num_started;
    started.Set();
    return UntilCancelled(control);
  });
  worker.Add(1, 1);
  worker.Add(2, 1);
  started.Await();
  std::thread waiter([&] { ATTNDB_EXPECT_OK(worker.Wait(nullptr)); });
  worker.Stop();
  worker.Add(3, 1);
  waiter.join();
  EXPECT_EQ(num_started, 1);
}

}  // namespace
}  // namespace attndb::internal
