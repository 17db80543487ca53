// Goal:   each part of each call is handed out once, to any thread; ready calls first, then long
//         ones. The cut of a call depends only on the call and the number of threads.
// Method: calls of chosen sizes; threads that take parts at the same time.
#include "attention/batch/call_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace attndb::attention {
namespace {

using ::testing::ElementsAre;

std::vector<CallPart> AllOf(CallQueue* queue) {
  std::vector<CallPart> parts;
  while (const auto part = queue->Next()) parts.push_back(*part);
  return parts;
}

std::vector<uint32_t> OrderOf(std::span<const QueuedCall> calls, uint32_t num_threads) {
  CallQueue queue;
  queue.Reset(calls, num_threads);
  std::vector<uint32_t> order;
  for (const CallPart& part : AllOf(&queue)) {
    if (part.part == 0) order.push_back(part.call);
  }
  return order;
}

TEST(CallQueueTest, ReadyCallsComeFirstThenTheLongest) {
  const std::vector<QueuedCall> calls = {
      {.number = 7, .num_rows = 1, .num_tokens = 100},
      {.number = 3, .num_rows = 1, .num_tokens = 9000, .is_ready = false},
      {.number = 5, .num_rows = 4, .num_tokens = 50},
      {.number = 1, .num_rows = 1, .num_tokens = 20, .is_ready = false},
      {.number = 2, .num_rows = 2, .num_tokens = 100}};
  // 5 and 2 have equal work: they keep their order.
  EXPECT_THAT(OrderOf(calls, 2), ElementsAre(5, 2, 7, 3, 1));
}

TEST(CallQueueTest, CallsThatWaitAreBegunSideBySide) {
  const std::vector<QueuedCall> calls = {
      {.number = 0, .num_rows = 1, .num_tokens = 9000, .is_ready = false},
      {.number = 1, .num_rows = 1, .num_tokens = 128, .is_ready = false},
      {.number = 2, .num_rows = 1, .num_tokens = 9000},
      {.number = 3, .num_rows = 1, .num_tokens = 100, .is_ready = false}};
  CallQueue queue;
  queue.Reset(calls, 3);
  std::vector<std::pair<uint32_t, uint32_t>> order;
  for (const CallPart& part : AllOf(&queue)) order.emplace_back(part.call, part.part);
  const std::vector<std::pair<uint32_t, uint32_t>> expected = {
      {2, 0}, {2, 1}, {2, 2}, {0, 0}, {1, 0}, {3, 0}, {0, 1}, {1, 1}, {0, 2}};
  EXPECT_EQ(order, expected);
}

TEST(CallQueueTest, ACallIsCutByItsOwnSize) {
  const auto num_parts = [](uint64_t rows, uint64_t tokens, uint32_t threads, size_t num_others) {
    std::vector<QueuedCall> calls(num_others, {.number = 9, .num_rows = 100, .num_tokens = 9000});
    calls.push_back({.number = 0, .num_rows = rows, .num_tokens = tokens});
    CallQueue queue;
    queue.Reset(calls, threads);
    std::set<uint32_t> parts;
    uint32_t found = 0;
    for (const CallPart& part : AllOf(&queue)) {
      if (part.call != 0) continue;
      parts.insert(part.part);
      found = part.num_parts;
    }
    EXPECT_EQ(parts.size(), found);
    EXPECT_EQ(*parts.rbegin(), found - 1);
    return found;
  };
  for (const size_t num_others : {size_t{0}, size_t{1}, size_t{20}}) {
    EXPECT_EQ(num_parts(1, 1, 8, num_others), 1u);
    EXPECT_EQ(num_parts(1, 127, 8, num_others), 1u);
    EXPECT_EQ(num_parts(1, 128, 8, num_others), 2u);
    EXPECT_EQ(num_parts(8, 60, 8, num_others), 7u);
    EXPECT_EQ(num_parts(512, 100'000, 8, num_others), 8u);
    EXPECT_EQ(num_parts(512, 100'000, 1, num_others), 1u);
  }
}

TEST(CallQueueTest, EachPartIsHandedOutOnce) {
  std::vector<QueuedCall> calls;
  for (uint32_t i = 0; i < 100; ++i) {
    calls.push_back({.number = i, .num_rows = 1, .num_tokens = 1 + i * 100});
  }
  CallQueue queue;
  queue.Reset(calls, 4);
  std::mutex mutex;
  std::map<std::pair<uint32_t, uint32_t>, int> taken;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      while (const auto part = queue.Next()) {
        const std::lock_guard<std::mutex> lock(mutex);
        ++taken[{part->call, part->part}];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<uint32_t> seen;
  for (const auto& [part, times] : taken) {
    EXPECT_EQ(times, 1);
    seen.insert(part.first);
  }
  EXPECT_EQ(seen.size(), calls.size());
}

TEST(CallQueueTest, AQueueIsFilledAgain) {
  CallQueue queue;
  EXPECT_FALSE(queue.Next());
  const QueuedCall call = {.number = 4, .num_rows = 1, .num_tokens = 1};
  for (int i = 0; i < 2; ++i) {
    queue.Reset({&call, 1}, 2);
    EXPECT_EQ(AllOf(&queue).size(), 1u);
    EXPECT_FALSE(queue.Next());
  }
  queue.Reset({}, 2);
  EXPECT_FALSE(queue.Next());
}

}  // namespace
}  // namespace attndb::attention
