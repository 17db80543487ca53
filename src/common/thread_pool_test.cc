// Goal:   each part runs exactly once, for any caller, and a call returns after its last part.
// Method: counters per part over many sizes; several callers at a time (run under TSan too).
#include "common/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace attndb {
namespace {

// Plain ints: two threads in one part, or a return before its end, is a race that TSan reports.
void ExpectEachPartOnce(ThreadPool* pool, uint32_t num_parts) {
  std::vector<int> counts(num_parts, 0);
  pool->ParallelFor(num_parts, [&](uint32_t part) { ++counts[part]; });
  for (uint32_t part = 0; part < num_parts; ++part) ASSERT_EQ(counts[part], 1) << part;
}

TEST(ThreadPool, RunsEachPartOnce) {
  for (const uint32_t num_threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const uint32_t num_parts : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 100u}) {
      ExpectEachPartOnce(&pool, num_parts);
    }
  }
}

// More callers than there is room for, too.
TEST(ThreadPool, CallersShareTheWorkers) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (size_t caller = 0; caller < ThreadPool::kSlots + 2; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) ExpectEachPartOnce(&pool, 5);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPool, WorkersTakePartsWhileTheCallerIsBusy) {
  ThreadPool pool(2);
  // Each part waits for the other: one thread alone would never end.
  std::atomic<int> num_started = 0;
  pool.ParallelFor(2, [&](uint32_t) {
    ++num_started;
    while (num_started.load() < 2) std::this_thread::yield();
  });
  EXPECT_EQ(num_started.load(), 2);
}

TEST(ThreadPool, WorkersThatSleepAreWoken) {
  ThreadPool pool(3);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::atomic<int> num_started = 0;
    pool.ParallelFor(3, [&](uint32_t) {
      ++num_started;
      while (num_started.load() < 3) std::this_thread::yield();
    });
    EXPECT_EQ(num_started.load(), 3);
  }
}

TEST(ThreadPool, ZeroMeansOneThreadACore) {
  ThreadPool pool(0);
  EXPECT_GE(pool.num_threads(), 1u);
  ExpectEachPartOnce(&pool, 10);
}

}  // namespace
}  // namespace attndb
