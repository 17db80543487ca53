// Goal:   a file that is slow delays who reads it, and nobody else.
// Method: a file system that stops at its next operation, until the test lets it go on.
#include <chrono>
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
  SlowFilesTest() : StoppedDBFixture({.background_builds = false}) {}
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
  EXPECT_EQ(done.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  release_.Set();
  beside.join();
  reader.join();
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
