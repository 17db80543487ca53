// Goal:   every job is done once, before Finish returns. A job that waits delays no other job. A
//         job, and the objects that it holds, may add jobs.
#include "store/writers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <thread>

#include "common/mutex.h"
#include "testing/no_threads.h"

namespace attndb::store {
namespace {

TEST(WritersTest, FinishWaitsForAllJobs) {
  std::atomic<int> num_done = 0;
  Writers writers;
  for (int i = 0; i < 1000; ++i) writers.Add([&] { num_done.fetch_add(1); });
  writers.Finish();
  EXPECT_EQ(num_done.load(), 1000);
  writers.Finish();
}

TEST(WritersTest, AJobThatWaitsDelaysNoOther) {
  Writers writers;
  std::promise<void> go;
  std::shared_future<void> told = go.get_future().share();
  for (size_t i = 1; i < Writers::kMaxThreads; ++i) writers.Add([told] { told.wait(); });
  std::promise<void> done;
  writers.Add([&] { done.set_value(); });
  done.get_future().wait();
  go.set_value();
}

TEST(WritersTest, MoreJobsThanThreadsBeginInOrder) {
  Writers writers;
  std::promise<void> go;
  std::shared_future<void> told = go.get_future().share();
  for (size_t i = 0; i < Writers::kMaxThreads; ++i) writers.Add([told] { told.wait(); });
  std::promise<void> first;
  std::shared_future<void> first_began = first.get_future().share();
  std::atomic<bool> in_order = false;
  writers.Add([&] { first.set_value(); });
  writers.Add([&, first_began] {
    first_began.wait();
    in_order = true;
  });
  go.set_value();
  writers.Finish();
  EXPECT_TRUE(in_order.load());
}

TEST(WritersTest, AJobIsDoneThoughNoneFollows) {
  Writers writers;
  for (int i = 0; i < 100; ++i) {
    const auto done = std::make_shared<std::promise<void>>();
    writers.Add([done] { done->set_value(); });
    done->get_future().wait();
  }
}

TEST(WritersTest, ThereAreNoMoreThreadsThanThat) {
  Writers writers;
  std::promise<void> go;
  std::shared_future<void> told = go.get_future().share();
  Mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<size_t> num_begun = 0;
  for (size_t i = 0; i < 2 * Writers::kMaxThreads; ++i) {
    writers.Add([&, told] {
      {
        MutexLock lock(&mutex);
        threads.insert(std::this_thread::get_id());
      }
      num_begun.fetch_add(1);
      num_begun.notify_all();
      told.wait();
    });
  }
  for (size_t n = 0; (n = num_begun.load()) < Writers::kMaxThreads;) num_begun.wait(n);
  go.set_value();
  writers.Finish();
  EXPECT_EQ(threads.size(), Writers::kMaxThreads);
}

TEST(WritersTest, WhatAJobHoldsMayAddAJobWhenItGoes) {
  Writers writers;
  const auto done = std::make_shared<std::promise<void>>();
  std::shared_ptr<void> held(
      nullptr, [&writers, done](void*) { writers.Add([done] { done->set_value(); }); });
  writers.Add([kept = std::move(held)] {});
  done->get_future().wait();
}

TEST(WritersTest, AJobMayAddAnotherWhileFinishWaits) {
  std::atomic<int> num_done = 0;
  std::promise<void> go;
  {
    Writers writers;
    writers.Add([&, told = go.get_future().share()] {
      told.wait();
      writers.Add([&] {
        num_done.fetch_add(1);
        writers.Add([&] { num_done.fetch_add(1); });
      });
    });
    go.set_value();
  }
  EXPECT_EQ(num_done.load(), 2);
}

TEST(WritersTest, WithoutAThreadAJobMayAddAnother) {
  const test::NoThreads none;
  bool is_done = false;
  Writers writers;
  writers.Add([&] { writers.Add([&] { is_done = true; }); });
  EXPECT_TRUE(is_done);
}

TEST(WritersTest, WithoutJobsThereIsNoThread) { Writers().Finish(); }

}  // namespace
}  // namespace attndb::store
