// Goal:   a waiting thread returns once its condition is true, asleep or not, and not before.
// Method: threads that wait for each other in turns, with pauses that let them fall asleep and
//         without; plain values are handed over, so that TSan sees what atomics do not order.
#include "common/event_count.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace attndb {
namespace {

// Longer than a thread looks before it sleeps.
void LetOthersSleep() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

class EventCountTest : public ::testing::TestWithParam<bool> {};

TEST_P(EventCountTest, WhatIsTrueIsNotWaitedFor) {
  EventCount event;
  event.Await([] { return true; }, GetParam());
}

TEST_P(EventCountTest, TwoThreadsTakeTurns) {
  EventCount event;
  std::atomic<int> turn = 0;
  int value = 0;  // Owned by the thread whose turn it is.
  const auto play = [&](int parity) {
    for (int i = parity; i < 400; i += 2) {
      event.Await([&] { return turn.load() == i; }, GetParam());
      EXPECT_EQ(value++, i);
      if (i % 100 == 0) LetOthersSleep();
      turn.store(i + 1);
      event.WakeAll();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  EXPECT_EQ(value, 400);
}

TEST_P(EventCountTest, WakesAsManyAsAreTold) {
  EventCount event;
  std::atomic<int> num_tickets = 0;
  std::atomic<int> num_done = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      // Each takes a ticket: one that is told of one that is gone looks and sleeps again.
      const auto take = [&] {
        int left = num_tickets.load();
        while (left > 0 && !num_tickets.compare_exchange_weak(left, left - 1)) {
        }
        return left > 0;
      };
      event.Await(take, GetParam());
      num_done.fetch_add(1);
    });
  }
  LetOthersSleep();
  for (int i = 0; i < 4; ++i) {
    num_tickets.fetch_add(1);
    event.Wake(1);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_done.load(), 4);
}

INSTANTIATE_TEST_SUITE_P(Spins, EventCountTest, ::testing::Bool());

}  // namespace
}  // namespace attndb
