// Goal:   a name stands for the context that has it now, in memory or in the store; a Store that
//         fails is told, and takes no name away from a stored context.
// Method: tiny models; Stores that stand still, and Stores that fail for want of room.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/conversations.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::HasSubstr;
using Tokens = std::vector<TokenId>;

class ContextNamesTest : public BatchTest {
 protected:
  Tokens Ids(size_t count, uint64_t seed) const {
    return llama::RandomIds(count, seed, engine_->info().vocab_size);
  }
  void Keep(const std::string& tenant, const std::string& id, const Tokens& tokens) {
    conversations_->Keep(tenant, id, SessionOf(tenant, tokens), tokens);
  }
  TurnState StateOf(const std::string& tenant, const std::string& id) {
    Status error;
    return conversations_->StateOf(tenant, id, &error);
  }
};

TEST_F(ContextNamesTest, ANameWhoseNextTurnIsUnderWayIsPending) {
  Open();
  Keep(kMine, "name", Ids(20, 1));
  conversations_->WaitForStores();
  EXPECT_EQ(StateOf(kMine, "name"), TurnState::kDurable);
  {
    std::shared_ptr<void> first = conversations_->NoteUnderWay(kMine, "name");
    const std::shared_ptr<void> second = conversations_->NoteUnderWay(kMine, "name");
    first.reset();
    EXPECT_EQ(StateOf(kMine, "name"), TurnState::kPending);
    EXPECT_EQ(StateOf(kTheirs, "name"), TurnState::kUnknown);
  }
  EXPECT_EQ(StateOf(kMine, "name"), TurnState::kDurable);
}

TEST_F(ContextNamesTest, AnAnsweredTurnHasItsNameBeforeItIsDurable) {
  Open();
  StopStores(kMine);
  const Tokens turn = Ids(30, 1);
  Keep(kMine, "turn", turn);
  ASSERT_EQ(StateOf(kMine, "turn"), TurnState::kPending);
  EXPECT_TRUE(conversations_->IsBeingStored(kMine, "turn"));
  EXPECT_FALSE(conversations_->IsBeingStored(kTheirs, "turn"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KeptText known, conversations_->TextOf(kMine, "turn"));
  EXPECT_EQ(known.tokens, turn);
  EXPECT_THAT(conversations_->TextOf(kTheirs, "turn"), FailsWith(StatusCode::kNotFound, _));
  conversations_->DropLive();  // Memory is short: the tokens are there all the same.
  EXPECT_EQ(conversations_->TextOf(kMine, "turn")->tokens, turn);
  ResumeStores();
  conversations_->WaitForStores();
  EXPECT_EQ(StateOf(kMine, "turn"), TurnState::kDurable);
  EXPECT_FALSE(conversations_->IsBeingStored(kMine, "turn"));
  EXPECT_EQ(conversations_->UnstoredText(kMine, "turn"), nullptr);
  EXPECT_EQ(conversations_->TextOf(kMine, "turn")->tokens, turn);
}

TEST_F(ContextNamesTest, WhatIsDroppedOrRenamedBeforeItIsDurableIsSoBehindIt) {
  Open();
  StopStores(kMine);
  const Tokens gone = Ids(30, 1);
  const Tokens renamed = Ids(30, 2);
  Keep(kMine, "gone", gone);
  Keep(kMine, "renamed", renamed);
  auto drop = std::async(std::launch::async, [&] { return conversations_->Drop(kMine, "gone"); });
  auto rename = std::async(std::launch::async,
                           [&] { return conversations_->Rename(kMine, "renamed", "named"); });
  ASSERT_EQ(StateOf(kMine, "gone"), TurnState::kPending);
  ResumeStores();
  ATTNDB_EXPECT_OK(drop.get());
  ATTNDB_EXPECT_OK(rename.get());
  conversations_->WaitForStores();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, conversations_->HandleOf(kMine));
  EXPECT_THAT(db.Describe("gone"), FailsWith(StatusCode::kNotFound, _));
  EXPECT_EQ(conversations_->num_live(), 1u) << "nor is it in memory";
  EXPECT_THAT(conversations_->TextOf(kMine, "renamed"), FailsWith(StatusCode::kNotFound, _));
  EXPECT_EQ(conversations_->TextOf(kMine, "named")->tokens, renamed);
}

TEST_F(ContextNamesTest, ANameStandsForWhatHasItNow) {
  Open();
  const Tokens first = Ids(20, 1);
  const Tokens second = Ids(25, 2);
  const auto keep = [this](const std::string& name, const Tokens& tokens) {
    conversations_->Keep(kMine, name, SessionOf(kMine, tokens), tokens,
                         StoreOptions{.replace = true});
  };
  keep("name", first);
  EXPECT_EQ(conversations_->TextOf(kMine, "name")->tokens, first);
  conversations_->WaitForStores();
  keep("name", second);
  EXPECT_EQ(conversations_->TextOf(kMine, "name")->tokens, second);
  conversations_->WaitForStores();
  EXPECT_EQ(conversations_->TextOf(kMine, "name")->tokens, second);
  ATTNDB_ASSERT_OK(conversations_->Rename(kMine, "name", "other"));
  EXPECT_THAT(conversations_->TextOf(kMine, "name"), FailsWith(StatusCode::kNotFound, _));
  EXPECT_EQ(conversations_->TextOf(kMine, "other")->tokens, second);
  ATTNDB_ASSERT_OK(conversations_->Drop(kMine, "other"));
  EXPECT_THAT(conversations_->TextOf(kMine, "other"), FailsWith(StatusCode::kNotFound, _));
}

// Its life is over, and it leaves the disk with the next Store.
TEST_F(ContextNamesTest, ANameOfWhatHasExpiredStandsForNothing) {
  Open();
  const auto now_us = std::make_shared<std::atomic<int64_t>>(1'000'000'000'000'000);
  db_.emplace(
      *DB::Open(directory_.File("clocked"), {.clock = [now_us] { return now_us->load(); }}));
  conversations_.emplace(*db_, &*engine_, ConversationOptions{.ttl = std::chrono::seconds(60)});
  const Tokens turn = Ids(20, 1);
  Keep(kMine, "turn", turn);
  conversations_->WaitForStores();
  *now_us += 50'000'000;
  EXPECT_EQ(conversations_->TextOf(kMine, "turn")->tokens, turn);
  *now_us += 50'000'000;
  EXPECT_EQ(conversations_->TextOf(kMine, "turn")->tokens, turn) << "the use before counts";
  *now_us += 61'000'000;
  EXPECT_THAT(conversations_->TextOf(kMine, "turn"), FailsWith(StatusCode::kNotFound, _));
}

TEST_F(ContextNamesTest, AnAnsweredTurnThatCouldNotBeStoredIsThereWhileMemoryHasIt) {
  Open();
  const Tokens turn = Ids(10, 1);
  const auto fail = [&](const std::string& name) {  // These are not the tokens that it holds.
    conversations_->Keep(kMine, name, SessionOf(kMine, Ids(11, 2)), turn);
    ASSERT_EQ(StateOf(kMine, name), TurnState::kFailed);
  };
  fail("lost");
  EXPECT_EQ(conversations_->TextOf(kMine, "lost")->tokens, turn);
  ATTNDB_EXPECT_OK(conversations_->Drop(kMine, "lost"));
  EXPECT_EQ(StateOf(kMine, "lost"), TurnState::kUnknown);
  EXPECT_EQ(conversations_->num_live(), 0u);
  EXPECT_THAT(conversations_->Drop(kMine, "lost"), FailsWith(StatusCode::kNotFound, _));
  fail("lost");
  conversations_->DropLive();
  EXPECT_THAT(conversations_->TextOf(kMine, "lost"), FailsWith(StatusCode::kNotFound, _));
  Keep(kMine, "other", turn);
  ATTNDB_ASSERT_OK(conversations_->Rename(kMine, "other", "lost"));
  EXPECT_EQ(StateOf(kMine, "lost"), TurnState::kDurable) << "another context has the name";
  EXPECT_EQ(conversations_->TextOf(kMine, "lost")->tokens, turn);
}

// Two imports of one name may run at once: neither finds the name taken when it begins.
TEST_F(ContextNamesTest, ARefusedStoreLeavesTheNameToTheContextThatHasIt) {
  Open();
  StopStores(kMine);
  const Tokens first = Ids(20, 1);
  const Tokens second = Ids(25, 2);
  const StoreTicket stored = conversations_->Keep(kMine, "name", SessionOf(kMine, first), first);
  const StoreTicket refused = conversations_->Keep(kMine, "name", SessionOf(kMine, second), second);
  EXPECT_EQ(conversations_->TextOf(kMine, "name")->tokens, first) << "before they are durable";
  ResumeStores();
  conversations_->WaitForStores();
  ATTNDB_EXPECT_OK(stored.Wait());
  EXPECT_THAT(refused.Wait(), FailsWith(StatusCode::kAlreadyExists, _));
  EXPECT_EQ(conversations_->num_live(), 2u);
  EXPECT_EQ(StateOf(kMine, "name"), TurnState::kDurable);
  EXPECT_EQ(conversations_->UnstoredText(kMine, "name"), nullptr);
  EXPECT_EQ(conversations_->TextOf(kMine, "name")->tokens, first);
}

TEST_F(ContextNamesTest, ATurnThatCouldNotBeStoredLeavesTheNameToTheTurnBefore) {
  Open();
  const Tokens first = Ids(20, 1);
  Tokens second = first;
  second.push_back(7);
  const auto keep = [this](const Tokens& tokens) {
    return conversations_->Keep(kMine, "talk", SessionOf(kMine, tokens), tokens,
                                StoreOptions{.replace = true});
  };
  keep(first);
  ATTNDB_ASSERT_OK(conversations_->WaitFor(kMine, "talk"));
  ATTNDB_ASSERT_OK(conversations_->HandleOf(kMine)->SetQuota(1));
  EXPECT_THAT(keep(second).Wait(), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_EQ(StateOf(kMine, "talk"), TurnState::kFailed);
  EXPECT_EQ(conversations_->TextOf(kMine, "talk")->tokens, first) << "with or without the session";
  ATTNDB_ASSERT_OK(conversations_->Drop(kMine, "talk"));
  EXPECT_THAT(conversations_->TextOf(kMine, "talk"), FailsWith(StatusCode::kNotFound, _));
  EXPECT_EQ(StateOf(kMine, "talk"), TurnState::kUnknown);
}

TEST_F(ContextNamesTest, WhatCouldNotBeStoredIsSaid) {
  Open();
  // Refused at once: these are not the tokens that the session holds.
  conversations_->Keep(kMine, "wrong", SessionOf(kMine, Ids(10, 1)), Ids(9, 1));
  // Refused behind it: there is no room.
  Keep(kMine, "large", Ids(10, 2));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB theirs, conversations_->HandleOf(kTheirs));
  ATTNDB_ASSERT_OK(theirs.SetQuota(1));
  Keep(kTheirs, "large", Ids(10, 4));
  for (int round = 0; round < 2; ++round) {
    Status error;
    EXPECT_EQ(conversations_->StateOf(kMine, "wrong", &error), TurnState::kFailed);
    EXPECT_THAT(error, FailsWith(StatusCode::kInvalidArgument, _));
    conversations_->WaitForStores();
    EXPECT_EQ(conversations_->StateOf(kTheirs, "large", &error), TurnState::kFailed);
    EXPECT_THAT(error, FailsWith(StatusCode::kResourceExhausted, HasSubstr("quota")));
    EXPECT_EQ(StateOf(kMine, "large"), TurnState::kDurable);
    Keep(kMine, "next" + std::to_string(round), Ids(10, 5));
  }
}

TEST_F(ContextNamesTest, ANameThatCouldNotBeStoredIsForgottenOnceItIs) {
  Open();
  const Tokens tokens = Ids(20, 1);
  const DB db = *conversations_->HandleOf(kMine);
  ATTNDB_ASSERT_OK(db.SetQuota(1));
  Keep(kMine, "book", tokens);
  const auto lacks_room = FailsWith(StatusCode::kResourceExhausted, _);
  EXPECT_THAT(conversations_->WaitFor(kMine, "book"), lacks_room);
  Keep(kMine, "other", Ids(20, 2));  // The Stores that have ended are looked through.
  Status error;
  EXPECT_EQ(conversations_->StateOf(kMine, "book", &error), TurnState::kFailed);
  EXPECT_THAT(conversations_->WaitFor(kMine, "book"), lacks_room);
  ATTNDB_ASSERT_OK(db.SetQuota(0));
  const Tokens again = Ids(20, 3);
  conversations_->Keep(kMine, "book", SessionOf(kMine, again), again,
                       StoreOptions{.replace = true, .ttl = std::chrono::seconds(60)});
  ATTNDB_EXPECT_OK(conversations_->WaitFor(kMine, "book"));
  EXPECT_EQ(conversations_->StateOf(kMine, "book", &error), TurnState::kDurable);
  EXPECT_EQ(conversations_->HandleOf(kMine)->Describe("book")->ttl_seconds, 60);
  ATTNDB_EXPECT_OK(conversations_->WaitFor(kMine, "nobody kept this"));
}

}  // namespace
}  // namespace attndb::server
