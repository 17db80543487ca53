// Goal:   sessions that forked from one another write their common tokens once, however they are
//         stored; each is a context of its own, whatever becomes of the others and of the store.
// Method: forks with tokens of their own, stored one by one, at once, on a disk that fails, and
//         beside contexts that are dropped or damaged. Answers are compared with attention in
//         float64, and files with those of separate sessions.
#include <filesystem>

#include "api/segment_file_test_util.h"
#include "api/stopped_db_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::Event;
using test::FailsWith;
using test::Tokens;
using test::ToyModel;
using ::testing::_;
using ::testing::ElementsAre;

class StoredForksTest : public test::StoppedDBFixture {
 protected:
  static constexpr size_t kPrompt = 700;
  static constexpr size_t kReply = 40;

  explicit StoredForksTest(const DBOptions& options = {.background_builds = false})
      : StoppedDBFixture(options) {}

  struct Told {
    std::string name;
    Session session;
    Tokens tokens;
  };
  // A prompt, and forks of its session that say something of their own behind it.
  std::vector<Told> Choices(size_t count, size_t num_prompt = kPrompt) {
    Session session = NewSession();
    Tokens prompt;
    Append(&session, &prompt, num_prompt, 1);
    std::vector<Told> choices;
    for (size_t i = 1; i < count; ++i) choices.push_back({"", *session.Fork(), prompt});
    choices.insert(choices.begin(), Told{"", std::move(session), prompt});
    for (size_t i = 0; i < count; ++i) {
      choices[i].name = std::string(1, static_cast<char>('a' + i));
      Append(&choices[i].session, &choices[i].tokens, kReply, 100 + i);
    }
    return choices;
  }
  Status Store(Told* told, const StoreOptions& more = {}) {
    now_us_ += 1000;
    StoreOptions options = more;
    options.name = told->name;
    return db_->Store(told->session, told->tokens, options).status();
  }
  // The bytes of a context of so many tokens that shares nothing.
  uint64_t BytesOf(size_t num_tokens) {
    Session session = NewSession();
    Tokens all;
    Append(&session, &all, num_tokens, 77);
    const uint64_t before = db_->Stats()->file_bytes;
    ATTNDB_EXPECT_OK(db_->Store(session, all, {.name = "measured"}));
    const uint64_t bytes = db_->Stats()->file_bytes - before;
    session.Reset();
    ATTNDB_EXPECT_OK(db_->Drop("measured"));
    return bytes;
  }
  void ExpectStored(const Tokens& tokens) {
    ExpectAnswers(Concat(tokens, Tokens{5}), tokens.size());
  }
  // No file lies in the store but those of its contexts.
  void ExpectSound() {
    EXPECT_TRUE(db_->Verify()->ok());
    EXPECT_EQ(NumSegmentFiles(), 2 * db_->Stats()->num_segments);
  }
  // Copies the files of the store while an operation of the context's Store waits. An open of the
  // copy finds `num_contexts` contexts, and no file of another one.
  void ExpectKilled(Told* told, uint64_t stop_at, size_t num_contexts) {
    Event stuck, release;
    files_.SetPlan({.fail_at = stop_at, .waits_for = &release, .waiting = &stuck});
    const PendingStore pending =
        *db_->StoreAsync(told->session, told->tokens, {.name = told->name});
    stuck.Await();
    const std::string copy = dir_.File("copy");
    std::filesystem::copy(store(), copy, std::filesystem::copy_options::recursive);
    release.Set();
    ATTNDB_ASSERT_OK(pending.Wait().status());
    {
      const DB killed = *DB::Open(copy, {.num_threads = 1, .background_builds = false});
      EXPECT_TRUE(killed.Verify()->ok());
      EXPECT_EQ(killed.List()->size(), num_contexts);
      EXPECT_EQ(test::NumFilesIn(copy + "/segments"), 2 * killed.Stats()->num_segments);
    }
    std::filesystem::remove_all(copy);
  }
  int64_t FirstSegmentOf(const std::string& name) const {
    return db_->Describe(name)->segments.front().segment_id;
  }
};

TEST_F(StoredForksTest, WriteTheirCommonTokensOnce) {
  const uint64_t expected = BytesOf(kPrompt) + 8 * BytesOf(kReply);
  std::vector<Told> choices = Choices(8);
  for (Told& told : choices) ATTNDB_ASSERT_OK(Store(&told));
  EXPECT_EQ(db_->Stats()->file_bytes, expected);
  for (Told& told : choices) {
    SCOPED_TRACE(told.name);
    EXPECT_THAT(SegmentTokens(told.name), ElementsAre(kPrompt, kReply));
    EXPECT_EQ(db_->Describe(told.name)->segments.front().num_contexts, 8u);
    EXPECT_EQ(*db_->Tokens(told.name), told.tokens);
    ExpectStored(told.tokens);
    Append(&told.session, &told.tokens, 3, 7);
    ExpectOracle(&told.session, told.tokens);
  }
  ExpectSound();
}

TEST_F(StoredForksTest, WriteTheirCommonTokensOnceInTheBackground) {
  const uint64_t expected = BytesOf(kPrompt) + 8 * BytesOf(kReply);
  std::vector<Told> choices = Choices(8);
  std::vector<PendingStore> stores;
  for (Told& told : choices) {
    stores.push_back(*db_->StoreAsync(told.session, told.tokens, {.name = told.name}));
  }
  for (const PendingStore& store : stores) ATTNDB_ASSERT_OK(store.Wait().status());
  EXPECT_EQ(db_->Stats()->file_bytes, expected);
  for (Told& told : choices) {
    SCOPED_TRACE(told.name);
    EXPECT_THAT(SegmentTokens(told.name), ElementsAre(kPrompt, kReply));
    ExpectStored(told.tokens);
    Append(&told.session, &told.tokens, 3, 7);
    ExpectOracle(&told.session, told.tokens);
  }
  ExpectSound();
}

// The forks go on from a context, whose tokens they share in any case.
TEST_F(StoredForksTest, ContinueTheContextThatTheirSessionContinued) {
  const Tokens base = StoreChain("base", std::vector<uint64_t>{300}, 3);
  Session session = Resume(base, 200);
  Tokens tokens = Concat(base, ToyModel::Tokens(200, 9));
  Told first{"a", *session.Fork(), tokens};
  Told second{"b", std::move(session), tokens};
  const ContextId continued = db_->Describe("base")->id;
  for (Told* const told : {&first, &second}) {
    Append(&told->session, &told->tokens, 20, told == &first ? 11 : 12);
    ATTNDB_ASSERT_OK(Store(told));
    EXPECT_THAT(SegmentTokens(told->name), ElementsAre(300, 200, 20));
    EXPECT_EQ(db_->Describe(told->name)->continues, continued);
    ExpectStored(told->tokens);
  }
  EXPECT_EQ(db_->Describe("b")->segments[1].segment_id, db_->Describe("a")->segments[1].segment_id);
  ExpectSound();
}

TEST_F(StoredForksTest, ForksOfForksShareWhatEachHasOfTheOthers) {
  Session session = NewSession();
  Tokens tokens;
  Append(&session, &tokens, 300, 1);
  Told early{"early", *session.Fork(), tokens};
  Append(&session, &tokens, 100, 2);
  Told late{"late", *session.Fork(), tokens};
  Told cropped{"cropped", *late.session.Fork(), tokens};
  ATTNDB_ASSERT_OK(cropped.session.Crop(350));
  cropped.tokens.resize(350);
  Told first{"first", std::move(session), tokens};
  for (Told* const told : {&first, &early, &late, &cropped}) {
    Append(&told->session, &told->tokens, 10, told->tokens.size() + told->name.size());
    ATTNDB_ASSERT_OK(Store(told));
    ExpectStored(told->tokens);
    ExpectOracle(&told->session, told->tokens);
  }
  EXPECT_THAT(SegmentTokens("first"), ElementsAre(400, 10));
  EXPECT_THAT(SegmentTokens("early"), ElementsAre(300, 10));
  EXPECT_THAT(SegmentTokens("late"), ElementsAre(400, 10));
  EXPECT_THAT(SegmentTokens("cropped"), ElementsAre(350, 10));
  const int64_t shared = FirstSegmentOf("first");
  for (const char* const name : {"early", "late", "cropped"}) {
    EXPECT_EQ(FirstSegmentOf(name), shared) << name;
  }
  ExpectSound();
}

// Less than a block is not worth a segment.
TEST_F(StoredForksTest, AFewCommonTokensAreWrittenByEach) {
  std::vector<Told> choices = Choices(2, 63);
  for (Told& told : choices) {
    ATTNDB_ASSERT_OK(Store(&told));
    EXPECT_THAT(SegmentTokens(told.name), ElementsAre(63 + kReply));
  }
}

TEST_F(StoredForksTest, AForkWithoutTokensOfItsOwnSharesAll) {
  Session session = NewSession();
  Tokens tokens;
  Append(&session, &tokens, 300, 1);
  Told same{"same", *session.Fork(), tokens};
  Told longer{"longer", std::move(session), tokens};
  Append(&longer.session, &longer.tokens, 20, 2);
  ATTNDB_ASSERT_OK(Store(&longer));
  const uint64_t before = db_->Stats()->file_bytes;
  ATTNDB_ASSERT_OK(Store(&same));
  EXPECT_EQ(db_->Stats()->file_bytes, before);
  EXPECT_THAT(SegmentTokens("same"), ElementsAre(300));
  ExpectStored(same.tokens);
}

// A conversation that goes on while its last turn is being stored.
TEST_F(StoredForksTest, AForkOfASessionThatIsBeingStoredSharesItsContext) {
  Session session = NewSession();
  Tokens tokens;
  Append(&session, &tokens, 300, 1);
  Event stuck;
  files_.SetPlan({.fail_at = 1, .waits_for = &release_, .waiting = &stuck});
  const PendingStore first = *db_->StoreAsync(session, tokens, {.name = "first"});
  stuck.Await();
  Told next{"next", *session.Fork(), tokens};
  Append(&next.session, &next.tokens, 20, 2);
  const PendingStore second = *db_->StoreAsync(next.session, next.tokens, {.name = "next"});
  release_.Set();
  ATTNDB_ASSERT_OK(first.Wait().status());
  ATTNDB_ASSERT_OK(second.Wait().status());
  EXPECT_THAT(SegmentTokens("first"), ElementsAre(300));
  EXPECT_THAT(SegmentTokens("next"), ElementsAre(300, 20));
  EXPECT_EQ(FirstSegmentOf("next"), FirstSegmentOf("first"));
  ExpectStored(next.tokens);
  ExpectSound();
}

// --- What leaves the store ---

TEST_F(StoredForksTest, ADroppedContextTakesItsOwnTokensAndTheLastOneAll) {
  const uint64_t of_reply = BytesOf(kReply);
  {
    std::vector<Told> choices = Choices(3);
    for (Told& told : choices) ATTNDB_ASSERT_OK(Store(&told));
  }
  uint64_t bytes = db_->Stats()->file_bytes;
  for (const char* const name : {"a", "c"}) {
    ATTNDB_ASSERT_OK(db_->Drop(name));
    EXPECT_EQ(db_->Stats()->file_bytes, bytes - of_reply);
    bytes -= of_reply;
    ExpectSound();
    ExpectStored(*db_->Tokens("b"));
  }
  ATTNDB_ASSERT_OK(db_->Drop("b"));
  EXPECT_EQ(db_->Stats()->file_bytes, 0u);
  EXPECT_EQ(NumSegmentFiles(), 0u);
}

TEST_F(StoredForksTest, ATokenOfADroppedContextIsFoundInAnotherOne) {
  std::vector<Told> choices = Choices(4);
  ATTNDB_ASSERT_OK(Store(&choices[0]));
  ATTNDB_ASSERT_OK(Store(&choices[1]));
  const int64_t shared = FirstSegmentOf("a");
  ATTNDB_ASSERT_OK(db_->Drop("b"));
  ATTNDB_ASSERT_OK(Store(&choices[2]));
  EXPECT_EQ(FirstSegmentOf("c"), shared);
  ATTNDB_ASSERT_OK(db_->Drop("a"));
  ATTNDB_ASSERT_OK(db_->Drop("c"));
  ATTNDB_ASSERT_OK(Store(&choices[3]));
  EXPECT_NE(FirstSegmentOf("d"), shared) << "nothing is left to share";
  ExpectStored(choices[3].tokens);
}

TEST_F(StoredForksTest, AContextOfOtherTokensIsNotShared) {
  std::vector<Told> choices = Choices(2);
  ATTNDB_ASSERT_OK(Store(&choices[0]));
  choices[1].tokens[500] += 1;  // What the caller says is another text.
  ATTNDB_ASSERT_OK(Store(&choices[1]));
  EXPECT_NE(FirstSegmentOf("b"), FirstSegmentOf("a"));
  EXPECT_EQ(*db_->Tokens("b"), choices[1].tokens);
}

TEST_F(StoredForksTest, WhatIsDamagedIsWrittenAgain) {
  std::vector<Told> choices = Choices(2);
  ATTNDB_ASSERT_OK(Store(&choices[0]));
  choices[0].session.Reset();
  const SegmentInfo shared = db_->Describe("a")->segments.front();
  std::filesystem::remove(test::SegmentFile(store(), shared));
  ATTNDB_ASSERT_OK(Store(&choices[1]));
  EXPECT_NE(FirstSegmentOf("b"), shared.segment_id);
  EXPECT_FALSE(db_->Describe("b")->damaged);
  ExpectStored(choices[1].tokens);
}

// --- Room ---

TEST_F(StoredForksTest, TheQuotaCountsCommonTokensOnce) {
  const uint64_t quota = BytesOf(kPrompt) + 2 * BytesOf(kReply);
  std::vector<Told> choices = Choices(3);
  ATTNDB_ASSERT_OK(db_->SetQuota(quota));
  ATTNDB_ASSERT_OK(Store(&choices[0]));
  ATTNDB_ASSERT_OK(Store(&choices[1]));
  EXPECT_THAT(ContextNames(), ElementsAre("a", "b"));
  choices[0].session.Reset();  // What a session uses is not evicted.
  ATTNDB_ASSERT_OK(Store(&choices[2]));
  EXPECT_THAT(ContextNames(), ElementsAre("b", "c"));
  EXPECT_EQ(db_->Stats()->file_bytes, quota);
  ExpectSound();
}

TEST_F(StoredForksTest, AStoreThatFailsInTheMiddleLeavesTheOthersAndNoFile) {
  std::vector<Told> choices = Choices(3);
  ATTNDB_ASSERT_OK(Store(&choices[0]));
  files_.SetPlan(
      {.fail_at = 5, .sticky = true, .kind = test::FaultKind::kNoSpace, .removes_fail = false});
  EXPECT_THAT(Store(&choices[1]), FailsWith(StatusCode::kResourceExhausted, _));
  files_.SetPlan({});
  EXPECT_THAT(ContextNames(), ElementsAre("a"));
  ExpectStored(choices[0].tokens);
  ATTNDB_ASSERT_OK(Store(&choices[2]));
  ATTNDB_ASSERT_OK(Store(&choices[1]));
  EXPECT_THAT(SegmentTokens("b"), ElementsAre(kPrompt, kReply));
  EXPECT_EQ(FirstSegmentOf("b"), FirstSegmentOf("c"));
  choices.clear();
  OpenWithFiles();
  ExpectSound();
}

// The first Store writes two segments: whichever operation fails, all or nothing is there.
TEST_F(StoredForksTest, TheFirstStoreIsAllOrNothing) {
  for (const test::FaultKind kind : {test::FaultKind::kNoSpace, test::FaultKind::kErrorAfter}) {
    bool is_over = false;
    for (uint64_t fail_at = 1; !is_over; fail_at += 3) {
      SCOPED_TRACE(fail_at);
      std::vector<Told> choices = Choices(2, 100);
      files_.SetPlan({.fail_at = fail_at, .kind = kind, .removes_fail = false});
      const Status status = Store(&choices[0]);
      is_over = files_.num_faults() == 0;
      files_.SetPlan({});
      const bool is_stored = status.ok();
      ATTNDB_ASSERT_OK(Store(&choices[1]));
      ExpectStored(choices[1].tokens);
      if (is_stored) {
        ExpectStored(choices[0].tokens);
        EXPECT_EQ(FirstSegmentOf("b"), FirstSegmentOf("a"));
      }
      choices.clear();
      OpenWithFiles();
      EXPECT_TRUE(!is_stored || db_->Describe("a").ok());
      ExpectSound();
      for (const std::string& name : ContextNames()) ATTNDB_ASSERT_OK(db_->Drop(name));
    }
  }
}

// A copy of the files is what a process that is killed leaves.
TEST_F(StoredForksTest, AKillInAStoreLeavesTheForksThatAreStored) {
  for (const bool first_is_stored : {false, true}) {
    uint64_t num_operations = 0;  // A whole Store makes these.
    for (const uint64_t quarter : {0u, 1u, 2u, 3u}) {
      SCOPED_TRACE(quarter);
      std::vector<Told> choices = Choices(2);
      if (first_is_stored) {
        ATTNDB_ASSERT_OK(Store(&choices[0]));
      }
      Told* const told = &choices[first_is_stored ? 1 : 0];
      if (quarter == 0) {
        files_.SetPlan({});
        ATTNDB_ASSERT_OK(Store(told));
        num_operations = files_.num_operations();
      } else {
        ExpectKilled(told, num_operations * quarter / 4, first_is_stored ? 1 : 0);
      }
      choices.clear();
      for (const std::string& name : ContextNames()) ATTNDB_ASSERT_OK(db_->Drop(name));
    }
  }
}

// --- Cuts ---

TEST_F(StoredForksTest, CutsFromBeforeTheForkAreShared) {
  Session session = NewSession();
  Tokens tokens;
  Append(&session, &tokens, 300, 1);
  ATTNDB_ASSERT_OK(session.DropOldest(100, {.keep_first = 4}));
  Append(&session, &tokens, 200, 2);
  Told before{"before", *session.Fork(), tokens};
  Told at{"at", *session.Fork(), tokens};
  ATTNDB_ASSERT_OK(at.session.DropOldest(100, {.keep_first = 4}));
  Told first{"first", std::move(session), tokens};
  for (Told* const told : {&first, &before, &at}) {
    Append(&told->session, &told->tokens, 20, told->name.size());
    ATTNDB_ASSERT_OK(Store(told));
    EXPECT_EQ(*db_->Tokens(told->name), told->tokens);
  }
  EXPECT_EQ(FirstSegmentOf("before"), FirstSegmentOf("first"));
  EXPECT_EQ(db_->Describe("before")->cuts.size(), 1u);
  EXPECT_EQ(db_->Describe("at")->cuts.size(), 2u);
  ExpectSound();
}

}  // namespace
}  // namespace attndb
