// Goal:   contexts that begin alike, as by a chat template, are not one another's fate: neither
//         damage of one, nor a quota that one fills, keeps another from being served or stored.
// Method: texts of random tokens behind a common beginning, imported and stored by sessions; a few
//         bytes of one are changed on disk.
#include "api/db_test_util.h"
#include "api/segment_file_test_util.h"

namespace attndb {
namespace {

using test::Concat;
using test::DBFixture;
using test::FailsWith;
using test::KvArrays;
using test::SegmentFile;
using test::Tokens;
using test::ToyModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SharedBeginningTest : public DBFixture {
 protected:
  static constexpr uint64_t kTextTokens = 400;

  SharedBeginningTest() {
    Open();  // Each call of the clock is later than those before.
  }

  Tokens Text(uint64_t number, uint64_t num_shared = 3) const {
    return Concat(ToyModel::Tokens(num_shared, 1), ToyModel::Tokens(kTextTokens, 10 + number));
  }
  Status Import(const std::string& name, const Tokens& tokens, const StoreOptions& more = {}) {
    now_us_ += 1000;
    StoreOptions options = more;
    options.name = name;
    const KvArrays kv(model_, tokens);
    return db_->Import(model_.spec(), tokens, kv.layers(), options).status();
  }
  void ExpectServed(const Tokens& tokens) {
    now_us_ += 1000;
    ExpectAnswers(tokens, tokens.size() - 1);
  }
  // Overwrites bytes of the segment's file; returns the old ones.
  std::string WriteOver(const SegmentInfo& segment, uint64_t offset,
                        const std::string& bytes) const {
    std::fstream file(SegmentFile(store(), segment),
                      std::ios::in | std::ios::out | std::ios::binary);
    std::string before(bytes.size(), '\0');
    const auto place = static_cast<int64_t>(offset);
    file.seekg(place).read(before.data(), static_cast<int64_t>(before.size()));
    file.seekp(place).write(bytes.data(), static_cast<int64_t>(bytes.size()));
    return before;
  }
  // The same, with the store opened anew, so that they are read again.
  std::string Change(const SegmentInfo& segment, uint64_t offset, const std::string& bytes) {
    db_.reset();
    std::string before = WriteOver(segment, offset, bytes);
    Open();
    return before;
  }
  static uint64_t MiddleOf(uint64_t page) { return page * 4096 + 2048; }
  std::string ChangePage(const SegmentInfo& segment, uint64_t page, const std::string& bytes) {
    return Change(segment, MiddleOf(page), bytes);
  }
  struct ChangedPage {
    uint64_t page = 0;
    std::string before;
  };
  // Changes the first page of the segment whose damage harms just these contexts.
  ChangedPage DamagePageOf(const SegmentInfo& segment, const std::vector<std::string>& harmed) {
    for (uint64_t page = 1; page < segment.file_bytes / 4096; ++page) {
      std::string before = ChangePage(segment, page, "\x5a\xa5\x5a\xa5");
      const VerifyReport report = *db_->Verify();
      if (report.damages.at(0).contexts == harmed) return {page, std::move(before)};
      ChangePage(segment, page, before);
      EXPECT_TRUE(db_->Verify()->ok());
    }
    ADD_FAILURE() << "no such page";
    return {};
  }
  // Changes four bytes of K or V of the context's last segment.
  void Damage(const std::string& name) {
    const SegmentInfo segment = db_->Describe(name)->segments.back();
    Change(segment, segment.file_bytes / 2, "\x5a\xa5\x5a\xa5");
  }
};

// --- Quotas. ---

TEST_F(SharedBeginningTest, AnImportEvictsTheContextWhoseFirstTokensItShares) {
  for (const uint64_t num_shared : {uint64_t{3}, uint64_t{200}}) {
    SCOPED_TRACE(num_shared);
    ATTNDB_ASSERT_OK(db_->SetQuota(0));
    ATTNDB_ASSERT_OK(Import("a", Text(1, num_shared)));
    const uint64_t quota = db_->Stats()->file_bytes * 5 / 4;
    ATTNDB_ASSERT_OK(db_->SetQuota(quota));
    ATTNDB_ASSERT_OK(Import("b", Text(2, num_shared)));
    EXPECT_THAT(ContextNames(), ElementsAre("b"));
    EXPECT_LE(db_->Stats()->file_bytes, quota);
    ExpectServed(Text(2, num_shared));
    ATTNDB_ASSERT_OK(db_->Drop("b"));
  }
}

TEST_F(SharedBeginningTest, ASessionsStoreEvictsTheContextThatItBeganWith) {
  for (const uint64_t num_shared : {uint64_t{3}, uint64_t{200}}) {
    SCOPED_TRACE(num_shared);
    ATTNDB_ASSERT_OK(db_->SetQuota(0));
    ATTNDB_ASSERT_OK(StoreTokens(Text(1, num_shared), {.name = "a"}));
    const uint64_t quota = db_->Stats()->file_bytes * 5 / 4;
    ATTNDB_ASSERT_OK(db_->SetQuota(quota));
    ATTNDB_ASSERT_OK(StoreTokens(Text(2, num_shared), {.name = "b"}));
    EXPECT_THAT(ContextNames(), ElementsAre("b"));
    EXPECT_LE(db_->Stats()->file_bytes, quota);
    ExpectServed(Text(2, num_shared));
    ATTNDB_ASSERT_OK(db_->Drop("b"));
  }
}

// Every prompt finds the first context for its first tokens, which does not count as a use of it.
TEST_F(SharedBeginningTest, TheLeastRecentlyUsedIsEvictedWhoeverHasTheFirstTokens) {
  for (uint64_t i = 1; i <= 3; ++i) ATTNDB_ASSERT_OK(Import(std::string(1, "_abc"[i]), Text(i)));
  ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
  ATTNDB_ASSERT_OK(Import("d", Text(4)));
  EXPECT_THAT(ContextNames(), ElementsAre("b", "c", "d"));
  ExpectServed(Text(2));
  ATTNDB_ASSERT_OK(Import("e", Text(5)));
  EXPECT_THAT(ContextNames(), ElementsAre("b", "d", "e"));
  EXPECT_THAT(db_->Stats()->evicted, ElementsAre("a", "c"));
  EXPECT_EQ(db_->Stats()->num_evictions, 2u);
  EXPECT_THAT(db_->ForTenant("other")->Stats()->evicted, IsEmpty());
}

TEST_F(SharedBeginningTest, WhatIsSharedStaysWhereTheQuotaHasRoom) {
  ATTNDB_ASSERT_OK(Import("a", Text(1, 200)));
  ATTNDB_ASSERT_OK(Import("b", Text(2, 200)));
  EXPECT_EQ(db_->Describe("b")->segments.front().num_contexts, 2u);
  EXPECT_EQ(db_->Describe("b")->segments.front().num_tokens_used, 200u);
  ExpectServed(Text(2, 200));
}

// --- Damage. ---

TEST_F(SharedBeginningTest, DamageOfOneDocumentTakesNoOtherDown) {
  for (uint64_t i = 1; i <= 3; ++i) {
    ATTNDB_ASSERT_OK(Import(std::string(1, "_abc"[i]), Text(i), {.pin = i == 1}));
  }
  Damage("a");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_THAT(report.damages[0].contexts, ElementsAre("a"));
  ExpectServed(Text(2));
  ExpectServed(Text(3));
  EXPECT_THAT(db_->CreateSession(model_.spec(), Text(1), {.context = "a"}),
              FailsWith(StatusCode::kCorruption, HasSubstr("import its text again")));
}

// "a" has a segment, of which "b" uses the first 200 tokens.
TEST_F(SharedBeginningTest, OneDamagedPageHarmsThoseWhoUseItsTokens) {
  ATTNDB_ASSERT_OK(Import("a", Text(1, 200)));
  ATTNDB_ASSERT_OK(Import("b", Text(2, 200)));
  const SegmentInfo shared = db_->Describe("a")->segments.front();
  ASSERT_EQ(db_->Describe("b")->segments.front().segment_id, shared.segment_id);
  std::map<std::vector<std::string>, int> num_pages;  // By harmed contexts.
  for (uint64_t page = 1; page < shared.file_bytes / 4096; page += 2) {
    SCOPED_TRACE(page);
    const std::string before = ChangePage(shared, page, "\x5a\xa5\x5a\xa5");
    ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
    ASSERT_EQ(report.damages.size(), 1u);
    const std::vector<std::string>& harmed = report.damages[0].contexts;
    ++num_pages[harmed];
    for (const auto& [name, text] : {std::pair("a", Text(1, 200)), std::pair("b", Text(2, 200))}) {
      const bool is_harmed = std::ranges::find(harmed, name) != harmed.end();
      EXPECT_EQ(db_->Describe(name)->damaged, is_harmed);
      if (!is_harmed) ExpectServed(text);
    }
    EXPECT_NE(db_->Describe("b")->segments.front().damage, "");
    ChangePage(shared, page, before);
    EXPECT_TRUE(db_->Verify()->ok());
  }
  EXPECT_GT(num_pages[{"a"}], 5);
  EXPECT_GT((num_pages[{"a", "b"}]), 2);
  EXPECT_EQ(num_pages[{"b"}], 0);
  ExpectServed(Text(1, 200));
  ExpectServed(Text(2, 200));
}

// A reading session finds the damage: the step fails, and sound tokens are still served.
TEST_F(SharedBeginningTest, DamageThatASessionMetLeavesWhatIsSound) {
  ATTNDB_ASSERT_OK(Import("a", Text(1, 200)));
  ATTNDB_ASSERT_OK(Import("b", Text(2, 200)));
  const SegmentInfo shared = db_->Describe("a")->segments.front();
  bool is_harmed_alone = false;
  for (uint64_t page = 1; page < shared.file_bytes / 4096 && !is_harmed_alone; ++page) {
    const std::string before = ChangePage(shared, page, "\x5a\xa5\x5a\xa5");
    {
      SessionStart start = Start(Concat(Text(1, 200), Tokens{7}));
      // Else it is where the tokens are: that is met before there is a session.
      is_harmed_alone = start.session.num_reused() == Text(1, 200).size() &&
                        !model_.Step(&start.session, start.rest).ok() &&
                        db_->Describe("a")->damaged && !db_->Describe("b")->damaged;
    }
    if (is_harmed_alone) break;
    ChangePage(shared, page, before);
    ASSERT_TRUE(db_->Verify()->ok());
  }
  ASSERT_TRUE(is_harmed_alone);
  ExpectServed(Text(2, 200));
  ATTNDB_ASSERT_OK(Import("b2", Concat(Text(2, 200), Tokens{3})));
  ExpectServed(Concat(Text(2, 200), Tokens{3}));
  ATTNDB_ASSERT_OK(Import("a", Text(1, 200)));
  // The new context shares the sound part of the old one's segment, which is rewritten for it.
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_FALSE(db_->Describe("a")->damaged);
  ExpectServed(Text(1, 200));
}

// A session has the sound part of a segment in memory, and keeps it meanwhile.
TEST_F(SharedBeginningTest, WhatIsWholeAgainIsServedInTheProcessThatSawItDamaged) {
  ATTNDB_ASSERT_OK(Import("a", Text(1, 200)));
  ATTNDB_ASSERT_OK(Import("b", Text(2, 200)));
  const SegmentInfo shared = db_->Describe("a")->segments.front();
  const ChangedPage changed = DamagePageOf(shared, {"a"});
  SessionStart start = Start(Concat(Text(2, 200), Tokens{7}));
  ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
  EXPECT_THAT(db_->CreateSession(model_.spec(), Text(1, 200), {.context = "a"}),
              FailsWith(StatusCode::kCorruption, HasSubstr("damaged")));
  WriteOver(shared, MiddleOf(changed.page), changed.before);
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_FALSE(db_->Describe("a")->damaged);
  ExpectServed(Text(1, 200));
  ExpectServed(Text(2, 200));
}

// A damaged segment that harms nobody would be listed as damage for good otherwise.
TEST_F(SharedBeginningTest, CompactWritesAnewWhatIsUsedOfADamagedSegment) {
  ATTNDB_ASSERT_OK(Import("a", Text(1, 200)));
  ATTNDB_ASSERT_OK(Import("b", Text(2, 200)));
  DamagePageOf(db_->Describe("a")->segments.front(), {"a"});
  ATTNDB_ASSERT_OK(db_->Compact());
  EXPECT_FALSE(db_->Verify()->ok()) << "of a context that is damaged, what can be read is kept";
  ATTNDB_ASSERT_OK(StoreTokens(Text(1, 200), {.name = "a"}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const VerifyReport report, db_->Verify());
  ASSERT_EQ(report.damages.size(), 1u);
  EXPECT_THAT(report.damages[0].message, HasSubstr("no context is harmed: Compact"));
  ATTNDB_ASSERT_OK(db_->Compact());
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_EQ(db_->Stats()->num_damaged_segments, 0u);
  ExpectServed(Text(1, 200));
  ExpectServed(Text(2, 200));
}

// Samples are only a help: other queries can replace them, and no token is lost.
TEST_F(SharedBeginningTest, DamagedSamplesOfQueriesHarmNobody) {
  ATTNDB_ASSERT_OK(StoreTokens(Text(1), {.name = "a"}));
  DamagePageOf(db_->Describe("a")->segments.front(), {});
  EXPECT_FALSE(db_->Describe("a")->damaged);
  ExpectServed(Text(1));
  {
    SessionStart start = Start(Concat(Text(1), Tokens{7, 8, 9}));
    ATTNDB_ASSERT_OK(model_.Step(&start.session, start.rest));
    const auto heaviest = start.session.HeaviestTokens({0, 400}, 16);
    EXPECT_NE(heaviest.status().code(), StatusCode::kCorruption) << heaviest.status();
  }  // A session that is open keeps the segment that it reads.
  ATTNDB_ASSERT_OK(db_->Compact());
  EXPECT_TRUE(db_->Verify()->ok());
  ExpectServed(Text(1));
}

TEST_F(SharedBeginningTest, TheSameTextMendsADamagedContextUnderItsName) {
  ATTNDB_ASSERT_OK(Import("a", Text(1), {.pin = true}));
  ATTNDB_ASSERT_OK(Import("b", Text(2)));
  EXPECT_THAT(Import("a", Text(1)), FailsWith(StatusCode::kAlreadyExists, HasSubstr("exists")));
  Damage("a");
  EXPECT_FALSE(db_->Verify()->ok());
  EXPECT_THAT(Import("a", Text(4)), FailsWith(StatusCode::kAlreadyExists, HasSubstr("exists")));
  ATTNDB_ASSERT_OK(Import("a", Text(1)));
  EXPECT_TRUE(db_->Verify()->ok());
  EXPECT_TRUE(db_->Describe("a")->pinned);
  EXPECT_THAT(ContextNames(), ElementsAre("b", "a"));
  ExpectServed(Text(1));
  ExpectServed(Text(2));
}

}  // namespace
}  // namespace attndb
