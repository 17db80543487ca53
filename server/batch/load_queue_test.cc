// Goal:   each read runs once, in order; one that nobody waits for any more lets go of what it
//         holds at once and runs no more, without a place of another's.
// Method: queues whose `run` the test calls itself; threads that come, go and read.
#include "server/batch/load_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace attndb::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LoadQueueTest : public ::testing::Test {
 protected:
  // What it holds dies with the read.
  std::weak_ptr<int> Add(const std::string& name, const std::atomic<bool>* gone) {
    const auto held = std::make_shared<int>(0);
    queue_.Add([this, name, held] { loaded_.push_back(name); }, [gone] { return gone->load(); });
    return held;
  }
  static void RunAll(std::deque<std::function<void()>>* runs) {
    while (!runs->empty()) {
      const std::function<void()> run = std::move(runs->front());
      runs->pop_front();
      run();
    }
  }
  static LoadQueue::Run Into(std::deque<std::function<void()>>* runs) {
    return [runs](std::function<void()> run) { runs->push_back(std::move(run)); };
  }

  std::deque<std::function<void()>> runs_;
  std::deque<std::function<void()>> let_go_;
  LoadQueue queue_{Into(&runs_), Into(&let_go_)};
  std::vector<std::string> loaded_;
  std::atomic<bool> here_ = false;  // Not gone.
  std::atomic<bool> gone_ = false;
};

TEST_F(LoadQueueTest, ReadsRunOnceInOrder) {
  const std::weak_ptr<int> first = Add("a", &here_);
  Add("b", &here_);
  EXPECT_EQ(queue_.num_waiting(), 2u);
  EXPECT_THAT(loaded_, IsEmpty());
  RunAll(&runs_);
  EXPECT_THAT(loaded_, ElementsAre("a", "b"));
  EXPECT_EQ(queue_.num_waiting(), 0u);
  EXPECT_TRUE(first.expired());
}

TEST_F(LoadQueueTest, WhoIsGoneLetsGoAtOnce) {
  Add("a", &here_);
  const std::weak_ptr<int> held = Add("b", &gone_);
  Add("c", &here_);
  queue_.LookForGone();
  EXPECT_EQ(queue_.num_waiting(), 3u);
  gone_ = true;
  queue_.LookForGone();
  EXPECT_EQ(queue_.num_waiting(), 2u);
  EXPECT_FALSE(held.expired()) << "not on the thread that looks";
  RunAll(&let_go_);
  EXPECT_TRUE(held.expired());
  RunAll(&runs_);
  EXPECT_THAT(loaded_, ElementsAre("a", "c"));
}

TEST_F(LoadQueueTest, WhoWasGoneBeforeDoesNotWait) {
  gone_ = true;
  const std::weak_ptr<int> held = Add("a", &gone_);
  EXPECT_EQ(queue_.num_waiting(), 0u);
  RunAll(&let_go_);
  EXPECT_TRUE(held.expired());
  RunAll(&runs_);
  EXPECT_THAT(loaded_, IsEmpty());
}

TEST_F(LoadQueueTest, WhoIsGoneIsNotReadEvenIfNobodyLooked) {
  const std::weak_ptr<int> held = Add("a", &gone_);
  Add("b", &here_);
  gone_ = true;
  RunAll(&runs_);
  RunAll(&let_go_);
  EXPECT_TRUE(held.expired());
  EXPECT_THAT(loaded_, ElementsAre("b"));
}

TEST_F(LoadQueueTest, WhatIsNotRunYetOutlivesTheQueue) {
  auto queue = std::make_unique<LoadQueue>(Into(&runs_), Into(&let_go_));
  queue->Add([this] { loaded_.emplace_back("a"); }, [] { return false; });
  queue.reset();
  RunAll(&runs_);
  EXPECT_THAT(loaded_, ElementsAre("a"));
}

TEST(LoadQueueThreadsTest, EachReadOfWhoIsHereRunsOnce) {
  constexpr int kThreads = 4, kReads = 500;
  std::atomic<int> num_here = 0, num_gone = 0;
  std::vector<std::thread> threads;
  const auto run_here = [](const std::function<void()>& run) { run(); };
  LoadQueue queue(run_here, run_here);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kReads; ++i) {
        const bool is_gone = (t + i) % 3 == 0;
        queue.Add([&, is_gone] { ++(is_gone ? num_gone : num_here); },
                  [is_gone] { return is_gone; });
        queue.LookForGone();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int expected = 0;
  for (int t = 0; t < kThreads; ++t) {
    for (int i = 0; i < kReads; ++i) expected += static_cast<int>((t + i) % 3 != 0);
  }
  EXPECT_EQ(num_here, expected);
  EXPECT_EQ(num_gone, 0);
  EXPECT_EQ(queue.num_waiting(), 0u);
}

}  // namespace
}  // namespace attndb::server
