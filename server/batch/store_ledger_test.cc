// Goal:   each Store has its own result, whatever else is stored under its name; a name's text and
//         failure are those of the Store that decides about the name.
// Method: a tiny model; Stores that stand still until they are let go.
#include "server/batch/store_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr const char* kTenant = "mine";
const StoreLedger::Key kName = {kTenant, "name"};
const StoreLedger::Key kOther = {"theirs", "name"};

class StoreLedgerTest : public BatchTest {
 protected:
  void SetUp() override { Open(); }
  StoreLedger::Text TextOf(uint64_t seed) const {
    return std::make_shared<const KeptText>(
        KeptText{llama::RandomIds(10, seed, engine_->info().vocab_size), {}});
  }
  // Begins to store `text` under kName.
  StoreTicket Begin(const StoreLedger::Text& text, bool replaces) {
    Session session = SessionOf(kTenant, text->tokens);
    const DB db = *conversations_->HandleOf(kTenant);
    const StoreTicket ticket(
        db.StoreAsync(session, text->tokens, {.name = kName.second, .replace = replaces}));
    ledger_.Note(kName, ticket, text, replaces);
    return ticket;
  }
  StoreTicket Fail(const StoreLedger::Text& text, const Status& status) {
    const StoreTicket ticket{Result<PendingStore>(status)};
    ledger_.Note(kName, ticket, text, /*replaces=*/true);
    return ticket;
  }

  StoreLedger ledger_;
};

TEST_F(StoreLedgerTest, AStoreIsPendingUntilItHasEnded) {
  StopStores(kTenant);
  const StoreLedger::Text text = TextOf(1);
  const StoreTicket ticket = Begin(text, /*replaces=*/false);
  EXPECT_FALSE(ticket.done());
  EXPECT_TRUE(ledger_.IsPending(kName));
  EXPECT_FALSE(ledger_.IsPending(kOther));
  EXPECT_THAT(ledger_.Pending(), SizeIs(1));
  EXPECT_EQ(ledger_.UnstoredOf(kName).text, text);
  EXPECT_EQ(ledger_.UnstoredOf(kOther).text, nullptr);
  ResumeStores();
  ATTNDB_EXPECT_OK(ledger_.WaitFor(kName));
  ATTNDB_EXPECT_OK(ticket.Wait());
  EXPECT_FALSE(ledger_.IsPending(kName));
  EXPECT_EQ(ledger_.UnstoredOf(kName).text, nullptr);
  EXPECT_EQ(text.use_count(), 1) << "the ledger has let go of it";
}

TEST_F(StoreLedgerTest, ARefusedStoreIsNoFailureOfItsName) {
  StopStores(kTenant);
  const StoreLedger::Text text = TextOf(1);
  const StoreTicket first = Begin(text, /*replaces=*/false);
  const StoreTicket second = Begin(TextOf(2), /*replaces=*/false);
  EXPECT_EQ(ledger_.UnstoredOf(kName).text, text) << "the second may not take the name";
  EXPECT_THAT(ledger_.PendingOf(kName), SizeIs(2));
  ResumeStores();
  ATTNDB_EXPECT_OK(first.Wait());
  EXPECT_THAT(second.Wait(), FailsWith(StatusCode::kAlreadyExists, _));
  ATTNDB_EXPECT_OK(ledger_.WaitFor(kName));
  EXPECT_EQ(ledger_.FailureOf(kName), std::nullopt);
  EXPECT_EQ(ledger_.UnstoredOf(kName).text, nullptr);
}

TEST_F(StoreLedgerTest, AStoreThatReplacesHasTheNameAtOnce) {
  StopStores(kTenant);
  const StoreLedger::Text text = TextOf(2);
  const StoreTicket first = Begin(TextOf(1), /*replaces=*/false);
  const StoreTicket second = Begin(text, /*replaces=*/true);
  const StoreLedger::Unstored unstored = ledger_.UnstoredOf(kName);
  EXPECT_EQ(unstored.text, text);
  EXPECT_TRUE(unstored.takes_name);
  ResumeStores();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId first_id, first.Wait());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextId second_id, second.Wait());
  EXPECT_NE(first_id, second_id);
}

TEST_F(StoreLedgerTest, TheLastStoreOfANameDecidesWhetherTheNameHasFailed) {
  const StoreLedger::Text text = TextOf(1);
  const StoreTicket failed = Fail(text, Status::IoError("the disk"));
  EXPECT_TRUE(failed.done());
  EXPECT_EQ(failed.store(), std::nullopt);
  EXPECT_THAT(ledger_.WaitFor(kName), FailsWith(StatusCode::kIoError, _));
  EXPECT_EQ(ledger_.FailureOf(kOther), std::nullopt);
  const StoreLedger::Unstored unstored = ledger_.UnstoredOf(kName);
  EXPECT_EQ(unstored.text, text);
  EXPECT_FALSE(unstored.takes_name);
  const StoreTicket stored = Begin(TextOf(2), /*replaces=*/true);
  EXPECT_THAT(failed.Wait(), FailsWith(StatusCode::kIoError, _)) << "it is another Store's";
  ATTNDB_EXPECT_OK(stored.Wait());
  ATTNDB_EXPECT_OK(ledger_.WaitFor(kName));
}

TEST_F(StoreLedgerTest, AFailureKeepsNoText) {
  StoreLedger::Text text = TextOf(1);
  Fail(text, Status::IoError("the disk"));
  text.reset();
  EXPECT_EQ(ledger_.UnstoredOf(kName).text, nullptr);
  EXPECT_TRUE(ledger_.ForgetFailure(kName).was_failure);
  EXPECT_FALSE(ledger_.ForgetFailure(kName).was_failure);
  ATTNDB_EXPECT_OK(ledger_.WaitFor(kName));
}

TEST_F(StoreLedgerTest, ANameIsUnderWayUntilTheLastThatNotedItIsGone) {
  std::shared_ptr<void> first = ledger_.NoteUnderWay(kName);
  std::shared_ptr<void> second = ledger_.NoteUnderWay(kName);
  first.reset();
  EXPECT_TRUE(ledger_.IsUnderWay(kName));
  EXPECT_FALSE(ledger_.IsUnderWay(kOther));
  second.reset();
  EXPECT_FALSE(ledger_.IsUnderWay(kName));
  EXPECT_THAT(ledger_.Pending(), IsEmpty());
}

}  // namespace
}  // namespace attndb::server
