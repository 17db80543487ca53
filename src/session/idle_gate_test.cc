// Goal:   while the gate is closed, no thread is inside; a thread inside keeps the gate open.
// Method: threads that enter and leave, and one that closes, on a plain counter without a lock.
#include "session/idle_gate.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace attndb::internal {
namespace {

TEST(IdleGateTest, IsClosedOnlyWhereNobodyIsInside) {
  IdleGate gate;
  gate.Enter();
  gate.Enter();
  EXPECT_FALSE(gate.TryClose());
  gate.Leave();
  EXPECT_FALSE(gate.TryClose());
  gate.Leave();
  EXPECT_TRUE(gate.TryClose());
  EXPECT_FALSE(gate.TryClose());
  gate.Open();
  gate.Enter();
  gate.Leave();
}

TEST(IdleGateTest, KeepsUsersAndTheOtherApart) {
  constexpr int kTries = 300'000;
  IdleGate gate;
  std::atomic<int> num_inside = 0;
  std::atomic<int> num_closed = 0;
  uint64_t changes = 0;  // Written while closed, read inside.
  uint64_t last_seen = 0;
  const auto user = [&](bool reads) {
    for (int i = 0; i < kTries; ++i) {
      gate.Enter();
      ++num_inside;
      ASSERT_EQ(num_closed.load(), 0);
      if (reads) {
        ASSERT_GE(changes, last_seen);
        last_seen = changes;
      }
      --num_inside;
      gate.Leave();
    }
  };
  std::thread other([&] {
    for (int i = 0; i < kTries; ++i) {
      if (!gate.TryClose()) continue;
      ++num_closed;
      ASSERT_EQ(num_inside.load(), 0);
      ++changes;
      --num_closed;
      gate.Open();
    }
  });
  std::thread second(user, false);
  user(true);
  second.join();
  other.join();
  while (!gate.TryClose()) {
  }
  EXPECT_GE(changes, last_seen);
}

}  // namespace
}  // namespace attndb::internal
