// Goal:   if the system can start no thread, as in a container at its limit, a store opens, serves
//         and stores with the existing threads. Nothing aborts, and durable contexts are
//         acknowledged.
// Method: a process whose threads can't be started, while a store is open or being opened.
#include "testing/no_threads.h"
#include "api/db_test_util.h"
#include "testing/event.h"

namespace attndb {
namespace {

using test::DBFixture;
using test::FailsWith;
using test::IsOk;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

class NoThreadsTest : public DBFixture {
 protected:
  NoThreadsTest() : DBFixture(/*background_builds=*/true) {}
};

TEST_F(NoThreadsTest, AStoreOpensAndServesWithTheThreadsThatThereAre) {
  const Tokens tokens = ToyModel::Tokens(6000, 1);
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "a"}));
  const test::NoThreads none;
  Open({.num_threads = 8, .background_threads = 4});
  ASSERT_TRUE(db_);
  ExpectAnswers(test::Concat(tokens, Tokens{1, 2, 3}), tokens.size());
  MakeReady(tokens, "topk(k=60,index=graph)");
  EXPECT_TRUE(db_->Verify()->ok());
}

TEST_F(NoThreadsTest, AStoreThatIsDurableIsAcknowledged) {
  const Tokens tokens = ToyModel::Tokens(300, 1);
  const test::NoThreads none;
  ATTNDB_EXPECT_OK(StoreTokens(tokens, {.name = "a"}));
  EXPECT_THAT(StoreTokens(tokens, {.name = "a"}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("'a'")));  // Because it is there.
  SessionStart start = Start(ToyModel::Tokens(50, 2));
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PendingStore pending,
                              db_->StoreAsync(start.session, start.rest, {.name = "b"}));
  EXPECT_THAT(pending.Wait(), IsOk());
  EXPECT_EQ(db_->List()->size(), 2u);
}

TEST_F(NoThreadsTest, WhatWaitsForTheBackgroundDoesItsWork) {
  const Tokens tokens = ToyModel::Tokens(5000, 1);
  const test::NoThreads none;
  ATTNDB_ASSERT_OK(StoreTokens(tokens, {.name = "a"}));
  uint64_t num_told = 0;
  const auto progress = [&](uint64_t, uint64_t) { return ++num_told != 0; };
  ATTNDB_EXPECT_OK(db_->WaitForBackground({.progress = progress}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuildReport built,
                              db_->Build("a", "clustered", {.progress = progress}));
  EXPECT_EQ(built.num_built, 1u);
  EXPECT_GT(num_told, 1u);
  ATTNDB_EXPECT_OK(db_->Drop("a"));
}

TEST_F(NoThreadsTest, ThreadsComeWithTheNextJobOnceTheyCan) {
  {
    const test::NoThreads none;
    ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(5000, 1), {.name = "a"}));
  }
  ATTNDB_ASSERT_OK(StoreTokens(ToyModel::Tokens(5000, 2), {.name = "b"}));
  // Nobody waits for it, and nobody but a thread of the background does it.
  EXPECT_TRUE(test::Eventually([this] { return db_->Stats()->num_pending_companions == 0; }));
}

}  // namespace
}  // namespace attndb
