// Goal:   a named turn is stored whole, after the Stores of its name that were begun before, and
//         its end has its own Store.
// Method: a tiny random float32 model; Stores that stand still.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;

using SchedulerNamesTest = BatchTest;

// A dialogue that goes on by its name needs the last token, too.
TEST_F(SchedulerNamesTest, ANamedTurnIsStoredWithAllOfItsReply) {
  Open();
  TurnRequest request = Request("talk", 20, 1, Greedy(6));
  std::vector<TokenId> whole = request.prompt;
  const llama::Generation alone = Alone(request);
  whole.insert(whole.end(), alone.tokens.begin(), alone.tokens.end());
  ASSERT_LT(alone.num_in_session, alone.tokens.size()) << "the last token was not run";
  request.store = StoreOptions{.replace = true, .pin = true};
  request.runs_last = true;
  StartScheduler();
  ASSERT_TRUE(Add(request)->AwaitEnd());
  EXPECT_EQ(Stored("talk"), whole);
  EXPECT_TRUE(db_->Describe("talk")->pinned);
  // The name is taken from the turn before, whose store may not have ended.
  request.prompt.insert(request.prompt.begin(), 1);
  ASSERT_TRUE(Add(request)->AwaitEnd());
  ATTNDB_EXPECT_OK(conversations_->WaitFor(request.tenant, "talk"));
  EXPECT_EQ(Stored("talk").front(), 1);
}

// The note is made once the reply is whole, and stored with it.
TEST_F(SchedulerNamesTest, ATurnIsStoredWithANoteOfItsEnd) {
  Open();
  TurnRequest request = Request("noted", 20, 1, Greedy(6));
  request.store = StoreOptions{};
  request.note = [](const TurnEnd& end) { return std::to_string(end.num_tokens) + " tokens"; };
  StartScheduler();
  const auto listener = Add(request);
  ASSERT_TRUE(listener->AwaitEnd());
  ATTNDB_ASSERT_OK(listener->end()->stored.Wait());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::string note, db_->Note("noted"));
  EXPECT_EQ(note, std::to_string(listener->end()->num_tokens) + " tokens");
}

TEST_F(SchedulerNamesTest, ATurnsEndHasTheStoreOfThatTurn) {
  Open();
  StartScheduler();
  StopStores("default");
  TurnRequest request = Request("book", 20, 1, Greedy(1));
  const auto first = Add(request);
  ASSERT_TRUE(first->AwaitEnd());
  request.prompt.insert(request.prompt.begin(), 1);
  const auto second = Add(request);
  ASSERT_TRUE(second->AwaitEnd());
  ResumeStores();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId stored, first->end()->stored.Wait());
  EXPECT_EQ(db_->Describe("book")->id, stored);
  EXPECT_THAT(second->end()->stored.Wait(), FailsWith(StatusCode::kAlreadyExists, _));
}

// An import that replaces the name may have ended, and its context is not in the catalog yet.
TEST_F(SchedulerNamesTest, ATurnIsFittedBehindTheStoresOfItsName) {
  Open();
  StartScheduler();
  StopStores("default");
  const TurnRequest import = Request("name", 20, 1, Greedy(1));
  ASSERT_TRUE(Add(import)->AwaitEnd());
  ASSERT_TRUE(conversations_->IsBeingStored("default", "name"));

  TurnRequest request = Request("name", 20, 2, Greedy(2));
  bool was_pending = true;
  uint64_t num_seen = 0;
  request.store.emplace();
  request.fit_store = [&](StoreOptions* store) -> Status {
    was_pending = conversations_->IsBeingStored("default", "name");
    const Result<ContextInfo> found = db_->Describe("name");
    if (found.ok()) num_seen = found->num_tokens;
    store->replace = true;
    return Status::Ok();
  };
  const auto fitted = std::make_shared<RecordingListener>();
  const auto turn = MakeTurn(request, NewSession(*db_), fitted);
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  ASSERT_TRUE(Add(Request("other", 20, 3, Greedy(8)))->AwaitEnd()) << "it does not wait";
  EXPECT_EQ(fitted->end(), std::nullopt);
  turn->Cancel();  // Its reply is whole: it is stored all the same.
  scheduler_->Wake();
  ASSERT_TRUE(Add(Request("last", 20, 4, Greedy(1)))->AwaitEnd());

  ResumeStores();
  ASSERT_TRUE(fitted->AwaitEnd());
  EXPECT_FALSE(was_pending);
  EXPECT_EQ(num_seen, 20u);
  ATTNDB_ASSERT_OK(fitted->end()->stored.Wait());
  EXPECT_EQ(Stored("name").front(), request.prompt.front());
}

}  // namespace
}  // namespace attndb::server
