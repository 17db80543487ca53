#include "engines/llama/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

TEST(ChildProcessTest, SaysHowTheChildEndedAndWhatItWrote) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd end, RunInChild(
                                                      [] {
                                                        dprintf(STDOUT_FILENO, "out ");
                                                        dprintf(STDERR_FILENO, "err");
                                                        return 7;
                                                      },
                                                      60));
  EXPECT_EQ(end.exit_code, 7);
  EXPECT_EQ(end.signal, 0);
  EXPECT_FALSE(end.timed_out);
  EXPECT_FALSE(end.ok());
  EXPECT_EQ(end.output, "out err");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd good, RunInChild([] { return 0; }, 60));
  EXPECT_TRUE(good.ok());
}

TEST(ChildProcessTest, DeathsBySignalsHaveTheirNames) {
  const std::pair<int, const char*> signals[] = {
      {SIGILL, "SIGILL"}, {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGFPE, "SIGFPE"}};
  for (const auto& [number, name] : signals) {
    const int signal = number;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd end, RunInChild(
                                                        [signal] {
                                                          std::signal(signal, SIG_DFL);
                                                          return raise(signal);
                                                        },
                                                        60));
    EXPECT_EQ(end.signal, signal);
    EXPECT_EQ(SignalName(end.signal), name);
    EXPECT_FALSE(end.ok());
  }
  EXPECT_EQ(SignalName(63), "signal 63");
}

TEST(ChildProcessTest, AChildThatHangsIsEnded) {
  const auto start = std::chrono::steady_clock::now();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd end, RunInChild(
                                                      [] {
                                                        sleep(300);
                                                        return 0;
                                                      },
                                                      0.2));
  EXPECT_TRUE(end.timed_out);
  EXPECT_FALSE(end.ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(ChildProcessTest, KeepsTheEndOfLongOutputAndExceptionsWords) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ChildEnd end,
                              RunInChild(
                                  []() -> int {
                                    for (int i = 0; i < 20000; ++i) {
                                      dprintf(STDOUT_FILENO, "line %d\n", i);
                                    }
                                    throw std::runtime_error("thrown at the end");
                                  },
                                  60));
  EXPECT_EQ(end.exit_code, 1);
  EXPECT_LE(end.output.size(), 16384u);
  EXPECT_THAT(end.output, HasSubstr("line 19999"));
  EXPECT_THAT(end.output, EndsWith("thrown at the end\n"));
}

}  // namespace
}  // namespace attndb::llama
