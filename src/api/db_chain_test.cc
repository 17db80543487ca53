// Goal:   chains of segments stay right as contexts grow, fork, merge and are dropped. A chat of
//         many turns stays cheap on disk, and no Store, merge or damage of one context costs
//         another.
#include <string_view>

#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"
#include "attndb/context_name.h"
#include "store/merge_policy.h"
#include "store/segment_registry.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::SegmentFile;
using test::Tokens;
using test::ToyModel;
using ::testing::HasSubstr;

// --- Many turns ---

class ChatTest : public DBFixture {
 protected:
  static constexpr uint64_t kTurnTokensMax = 25;

  // 15 to 25 tokens, stored under the chat's one name.
  void RunTurn(Session* session, uint64_t turn) {
    const Tokens more = ToyModel::Tokens(15 + turn * 7 % 11, turn + 1);
    all_ = Concat(all_, more);
    ATTNDB_ASSERT_OK(model_.Step(session, more));
    const uint64_t before = db_->Stats()->bytes_written;
    ATTNDB_ASSERT_OK(db_->Store(*session, all_, {.name = "chat", .replace = true}));
    const uint64_t turn_bytes = db_->Stats()->bytes_written - before;
    max_turn_bytes_ = std::max(max_turn_bytes_, turn_bytes);
    min_turn_bytes_ = std::min(min_turn_bytes_, turn_bytes);
  }

  void ExpectOneContextOfFewSegments() {
    ATTNDB_ASSERT_OK(db_->WaitForBackground());  // Sessions release merged segments there.
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo info, db_->Describe("chat"));
    EXPECT_EQ(info.num_tokens, all_.size());
    // merge_policy.h; log2(kSmallTokens) is 11.
    static_assert(store::kSmallTokens == 1 << 11);
    EXPECT_LE(info.segments.size(), all_.size() / store::kSmallTokens + 11 + 1);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, db_->Stats());
    EXPECT_EQ(stats.num_contexts, 1u);
    EXPECT_EQ(stats.num_segments, info.segments.size());
    EXPECT_EQ(NumSegmentFiles(), 2 * stats.num_segments);
  }

  Tokens all_;
  uint64_t max_turn_bytes_ = 0;
  uint64_t min_turn_bytes_ = UINT64_MAX;
};

TEST_F(ChatTest, TwoHundredTurnsStayCheap) {
  {
    Session session = NewSession();
    for (uint64_t turn = 0; turn < 200; ++turn) {
      RunTurn(&session, turn);
      ASSERT_FALSE(HasFatalFailure());
      if (turn % 50 != 49) continue;
      SCOPED_TRACE(turn);
      ExpectOneContextOfFewSegments();  // While the session is open.
      ExpectOracle(&session, all_);
    }
  }
  // A turn costs its own tokens, not those before it: padded rows of K and V, and a few pages.
  EXPECT_LE(max_turn_bytes_,
            min_turn_bytes_ + 2 * kTurnTokensMax * model_.spec().KvBytesPerToken());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, db_->Stats());
  EXPECT_LE(stats.bytes_merged, 12 * stats.bytes_written);
  EXPECT_TRUE(db_->Verify()->ok());
  Open();
  ExpectOneContextOfFewSegments();
  ExpectAnswers(all_, all_.size() - 1);
}

// Another session reads segments that the chat's merges replace. Their files stay only until it
// closes.
TEST_F(ChatTest, FilesThatAReaderKeptGoWithIt) {
  Session session = NewSession();
  for (uint64_t turn = 0; turn < 20; ++turn) RunTurn(&session, turn);
  const Tokens read = all_;
  {
    SessionStart reader = Start(read, {.context = "chat"});
    for (uint64_t turn = 20; turn < 60; ++turn) RunTurn(&session, turn);
    ATTNDB_ASSERT_OK(model_.Step(&reader.session, reader.rest));
    ExpectOracle(&reader.session, read);
  }
  ExpectOneContextOfFewSegments();
  ExpectOracle(&session, all_);
}

// --- drop_base ---

class DropBaseTest : public DBFixture {
 protected:
  DropBaseTest() : base_(*StoreTokens(doc_)) {}

  // Runs `more` behind the session's tokens, `*tokens`, and stores all with drop_base.
  ContextId Grow(Session* session, Tokens* tokens, std::span<const TokenId> more) {
    *tokens = Concat(*tokens, more);
    ATTNDB_EXPECT_OK(model_.Step(session, more));
    const Result<ContextId> id = db_->Store(*session, *tokens, {.drop_base = true});
    ATTNDB_EXPECT_OK(id);
    return id.ok() ? *id : ContextId::kNone;
  }
  void ExpectStored(ContextId id, const Tokens& tokens) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Tokens stored, db_->Tokens(IdName(id)));
    EXPECT_EQ(stored, tokens);
  }
  // Two sessions on the base that go on differently.
  void ExpectBothContextsStay(Session* first, Session* second) {
    ASSERT_EQ(first->context_id(), base_);
    ASSERT_EQ(second->context_id(), base_);
    Tokens first_tokens(doc_.begin(), doc_.begin() + static_cast<int64_t>(first->num_tokens()));
    Tokens second_tokens = first_tokens;
    const ContextId first_id = Grow(first, &first_tokens, ToyModel::Tokens(20, 11));
    EXPECT_EQ(first_id, base_);  // Grown in place.
    const ContextId second_id = Grow(second, &second_tokens, ToyModel::Tokens(30, 12));
    EXPECT_NE(second_id, base_);
    ExpectStored(first_id, first_tokens);
    ExpectStored(second_id, second_tokens);
    // Both go on upon their own.
    EXPECT_EQ(Grow(first, &first_tokens, ToyModel::Tokens(10, 13)), first_id);
    EXPECT_EQ(Grow(second, &second_tokens, ToyModel::Tokens(10, 14)), second_id);
    EXPECT_EQ(db_->List()->size(), 2u);
    ExpectOracle(first, first_tokens);
    ExpectOracle(second, second_tokens);
    ExpectAnswers(first_tokens, first_tokens.size() - 1);
    ExpectAnswers(second_tokens, second_tokens.size() - 1);
    EXPECT_TRUE(db_->Verify()->ok());
  }

  const Tokens doc_ = ToyModel::Tokens(100, 5);
  const ContextId base_;
};

TEST_F(DropBaseTest, AForkDoesNotDropWhatItsParentHasGrown) {
  Session session = std::move(Start(Concat(doc_, Tokens{4000})).session);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  ExpectBothContextsStay(&session, &fork);
}

TEST_F(DropBaseTest, AParentDoesNotDropWhatItsForkHasGrown) {
  Session session = std::move(Start(Concat(doc_, Tokens{4000})).session);
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session fork, session.Fork());
  ExpectBothContextsStay(&fork, &session);
}

TEST_F(DropBaseTest, TwoSessionsOnOnePrefixKeepBothContexts) {
  Session a = std::move(Start(Concat(doc_, Tokens{4000})).session);
  Session b = std::move(Start(Concat(doc_, Tokens{4001})).session);
  ExpectBothContextsStay(&a, &b);
}

TEST_F(DropBaseTest, ASessionOfTheBeginningAloneDropsNothing) {
  Tokens tokens(doc_.begin(), doc_.begin() + 60);
  Session session = std::move(Start(Concat(tokens, Tokens{4000})).session);
  ASSERT_EQ(session.context_id(), base_);
  ASSERT_EQ(session.num_reused(), 60u);
  EXPECT_NE(Grow(&session, &tokens, ToyModel::Tokens(80, 11)), base_);
  ExpectStored(base_, doc_);
  EXPECT_EQ(db_->List()->size(), 2u);
  ExpectAnswers(doc_, 99);
  ExpectAnswers(tokens, 139);
}

TEST_F(DropBaseTest, ACroppedSessionDropsNothing) {
  Session session = std::move(Start(Concat(doc_, Tokens{4000})).session);
  Tokens tokens(doc_.begin(), doc_.begin() + 60);
  ATTNDB_ASSERT_OK(session.Crop(60));
  EXPECT_NE(Grow(&session, &tokens, ToyModel::Tokens(80, 11)), base_);
  ExpectStored(base_, doc_);
  ExpectAnswers(doc_, 99);
  ExpectAnswers(tokens, 139);
}

TEST_F(DropBaseTest, WhatIsNamedOrPinnedStays) {
  const Tokens named = ToyModel::Tokens(50, 6);
  ATTNDB_ASSERT_OK(StoreTokens(named, {.name = "named"}));
  ATTNDB_ASSERT_OK(db_->Pin(IdName(base_)));
  for (const Tokens& stored : {named, doc_}) {
    Tokens tokens = stored;
    Session session = std::move(Start(Concat(tokens, Tokens{4000})).session);
    ASSERT_EQ(session.num_reused(), stored.size());
    EXPECT_NE(Grow(&session, &tokens, ToyModel::Tokens(20, 11)), base_);
  }
  EXPECT_EQ(db_->List()->size(), 4u);
  ExpectStored(base_, doc_);
  EXPECT_EQ(*db_->Tokens("named"), named);
}

// --- Damage that a merge finds ---

class MergeDamageTest : public DBFixture {
 protected:
  static constexpr uint64_t kSizes[] = {200, 100, 50};

  // One byte in the middle of the data file: in K or V. The store is closed meanwhile.
  void Damage(const SegmentInfo& segment) {
    db_.reset();
    std::fstream file(SegmentFile(store(), segment),
                      std::ios::in | std::ios::out | std::ios::binary);
    const auto place = static_cast<int64_t>(segment.file_bytes / 2);
    file.seekg(place);
    const int old = file.get();
    file.seekp(place);
    file.put(static_cast<char>(old ^ 0x10));
    ASSERT_TRUE(file.good());
    file.close();
    Open();
  }
};

TEST_F(MergeDamageTest, IsQuarantinedAndTheOtherContextsAreCompacted) {
  const Tokens before = StoreChain("before", kSizes, 100);
  StoreChain("a", kSizes, 200);
  const Tokens after = StoreChain("b", kSizes, 300);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo a, db_->Describe("a"));
  ASSERT_EQ(a.segments.size(), 3u);
  Damage(a.segments[1]);
  ASSERT_FALSE(db_->Describe("a")->damaged);

  EXPECT_THAT(db_->Compact(), FailsWith(StatusCode::kCorruption, HasSubstr(".seg")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo damaged, db_->Describe("a"));
  EXPECT_TRUE(damaged.damaged);
  ASSERT_EQ(damaged.segments.size(), 3u);
  EXPECT_EQ(damaged.segments[0].damage, "");
  EXPECT_THAT(damaged.segments[1].damage, HasSubstr(".seg"));
  EXPECT_EQ(damaged.segments[2].damage, "");
  EXPECT_EQ(db_->Stats()->num_damaged_segments, 1u);
  EXPECT_EQ(db_->Describe("before")->segments.size(), 1u);
  EXPECT_EQ(db_->Describe("b")->segments.size(), 1u);

  ATTNDB_EXPECT_OK(db_->Compact());
  EXPECT_EQ(NumSegmentFiles(), 2 * db_->Stats()->num_segments);  // Nothing half merged is left.
  ExpectAnswers(before, 349);
  ExpectAnswers(after, 349);
}

TEST_F(MergeDamageTest, AStoreThatMeetsItIsAcknowledgedAllTheSame) {
  const Tokens all = StoreChain("a", kSizes, 200);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo a, db_->Describe("a"));
  Damage(a.segments[2]);
  // 60 tokens make the last segment large enough to be merged with the damaged one before it. The
  // session has not read that one's K and V: the merge is the first to.
  Session session = std::move(Start(Concat(all, Tokens{4000})).session);
  const Tokens more = ToyModel::Tokens(60, 9);
  ATTNDB_ASSERT_OK(AppendTokens(&session, more, nullptr));
  ATTNDB_EXPECT_OK(db_->Store(session, Concat(all, more), {.name = "a", .replace = true}));
  EXPECT_TRUE(db_->Describe("a")->damaged);
  EXPECT_EQ(Start(Concat(all, more)).session.num_reused(), 0u);
  EXPECT_EQ(db_->Verify()->damages.size(), 1u);
}

// --- Open files ---

class OpenFilesTest : public DBFixture {
 protected:
  static constexpr uint64_t kNumContexts = store::SegmentRegistry::kMaxIdle + 60;

  OpenFilesTest() {
    for (uint64_t i = 0; i < kNumContexts; ++i) ATTNDB_EXPECT_OK(StoreTokens(PromptOf(i)));
  }
  static Tokens PromptOf(uint64_t i) { return {static_cast<TokenId>(i), 1, 2}; }

  // File descriptors of this process on the store's segments.
  uint64_t NumOpen() const {
    uint64_t num_open = 0;
    for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // The iterator's own.
      const std::string target = std::filesystem::read_symlink(fd.path(), gone).string();
      if (target.starts_with(store() + "/segments/")) ++num_open;
    }
    return num_open;
  }
};

TEST_F(OpenFilesTest, SegmentsThatNobodyReadsAreClosed) {
  if (!std::filesystem::exists("/proc/self/fd")) GTEST_SKIP() << "no /proc";
  EXPECT_LE(NumOpen(), store::SegmentRegistry::kMaxIdle);
  Open();
  EXPECT_EQ(NumOpen(), 0u);
  for (uint64_t i = 0; i < kNumContexts; ++i) {
    SessionStart start = Start(PromptOf(i));
    ASSERT_EQ(start.session.num_reused(), 2u);
    ASSERT_LE(NumOpen(), store::SegmentRegistry::kMaxIdle + 1);
  }
  EXPECT_GT(NumOpen(), 0u);  // Some stay open for the next reader.
}

TEST_F(OpenFilesTest, WhatSessionsReadStaysOpenUntilTheyGo) {
  if (!std::filesystem::exists("/proc/self/fd")) GTEST_SKIP() << "no /proc";
  Open();
  std::vector<SessionStart> sessions;
  for (uint64_t i = 0; i < kNumContexts; ++i) sessions.push_back(Start(PromptOf(i)));
  EXPECT_GE(NumOpen(), kNumContexts);
  for (const uint64_t i : {uint64_t{0}, kNumContexts - 1}) {
    ATTNDB_ASSERT_OK(model_.Step(&sessions[i].session, sessions[i].rest));
    ExpectOracle(&sessions[i].session, PromptOf(i));
  }
  sessions.clear();
  ATTNDB_ASSERT_OK(StoreTokens(Tokens{5000, 1}));  // The next open of a segment closes them.
  EXPECT_LE(NumOpen(), store::SegmentRegistry::kMaxIdle);
}

}  // namespace
}  // namespace attndb
