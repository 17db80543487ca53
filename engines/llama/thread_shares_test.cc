// Goal:   a thread's share is that of its CPU time; the least one is found.
// Method: a thread that turns and one that sleeps.
#include "engines/llama/thread_shares.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace attndb::llama {
namespace {

TEST(ThreadSharesTest, AThreadThatSleepsHasLittleOfItsCore) {
  ThreadShares shares(2);
  shares.Begin();
  EXPECT_EQ(shares.total(), 0);
  EXPECT_EQ(shares.worst(), 1);
  shares.Enter(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  shares.Leave(0);
  EXPECT_LT(shares.worst(), 0.5);
  EXPECT_EQ(shares.total(), shares.worst());
  // A thread that did not get to the end, and one beyond those that there are, say nothing.
  shares.Enter(1);
  shares.Enter(7);
  shares.Leave(7);
  EXPECT_EQ(shares.total(), shares.worst());
  shares.Begin();
  EXPECT_EQ(shares.worst(), 1);
}

}  // namespace
}  // namespace attndb::llama
