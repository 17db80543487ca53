// Goal:   a process is told from its forks, and state of the process is whole in them.
// Method: forked children report their findings by their exit code, while threads use the state.
#include "common/fork_count.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/process_state.h"

namespace attndb {
namespace {

// Runs `sees` in a fork; whether it gave true there.
template <typename F>
bool InFork(const F& sees) {
  const pid_t pid = fork();
  if (pid == 0) _exit(sees() ? 0 : 1);
  int status = -1;
  return waitpid(pid, &status, 0) == pid && status == 0;
}

struct Pair {
  int a = 0;
  int b = 0;
  int num_forks = 0;
  void BeginFork() { ++num_forks; }
};

TEST(ForkCountTest, AForkIsToldFromItsParent) {
  const uint64_t here = ForkCount();
  EXPECT_EQ(ForkCount(), here);
  EXPECT_TRUE(InFork([&] {
    const uint64_t there = ForkCount();
    return there != here && InFork([&] { return ForkCount() != there && ForkCount() != here; });
  }));
  EXPECT_EQ(ForkCount(), here);
}

TEST(ProcessStateTest, AForkFindsItWhole) {
  ProcessState<Pair>::Use([](Pair*) {});  // From here on forks are told.
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    while (!stop.load()) {
      ProcessState<Pair>::Use([](Pair* pair) {
        ++pair->a;
        std::this_thread::yield();
        ++pair->b;
      });
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(InFork([] {
      return ProcessState<Pair>::Use(
          [](Pair* pair) { return pair->a == pair->b && pair->num_forks == 1; });
    }));
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(ProcessState<Pair>::Use([](Pair* pair) { return pair->num_forks; }), 0);
}

}  // namespace
}  // namespace attndb
