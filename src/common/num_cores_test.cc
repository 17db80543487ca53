// Goal:   a process that is kept to some cores takes these for all.
// Method: a thread's affinity is set to one core after the other.
#include "attndb/num_cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <cstddef>
#include <thread>

#include "common/thread_pool.h"

namespace attndb {
namespace {

TEST(NumCoresTest, AThreadOnOneCoreHasOne) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(NumCores(), static_cast<uint32_t>(CPU_COUNT(&all)));
  std::thread kept([&all] {
    size_t first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(NumCores(), 1U);
    EXPECT_EQ(ThreadPool(0).num_threads(), 1U);
  });
  kept.join();
  EXPECT_EQ(ThreadPool(0).num_threads(), NumCores());
}

}  // namespace
}  // namespace attndb
