// Goal:   passes run with as many threads as the machine gives cores to: few beside a busy process,
//         all when it has ended, and on an idle machine nothing is tried and nothing lost.
// Method: a model of a machine, whose passes take what ggml's barriers make of the cores given.
#include "engines/llama/thread_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace attndb::llama {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// Cores, some of which are busy with others' work: a thread beside that gets half of its core.
struct Machine {
  uint32_t num_cores = 2;
  uint32_t num_busy = 0;

  // A pass of one thread, alone, takes 8 ms a row. One whose threads wait for each other waits for
  // the slowest, and loses a time slice each time that it is not there.
  PassTime Pass(uint64_t num_rows, uint32_t num_threads) const {
    const uint32_t num_free = num_cores - std::min(num_busy, num_cores);
    const bool shares = num_threads > std::max(num_free, 1U);
    const double alone = 8e-3 * static_cast<double>(num_rows) / num_threads;
    PassTime pass = {.num_rows = num_rows, .seconds = shares ? alone * 7 : alone};
    pass.worst_share = shares ? 0.5 : 0.99;
    pass.cores_given = shares ? std::max(num_free, 1U) + 0.5 : num_threads;
    return pass;
  }
};

// Seconds of passes of one token.
double RunPasses(const Machine& machine, uint64_t num_passes, ThreadChoice* choice) {
  double seconds = 0;
  for (uint64_t i = 0; i < num_passes; ++i) {
    const PassTime pass = machine.Pass(1, choice->Next(1));
    seconds += pass.seconds;
    choice->Took(pass);
  }
  return seconds;
}

double SecondsWith(const Machine& machine, uint64_t num_passes, uint32_t num_threads) {
  return machine.Pass(1, num_threads).seconds * static_cast<double>(num_passes);
}

TEST(ThreadChoiceTest, AnIdleMachineLosesNothing) {
  for (const uint32_t num_cores : {1U, 2U, 16U, 128U}) {
    ThreadChoice choice(num_cores);
    const Machine idle = {.num_cores = num_cores};
    EXPECT_DOUBLE_EQ(RunPasses(idle, 1000, &choice), SecondsWith(idle, 1000, num_cores));
    EXPECT_THAT(choice.report().changes, IsEmpty());
  }
}

TEST(ThreadChoiceTest, BesideABusyProcessItIsAsFastAsWithTheCoresThatAreLeft) {
  for (const uint32_t num_cores : {2U, 4U, 16U}) {
    ThreadChoice choice(num_cores);
    const Machine busy = {.num_cores = num_cores, .num_busy = 1};
    EXPECT_LT(RunPasses(busy, 1000, &choice), SecondsWith(busy, 1000, num_cores - 1) / 0.9);
    EXPECT_EQ(choice.report().now, num_cores - 1);
  }
}

TEST(ThreadChoiceTest, ItComesBackWhenTheOthersEnd) {
  ThreadChoice choice(2);
  const Machine idle = {};
  const Machine busy = {.num_cores = 2, .num_busy = 1};
  RunPasses(busy, 200, &choice);
  EXPECT_EQ(choice.report().now, 1U);
  RunPasses(idle, 1000, &choice);
  EXPECT_EQ(choice.report().now, 2U);
  RunPasses(busy, 500, &choice);
  EXPECT_EQ(choice.report().now, 1U);
  ASSERT_THAT(choice.report().changes, SizeIs(3));
  const ThreadChange change = choice.report().changes.front();
  EXPECT_EQ(change.from, 2U);
  EXPECT_EQ(change.to, 1U);
  EXPECT_GT(change.from_seconds, change.to_seconds);
}

TEST(ThreadChoiceTest, SeveralBusyProcessesLeaveWhatTheyLeave) {
  ThreadChoice choice(16);
  const Machine busy = {.num_cores = 16, .num_busy = 6};
  EXPECT_LT(RunPasses(busy, 1000, &choice), SecondsWith(busy, 1000, 10) / 0.9);
  EXPECT_EQ(choice.report().now, 10U);
  ThreadChoice none(2);
  RunPasses({.num_cores = 2, .num_busy = 2}, 100, &none);
  EXPECT_EQ(none.report().now, 1U) << "one thread runs always";
}

TEST(ThreadChoiceTest, WhereFewerThreadsAreNoFasterAllStay) {
  // Threads that slept, as where they waited for a disk: fewer of them take longer.
  ThreadChoice choice(2);
  double seconds = 0;
  for (int i = 0; i < 1000; ++i) {
    const uint32_t num_threads = choice.Next(1);
    const double pass = 8e-3 / num_threads;
    seconds += pass;
    choice.Took({.num_rows = 1, .seconds = pass, .cores_given = 1.4, .worst_share = 0.7});
  }
  EXPECT_EQ(choice.report().now, 2U);
  EXPECT_LT(seconds, 1000 * 4e-3 * 1.03) << "what is tried costs a fiftieth";
}

TEST(ThreadChoiceTest, PassesAreComparedWithTheirLike) {
  // A try of short passes, and a long one between them, which runs as it did.
  const Machine busy = {.num_cores = 2, .num_busy = 1};
  ThreadChoice choice(2);
  choice.Took(busy.Pass(1, choice.Next(1)));
  ASSERT_EQ(choice.Next(1), 1U);
  EXPECT_EQ(choice.Next(512), 2U);
  choice.Took(busy.Pass(512, 2));
  EXPECT_EQ(choice.report().now, 2U) << "a long pass says nothing of short ones";
  for (int i = 0; i < 4; ++i) choice.Took(busy.Pass(1, choice.Next(1)));
  EXPECT_EQ(choice.report().now, 1U);
  ASSERT_THAT(choice.report().changes, SizeIs(1));
  EXPECT_DOUBLE_EQ(choice.report().changes[0].to_seconds, 8e-3);
}

TEST(ThreadChoiceTest, ATryOfPassesThatComeNoMoreIsGivenUp) {
  // A question is read in one pass; its answer is many of another kind.
  const Machine busy = {.num_cores = 2, .num_busy = 1};
  ThreadChoice choice(2);
  choice.Took(busy.Pass(15, choice.Next(15)));
  ASSERT_EQ(choice.Next(15), 1U);
  RunPasses(busy, 20, &choice);
  EXPECT_EQ(choice.report().now, 1U);
  EXPECT_LT(RunPasses(busy, 500, &choice), SecondsWith(busy, 500, 1) / 0.9);
}

TEST(ThreadChoiceTest, OfLongPassesOneIsATry) {
  const Machine busy = {.num_cores = 2, .num_busy = 1};
  ThreadChoice choice(2);
  choice.Took(busy.Pass(511, choice.Next(511)));
  ASSERT_EQ(choice.Next(256), 1U) << "about as many rows";
  choice.Took(busy.Pass(256, 1));
  EXPECT_EQ(choice.report().now, 1U);
}

}  // namespace
}  // namespace attndb::llama
