// Goal:   a slow file delays its readers, and nobody else.
// Method: a file system that stops at an operation, the next one or each in turn, until the test
//         lets it go on.
#include <future>
#include <thread>

#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::Event;
using test::Tokens;
using test::ToyModel;

class SlowFilesTest : public test::StoppedDBFixture {
 protected:
  SlowFilesTest() : StoppedDBFixture({.background_builds = false, .measure_machine = false}) {}

  // All that the other sessions and callers of a store do.
  void UseStore(const Tokens& stored) {
    ExpectAnswers(stored, stored.size() - 1);  // Opened, read and closed.
    EXPECT_EQ(Start(Tokens{1, 2, 3}).session.num_reused(), 0u);
    Tokens fresh = ToyModel::Tokens(80, 3);
    fresh[0] = 5000;  // No other context begins with it.
    ATTNDB_EXPECT_OK(StoreTokens(fresh, {.name = "new"}));
    EXPECT_EQ(db_->List()->size(), 3u);
    EXPECT_EQ(db_->Describe("slow")->num_tokens, 100u);
    EXPECT_EQ(db_->Stats()->num_contexts, 3u);
    ATTNDB_EXPECT_OK(db_->Drop("new"));
  }
};

TEST_F(SlowFilesTest, OneSlowReadStopsNoOtherSession) {
  const Tokens slow = ToyModel::Tokens(100, 1);
  const Tokens other = ToyModel::Tokens(90, 2);
  ATTNDB_ASSERT_OK(StoreTokens(slow, {.name = "slow"}));
  ATTNDB_ASSERT_OK(StoreTokens(other, {.name = "other"}));
  OpenWithFiles();
  (void)Start(other);  // Its segment is open from here on.
  Event waiting;
  files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &waiting});
  std::thread reader([&] { EXPECT_EQ(Start(slow).session.num_reused(), 99u); });
  waiting.Await();
  std::promise<void> done;
  std::thread beside([&] {
    EXPECT_EQ(Start(other).session.num_reused(), 89u);  // Opened and closed.
    EXPECT_EQ(Start(Tokens{1, 2, 3}).session.num_reused(), 0u);
    done.set_value();
  });
  EXPECT_EQ(done.get_future().wait_for(test::kPatience), std::future_status::ready);
  release_.Set();
  beside.join();
  reader.join();
}

TEST_F(SlowFilesTest, NoOperationOfAnOpenOrAFirstReadStopsOthers) {
  const Tokens slow = ToyModel::Tokens(100, 1);
  const Tokens other = ToyModel::Tokens(90, 2);
  ATTNDB_ASSERT_OK(StoreTokens(slow, {.name = "slow"}));
  ATTNDB_ASSERT_OK(StoreTokens(other, {.name = "other"}));
  uint64_t n = 1;
  for (;; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    OpenWithFiles();  // Nothing is in memory.
    Event release, waiting;
    files_.SetPlan({.fail_at = n, .waits_for = &release, .waiting = &waiting});
    std::future<void> reader = std::async(std::launch::async, [&] {
      ExpectAnswers(slow, 99);
      waiting.Set();  // It has met no such operation, or is over anyway.
    });
    waiting.Await();
    if (files_.num_faults() == 0) break;
    std::future<void> beside = std::async(std::launch::async, [&] { UseStore(other); });
    EXPECT_EQ(beside.wait_for(test::kPatience), std::future_status::ready);
    release.Set();
    beside.get();
    reader.get();
    files_.SetPlan({});
  }
  files_.SetPlan({});  // Before the next operation, which would wait for an event that is gone.
  EXPECT_GT(n, 5u);
}

// While a segment is being opened its context is dropped; its files go when it is closed.
TEST_F(SlowFilesTest, WhatIsBeingOpenedIsNotRemoved) {
  const Tokens slow = ToyModel::Tokens(100, 1);
  ATTNDB_ASSERT_OK(StoreTokens(slow, {.name = "slow"}));
  OpenWithFiles();
  Event waiting;
  files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &waiting});
  std::thread reader([&] {
    SessionStart start = Start(slow);
    EXPECT_EQ(start.session.num_reused(), 99u);
    ATTNDB_EXPECT_OK(model_.Step(&start.session, start.rest));
    ExpectOracle(&start.session, slow);
  });
  waiting.Await();
  ATTNDB_EXPECT_OK(db_->Drop("slow"));
  release_.Set();
  reader.join();
  EXPECT_EQ(NumSegmentFiles(), 0u);
}

}  // namespace
}  // namespace attndb
