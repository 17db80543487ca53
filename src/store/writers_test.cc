// Goal:   every job is done once, before Finish returns, and one that waits delays none of the
//         others.
#include "store/writers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

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

TEST(WritersTest, WithoutJobsThereIsNoThread) { Writers().Finish(); }

}  // namespace
}  // namespace attndb::store
