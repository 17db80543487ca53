// Goal:   each job is done once, in the order of its lane. A long job delays no other lane. A
//         cancelled job ends. Waiting ends when no job is left. Stopping ends at once and starts no
//         more jobs.
// Method: jobs that note what they do, or wait at a gate (run under TSan too).
#include "derived/lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "testing/event.h"
#include "testing/matchers.h"
#include "testing/no_threads.h"

namespace attndb::derived {
namespace {

using test::Event;
using test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Control = Lanes::Control;
constexpr auto kLowest = Lanes::Priority::kLowest;
constexpr auto kNormal = Lanes::Priority::kNormal;
constexpr size_t kFirst[] = {0};

// Ends when it is told to.
Status UntilCancelled(Control* control) {
  while (!control->cancel()->load()) std::this_thread::yield();
  return Status::Cancelled("test");
}

// Lets other threads run until they wait, or nearly always.
void YieldOften() {
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
}

Lanes::Job JobOf(uint64_t subject, uint64_t work, std::function<Status(Control*)> run) {
  return {.subject = subject, .work = work, .run = std::move(run)};
}

TEST(Lanes, WhoWaitsForAnOwnerWaitsForThatOwnersJobsAlone) {
  constexpr uint64_t kMine = 3;
  constexpr uint64_t kOthers = 4;
  Event go;
  Lanes lanes({kNormal, kNormal}, 1);
  lanes.Add(0, {.owner = kOthers, .work = 100, .run = [&](Control*) {
                  go.Await();
                  return Status::IoError("the other's disk");
                }});
  lanes.Add(1, {.owner = kMine, .work = 7, .run = [](Control*) { return Status::Ok(); }});
  std::vector<uint64_t> totals;
  ATTNDB_EXPECT_OK(lanes.Wait(kMine, [&](uint64_t, uint64_t total) {
    totals.push_back(total);
    return true;
  }));
  EXPECT_THAT(totals, ::testing::Each(7u));
  ATTNDB_EXPECT_OK(lanes.Wait(kMine, nullptr));
  ATTNDB_EXPECT_OK(lanes.Wait(kMine + 10, nullptr));  // It has none.
  go.Set();
  EXPECT_THAT(lanes.Wait(kOthers, nullptr),
              FailsWith(StatusCode::kIoError, HasSubstr("the other's disk")));
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

// Else it would tell whether others have work.
TEST(Lanes, AnOwnersProgressBeginsAnewWhateverOthersHaveToDo) {
  constexpr uint64_t kMine = 3;
  constexpr uint64_t kOthers = 4;
  Event go;
  Lanes lanes({kNormal, kNormal}, 1);
  lanes.Add(0, {.owner = kOthers, .work = 100, .run = [&](Control*) {
                  go.Await();
                  return Status::Ok();
                }});
  using Seen = std::vector<std::pair<uint64_t, uint64_t>>;
  for (const uint64_t work : {uint64_t{7}, uint64_t{5}}) {
    Event asked;
    lanes.Add(1, {.owner = kMine, .work = work, .run = [&](Control*) {
                    asked.Await();
                    return Status::Ok();
                  }});
    Seen seen;
    ATTNDB_EXPECT_OK(lanes.Wait(kMine, [&](uint64_t done, uint64_t total) {
      seen.emplace_back(done, total);
      asked.Set();
      return true;
    }));
    EXPECT_THAT(seen, ::testing::Each(::testing::Pair(0u, work)));
    EXPECT_FALSE(seen.empty());
  }
  Seen of_all;
  ATTNDB_EXPECT_OK(lanes.Wait([&](uint64_t done, uint64_t total) {
    of_all.emplace_back(done, total);
    go.Set();
    return true;
  }));
  EXPECT_THAT(of_all, ::testing::Each(::testing::Pair(12u, 112u)));
}

TEST(Lanes, JobsRunInOrderAndTellHowFar) {
  std::vector<uint64_t> done;
  Event go;
  Lanes lanes({kLowest}, 1);
  for (const uint64_t subject : {3u, 1u, 2u}) {
    lanes.Add(0, JobOf(subject, 10 * subject, [&, subject](Control* control) {
                go.Await();
                done.push_back(subject);
                control->Report(5);
                return Status::Ok();
              }));
  }
  uint64_t last_done = 0;
  ATTNDB_EXPECT_OK(lanes.Wait([&](uint64_t work_done, uint64_t work_total) {
    go.Set();
    EXPECT_LE(last_done, work_done);
    EXPECT_EQ(work_total, 60u);
    last_done = work_done;
    return true;
  }));
  EXPECT_THAT(done, ElementsAre(3, 1, 2));
  lanes.Add(0, JobOf(3, 10, [](Control*) { return Status::Ok(); }));  // Counted anew.
  ATTNDB_EXPECT_OK(lanes.Wait([](uint64_t, uint64_t work_total) {
    EXPECT_EQ(work_total, 10u);
    return true;
  }));
}

TEST(Lanes, ALongJobDelaysNoOtherLane) {
  Lanes lanes({kLowest, kLowest}, 1);
  Event is_free;
  Event short_one;
  lanes.Add(0, JobOf(1, 1, [&](Control*) {
              is_free.Await();
              return Status::Ok();
            }));
  lanes.Add(1, JobOf(1, 1, [&](Control*) {
              short_one.Set();
              return Status::Ok();
            }));
  short_one.Await();
  is_free.Set();
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

// A waiting caller runs jobs like the lane's own thread: in order, and one at a time.
TEST(Lanes, WhoWaitsWorksInTheLane) {
  constexpr uint64_t kJobs = 2000;
  for (int round = 0; round < 5; ++round) {
    std::vector<uint64_t> done;
    std::vector<uint64_t> expected;
    Lanes lanes({kLowest}, 1);
    for (uint64_t i = 0; i < kJobs; ++i) {
      expected.push_back(i);
      lanes.Add(0, JobOf(i, 1, [&done, i](Control*) {
                  done.push_back(i);
                  return Status::Ok();
                }));
    }
    std::thread other([&] { ATTNDB_EXPECT_OK(lanes.Wait(nullptr)); });
    ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
    other.join();
    EXPECT_EQ(done, expected);
  }
}

TEST(Lanes, NothingToDoIsNothingToWaitFor) {
  Lanes lanes({kLowest, kNormal}, 1);
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

TEST(Lanes, AnErrorIsToldOnceAndStopsNothing) {
  Lanes lanes({kLowest}, 1);
  bool reached = false;
  lanes.Add(0, JobOf(1, 1, [](Control*) { return Status::IoError("no disk"); }));
  lanes.Add(0, JobOf(2, 1, [](Control*) { return Status::FailedPrecondition("gone"); }));
  lanes.Add(0, JobOf(3, 1, [&](Control*) {
              reached = true;
              return Status::Ok();
            }));
  EXPECT_THAT(lanes.Wait(nullptr), FailsWith(StatusCode::kIoError, HasSubstr("no disk")));
  EXPECT_TRUE(reached);
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

TEST(Lanes, WhatIsCancelledEndsAndTheOthersDoNot) {
  std::vector<uint64_t> done;
  Event started;
  Lanes lanes({kLowest}, 1);
  lanes.Add(0, JobOf(1, 1, [&](Control* control) {
              started.Set();
              return UntilCancelled(control);
            }));
  for (const uint64_t subject : {2u, 3u}) {
    lanes.Add(0, JobOf(subject, 1, [&, subject](Control* control) {
                EXPECT_FALSE(control->cancel()->load());
                done.push_back(subject);
                return Status::Ok();
              }));
  }
  started.Await();
  lanes.Cancel(2);
  lanes.Cancel(9);
  lanes.Cancel(1);
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
  EXPECT_THAT(done, ElementsAre(3));
}

TEST(Lanes, OneSubjectCanBeAwaited) {
  std::atomic<bool> ended = false;
  Event started;
  Lanes lanes({kLowest}, 1);
  lanes.Add(0, JobOf(1, 1, [&](Control* control) {
              started.Set();
              const Status status = UntilCancelled(control);
              ended = true;
              return status;
            }));
  lanes.Add(0, JobOf(2, 1, UntilCancelled));
  started.Await();
  lanes.Await(2);  // Its turn has not come.
  lanes.Cancel(1);
  lanes.Await(1);
  EXPECT_TRUE(ended);
}

TEST(Lanes, ALaneCanBeCancelledAndGoesOnWithWhatIsAddedThen) {
  std::vector<uint64_t> done;
  Event begun;
  Lanes lanes({kLowest}, 1);
  const auto note = [&](uint64_t subject) {
    return JobOf(subject, 1, [&, subject](Control*) {
      done.push_back(subject);
      return Status::Ok();
    });
  };
  lanes.Add(0, JobOf(1, 1, [&](Control* control) {
              begun.Set();
              return UntilCancelled(control);
            }));
  lanes.Add(0, note(2));
  begun.Await();
  lanes.CancelLanes(kFirst);
  lanes.CancelLanes(kFirst);  // Nothing is left to cancel.
  lanes.Add(0, note(3));
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
  EXPECT_THAT(done, ElementsAre(3));
}

// Their owners count on them: nobody adds them again.
TEST(Lanes, JobsOfOtherLanesGoOnWhenALaneIsCancelled) {
  constexpr uint64_t kOwner = 3;
  Event begun;
  Event go;
  std::vector<int> done;
  Lanes lanes({kLowest, kLowest}, 1);
  const auto note = [&](int number) {
    return [&done, number](Control*) {
      done.push_back(number);
      return Status::Ok();
    };
  };
  lanes.Add(1, {.owner = kOwner, .work = 1, .run = [&](Control* control) {
                  begun.Set();
                  go.Await();
                  EXPECT_FALSE(control->cancel()->load());
                  return Status::Ok();
                }});
  begun.Await();
  lanes.Add(1, {.owner = kOwner, .work = 10, .run = note(1)});
  lanes.Add(0, {.owner = kOwner, .work = 100, .run = [&](Control* control) {
                  return UntilCancelled(control);
                }});
  lanes.Add(0, {.owner = kOwner, .work = 1000, .run = note(2)});
  std::thread release([&] {  // For a call that waits for the other lane, too.
    YieldOften();
    go.Set();
  });
  lanes.CancelLanes(kFirst);
  ATTNDB_EXPECT_OK(lanes.Wait(kOwner, nullptr));
  release.join();
  EXPECT_THAT(done, ElementsAre(1));
}

// A job's destructor may take locks held by threads that add or cancel jobs.
TEST(Lanes, AJobThatNeverBeganIsDestroyedWithoutTheMutex) {
  for (const int how : {0, 1, 2, 3}) {
    Event begun;
    Lanes lanes({kLowest}, 1);
    int num_destroyed = 0;
    const auto add = [&](uint64_t subject) {
      std::shared_ptr<const void> held(&lanes, [&](const void*) {
        (void)lanes.busy_ns();  // Takes the mutex: where it is held, waits for ever.
        ++num_destroyed;
      });
      return lanes.Add(
          0, JobOf(subject, 1, [held = std::move(held)](Control*) { return Status::Ok(); }));
    };
    lanes.Add(0, JobOf(1, 1, [&](Control* control) {
                begun.Set();
                return UntilCancelled(control);
              }));
    begun.Await();
    if (how == 3) lanes.Stop();
    const Lanes::AddedPtr job = add(2);
    if (how == 0) lanes.Cancel(2);
    if (how == 1) lanes.CancelLanes(kFirst);
    if (how == 2) lanes.Stop();
    EXPECT_EQ(num_destroyed, 1) << how;
  }
}

TEST(Lanes, WhoWaitsCanGiveUp) {
  Lanes lanes({kLowest}, 1);
  lanes.Add(0, JobOf(1, 7, UntilCancelled));
  EXPECT_THAT(lanes.Wait([](uint64_t, uint64_t) { return false; }),
              FailsWith(StatusCode::kCancelled, HasSubstr("0 B of 7 B")));
}

TEST(Lanes, WhoWaitsForSomeJobsWaitsForNoOtherAndIsToldOfNoOther) {
  Event is_free;
  Event failed;
  Lanes lanes({kLowest, kLowest}, 1);
  lanes.Add(0, JobOf(1, 1, [&](Control*) {
              is_free.Await();
              return Status::Ok();
            }));
  lanes.Add(1, JobOf(2, 1, [&](Control*) {
              failed.Set();
              return Status::IoError("of another");
            }));
  failed.Await();
  const Lanes::AddedPtr jobs[] = {
      lanes.Add(1, JobOf(3, 10, [](Control*) { return Status::Ok(); })),
      lanes.Add(1, JobOf(4, 20, [](Control*) { return Status::FailedPrecondition("gone"); }))};
  ATTNDB_EXPECT_OK(lanes.WaitFor(jobs, [](uint64_t done, uint64_t total) {
    EXPECT_LE(done, total);
    EXPECT_EQ(total, 30u);
    return true;
  }));
  ATTNDB_EXPECT_OK(lanes.WaitFor(jobs, nullptr));
  ATTNDB_EXPECT_OK(lanes.WaitFor({}, [](uint64_t, uint64_t) { return false; }));

  const Lanes::AddedPtr fails =
      lanes.Add(1, JobOf(5, 1, [](Control*) { return Status::IoError("no disk"); }));
  for (int i = 0; i < 2; ++i) {  // A second request gets the same error.
    EXPECT_THAT(lanes.WaitFor({&fails, 1}, nullptr),
                FailsWith(StatusCode::kIoError, HasSubstr("no disk")));
  }
  is_free.Set();
  EXPECT_THAT(lanes.Wait(nullptr), FailsWith(StatusCode::kIoError, HasSubstr("of another")));
}

TEST(Lanes, WhatIsGivenUpIsOverForWhoWaitsForIt) {
  Event started;
  Lanes lanes({kLowest}, 1);
  const Lanes::AddedPtr first = lanes.Add(0, JobOf(1, 1, [&](Control* control) {
                                            started.Set();
                                            return UntilCancelled(control);
                                          }));
  const Lanes::AddedPtr second = lanes.Add(0, JobOf(2, 1, UntilCancelled));
  const Lanes::AddedPtr third = lanes.Add(0, JobOf(3, 1, UntilCancelled));
  started.Await();
  EXPECT_THAT(lanes.WaitFor({&first, 1}, [](uint64_t, uint64_t) { return false; }),
              FailsWith(StatusCode::kCancelled, HasSubstr("0 B of 1 B")));
  lanes.Cancel(2);
  ATTNDB_EXPECT_OK(lanes.WaitFor({&second, 1}, nullptr));
  lanes.Stop();
  for (const Lanes::AddedPtr& job : {first, third, lanes.Add(0, JobOf(4, 1, UntilCancelled))}) {
    ATTNDB_EXPECT_OK(lanes.WaitFor({&job, 1}, nullptr));
  }
}

// Returns the nice value that a thread gets when it asks for `asked`. A process that is nice itself
// may get another value.
int NiceValueOf(int asked) {
  int given = 0;
  std::thread([&] {
    (void)setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), asked);
    given = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  }).join();
  return given;
}

TEST(Lanes, JobsHaveThreadsOfTheirLanesPriority) {
  const int here = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  const std::map<Lanes::Priority, int> nice = {
      {kLowest, NiceValueOf(19)}, {Lanes::Priority::kLow, NiceValueOf(10)}, {kNormal, here}};
  for (const auto& entry : nice) {
    const int expected = entry.second;
    std::atomic<int> num_right = 0;
    Event ended;
    Lanes lanes({entry.first}, 3);
    lanes.Add(0, JobOf(1, 1, [&](Control* control) {
                EXPECT_EQ(control->pool()->num_threads(), 3u);
                std::barrier all(3);  // So that each thread takes a part.
                control->pool()->ParallelFor(3, [&](uint32_t) {
                  const int found = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
                  if (found == expected) ++num_right;
                  all.arrive_and_wait();
                });
                ended.Set();
                return Status::Ok();
              }));
    ended.Await();  // A caller of Wait may run the job.
    EXPECT_EQ(num_right, 3);
  }
}

TEST(Lanes, WhatIsOverAndWhatIsReportedIsDone) {
  Event added;
  Event half;
  Event go;
  Event whole;
  Event end;
  Lanes lanes({kLowest}, 1);
  const Lanes::AddedPtr jobs[] = {
      lanes.Add(0, JobOf(1, 10,
                         [&](Control*) {
                           added.Await();
                           return Status::Ok();
                         })),
      lanes.Add(0, JobOf(2, 20,
                         [&](Control* control) {
                           control->Report(5);
                           half.Set();
                           go.Await();
                           control->Report(100);  // No more than there is.
                           whole.Set();
                           end.Await();
                           return Status::Ok();
                         })),
      lanes.Add(0, JobOf(3, 40, [](Control*) { return Status::Ok(); }))};
  const auto give_up = [](uint64_t, uint64_t) { return false; };
  const auto says = [](const char* work) {
    return FailsWith(StatusCode::kCancelled, HasSubstr(work));
  };
  added.Set();
  half.Await();
  EXPECT_THAT(lanes.WaitFor(std::span(jobs).first(2), give_up), says("15 B of 30 B"));
  EXPECT_THAT(lanes.WaitFor(jobs, give_up), says("15 B of 70 B"));
  EXPECT_THAT(lanes.Wait(give_up), says("15 B of 70 B"));
  go.Set();
  whole.Await();
  EXPECT_THAT(lanes.WaitFor(jobs, give_up), says("30 B of 70 B"));
  EXPECT_THAT(lanes.Wait(give_up), says("30 B of 70 B"));
  end.Set();
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
  EXPECT_GT(lanes.busy_ns(), 0);
}

TEST(Lanes, WhatIsCancelledBeforeItBeganIsNoWorkAndHoldsNothing) {
  Event go;
  Lanes lanes({kLowest}, 1);
  Event started;
  lanes.Add(0, JobOf(1, 10, [&](Control* control) {
              started.Set();
              go.Await();
              EXPECT_FALSE(control->cancel()->load()) << "another was cancelled";
              return Status::Ok();
            }));
  started.Await();
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> weak = held;
  const Lanes::AddedPtr job =
      lanes.Add(0, JobOf(2, 20, [held = std::move(held)](Control*) { return Status::Ok(); }));
  const auto give_up = [](uint64_t, uint64_t) { return false; };
  EXPECT_THAT(lanes.Wait(give_up), FailsWith(StatusCode::kCancelled, HasSubstr("0 B of 30 B")));
  EXPECT_FALSE(weak.expired());
  lanes.Cancel(2);
  EXPECT_TRUE(weak.expired());
  EXPECT_THAT(lanes.Wait(give_up), FailsWith(StatusCode::kCancelled, HasSubstr("0 B of 10 B")));
  go.Set();
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

// Although the job before it goes on.
TEST(Lanes, WhoWaitsForWhatIsGivenUpWaitsNoLonger) {
  for (const bool all : {false, true}) {
    Event started;
    Event go;
    Event waits;
    Lanes lanes({kLowest}, 1);
    lanes.Add(0, JobOf(1, 1, [&](Control*) {
                started.Set();
                go.Await();
                return Status::Ok();
              }));
    started.Await();
    const Lanes::AddedPtr job = lanes.Add(0, JobOf(2, 1, UntilCancelled));
    std::thread waiter([&] {
      ATTNDB_EXPECT_OK(lanes.WaitFor({&job, 1}, [&](uint64_t, uint64_t) {
        waits.Set();
        return true;
      }));
    });
    waits.Await();
    YieldOften();
    std::thread canceller([&] { all ? lanes.CancelLanes(kFirst) : lanes.Cancel(2); });
    waiter.join();
    go.Set();
    canceller.join();
  }
}

TEST(Lanes, WhoWaitsIsCalledForWhatIsReportedAndOnlyIfSomethingChanged) {
  Event called;
  Event seen;
  Lanes lanes({kLowest}, 1);
  const Lanes::AddedPtr job = lanes.Add(0, JobOf(1, 10, [&](Control* control) {
                                          called.Await();
                                          YieldOften();
                                          control->Report(5);
                                          seen.Await();
                                          YieldOften();
                                          return Status::Ok();
                                        }));
  int num_calls = 0;
  ATTNDB_EXPECT_OK(lanes.WaitFor({&job, 1}, [&](uint64_t done, uint64_t) {
    ++num_calls;
    called.Set();
    if (done == 5) seen.Set();
    return true;
  }));
  EXPECT_GE(num_calls, 2);
  EXPECT_LE(num_calls, 10);  // Threads may wake without a cause.
}

// The job changes no count of work, and the one after it goes on.
TEST(Lanes, WhatEndsWhileWhoWaitsIsCalledIsSeen) {
  Event go;
  Event next;
  Event end;
  Lanes lanes({kLowest}, 1);
  const Lanes::AddedPtr job = lanes.Add(0, JobOf(1, 0, [&](Control*) {
                                          go.Await();
                                          return Status::Ok();
                                        }));
  lanes.Add(0, JobOf(2, 1, [&](Control*) {
              next.Set();
              end.Await();
              return Status::Ok();
            }));
  ATTNDB_EXPECT_OK(lanes.WaitFor({&job, 1}, [&](uint64_t, uint64_t) {
    go.Set();
    next.Await();
    return true;
  }));
  end.Set();
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

TEST(Lanes, WhoWaitsForAJobUnderWayDoesNotBeginTheNext) {
  Event started;
  Event go;
  std::atomic<bool> first_ended = false;
  Lanes lanes({kLowest}, 1);
  const Lanes::AddedPtr first = lanes.Add(0, JobOf(1, 1, [&](Control*) {
                                            started.Set();
                                            go.Await();
                                            first_ended = true;
                                            return Status::Ok();
                                          }));
  lanes.Add(0, JobOf(2, 1, [&](Control*) {
              EXPECT_TRUE(first_ended);
              return Status::Ok();
            }));
  started.Await();
  std::thread other([&] {
    YieldOften();
    go.Set();
  });
  ATTNDB_EXPECT_OK(lanes.WaitFor({&first, 1}, nullptr));
  other.join();
  ATTNDB_EXPECT_OK(lanes.Wait(nullptr));
}

// If a lane has no thread, no other thread would run the job.
TEST(Lanes, WhoWaitsIsWokenForAJobOfALaneWithoutAThread) {
  Event started;
  Event is_free;
  Event waits;
  Lanes lanes({kLowest, kLowest}, 1);
  lanes.Add(0, JobOf(1, 1, [&](Control*) {
              started.Set();
              is_free.Await();
              return Status::Ok();
            }));
  started.Await();
  std::thread waiter([&] {
    ATTNDB_EXPECT_OK(lanes.Wait([&](uint64_t, uint64_t) {
      waits.Set();
      return true;
    }));
  });
  waits.Await();
  YieldOften();
  {
    const test::NoThreads none;
    lanes.Add(1, JobOf(2, 1, [&](Control*) {
                is_free.Set();
                return Status::Ok();
              }));
  }
  waiter.join();
}

// The thread starts while a waiting thread, which needs no later job, runs the lane's job.
TEST(Lanes, AThreadGoesOnWhereWhoWaitedLeftOff) {
  Event second;
  Lanes lanes({kLowest}, 1);
  std::optional<test::NoThreads> none(std::in_place);
  const Lanes::AddedPtr first = lanes.Add(0, JobOf(1, 1, [&](Control*) {
                                            none.reset();
                                            lanes.Add(0, JobOf(2, 1, [&](Control*) {
                                                        second.Set();
                                                        return Status::Ok();
                                                      }));
                                            YieldOften();
                                            return Status::Ok();
                                          }));
  ATTNDB_EXPECT_OK(lanes.WaitFor({&first, 1}, nullptr));
  second.Await();
}

TEST(Lanes, StoppingCancelsAndStartsNothingMore) {
  std::atomic<int> num_started = 0;
  Event started;
  Lanes lanes({kLowest}, 1);
  const auto job = [&](Control* control) {
    ++num_started;
    started.Set();
    return UntilCancelled(control);
  };
  lanes.Add(0, JobOf(1, 1, job));
  lanes.Add(0, JobOf(2, 1, job));
  started.Await();
  std::thread waiter([&] { ATTNDB_EXPECT_OK(lanes.Wait(nullptr)); });
  lanes.Stop();
  lanes.Add(0, JobOf(3, 1, job));
  waiter.join();
  EXPECT_EQ(num_started, 1);
}

}  // namespace
}  // namespace attndb::derived
