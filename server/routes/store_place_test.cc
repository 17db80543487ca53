// Goal:   a turn or a text is stored in the place of what its name stands for when it ends, and
//         never in that of something else.
// Method: SmolLM2's template; contexts that change between two looks.
#include "server/routes/store_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/smollm2_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using std::chrono::seconds;
using ::testing::HasSubstr;

class StorePlaceTest : public SmolLm2Test {
 protected:
  void SetUp() override {
    Result<DB> db = DB::Open(directory_.File("store"), {});
    ASSERT_THAT(db, ::attndb::test::IsOk());
    db_.emplace(*std::move(db));
  }

  void Store(const std::vector<TokenId>& tokens, const StoreOptions& options) const {
    Result<SessionStart> start = db_->CreateSession(engine_->spec(), tokens, {});
    ASSERT_THAT(start, ::attndb::test::IsOk());
    ASSERT_THAT(engine_->Prefill(start->session, start->rest), ::attndb::test::IsOk());
    ATTNDB_ASSERT_OK(db_->Store(start->session, tokens, options));
  }
  static std::vector<TokenId> Dialogue(const std::string& words) {
    const std::vector<llama::ChatMessage> messages = {{"user", words}};
    return *engine_->Conversation(messages);
  }
  static std::vector<TokenId> Document(const std::string& words) {
    return *engine_->DocumentPrefix("", words);
  }

  ::attndb::test::TempDir directory_;
  std::optional<DB> db_;
};

TEST_F(StorePlaceTest, ADialogueHasTheLifeThatItsNameHasNow) {
  DialoguePlace place(engine_.get(), *db_, {.ttl = seconds(5)});
  ATTNDB_ASSERT_OK_AND_ASSIGN(StoreOptions store, place.Look("talk"));
  EXPECT_TRUE(store.replace);
  EXPECT_FALSE(store.pin);
  EXPECT_EQ(store.ttl, seconds(5)) << "it is new";
  Store(Dialogue("Hi"), {.name = "talk"});
  ATTNDB_ASSERT_OK_AND_ASSIGN(store, place.Look("talk"));
  EXPECT_EQ(store.ttl, std::nullopt);
  // While the turn runs.
  ATTNDB_ASSERT_OK(db_->Pin("talk"));
  ATTNDB_ASSERT_OK(db_->SetTtl("talk", seconds(60)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(store, place.Look("talk"));
  EXPECT_TRUE(store.replace);
  EXPECT_TRUE(store.pin);
  EXPECT_EQ(store.ttl, seconds(60));
}

TEST_F(StorePlaceTest, ADialogueNeverTakesTheNameOfADocument) {
  Store(Dialogue("Hi"), {.name = "talk"});
  DialoguePlace place(engine_.get(), *db_, {});
  ATTNDB_ASSERT_OK(place.Look("talk"));
  Store(Document("Hello there."), {.name = "talk", .replace = true});
  EXPECT_THAT(place.Look("talk"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'talk' is a document")));
}

TEST_F(StorePlaceTest, AnAppendedTextGoesBehindWhatItWasReadBehind) {
  Store(Document("The cat"), {.name = "text"});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo began, db_->Describe("text"));
  StoreOptions store;
  ATTNDB_ASSERT_OK(db_->Pin("text"));
  ATTNDB_ASSERT_OK(db_->SetTtl("text", seconds(60)));
  ATTNDB_ASSERT_OK(FitAppend(*db_, began, &store));
  EXPECT_TRUE(store.pin);
  EXPECT_EQ(store.ttl, seconds(60));
  const auto has_changed = FailsWith(StatusCode::kFailedPrecondition, HasSubstr("has changed"));
  ATTNDB_ASSERT_OK(db_->Rename("text", "other"));
  EXPECT_THAT(FitAppend(*db_, began, &store), has_changed);
  Store(Document("The dog"), {.name = "text"});
  EXPECT_THAT(FitAppend(*db_, began, &store), has_changed) << "it is another context";
  ATTNDB_ASSERT_OK(db_->Drop("text"));
  ATTNDB_ASSERT_OK(db_->Rename("other", "text"));
  ATTNDB_ASSERT_OK(FitAppend(*db_, began, &store));
  Store(Document("The cat sat"), {.name = "text", .replace = true});
  EXPECT_THAT(FitAppend(*db_, began, &store), has_changed) << "another text was appended";
}

}  // namespace
}  // namespace attndb::server
