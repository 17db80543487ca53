// Goal:   a tenant's numbers of contexts and segments tell nothing of other tenants, name one thing
//         for ever, and stay what they were where a catalog of before is upgraded.
// Method: two tenants side by side; drops, growth, failures and reopenings; catalogs of before,
//         read and upgraded, also under a reader; tables that are changed by SQL.
#include "store/catalog/tenant_numbers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TenantNumbers : public CatalogTest {
 protected:
  TenantNumbers() : default_(tenant()), other_(*MakeTenant("other")) {}

  Result<TenantId> MakeTenant(const char* name) {
    ATTNDB_ASSIGN_OR_RETURN(const Tenant made, harness_->owners()->EnsureTenant(name));
    return made.id;
  }
  ContextId PublishFor(TenantId owner, const std::vector<TokenId>& tokens,
                       const Published& options = {}) {
    harness_.set_tenant(owner);
    const ContextId id = harness_.MustPublish(tokens, options);
    harness_.set_tenant(default_);
    return id;
  }
  static std::vector<int64_t> NumbersIn(Catalog& catalog, TenantId owner) {
    std::vector<int64_t> numbers;
    for (const ContextRecord& record : catalog.contexts()->List(owner).value()) {
      numbers.push_back(static_cast<int64_t>(record.number));
    }
    return numbers;
  }
  std::vector<int64_t> Numbers(TenantId owner) { return NumbersIn(*harness_, owner); }
  std::vector<int64_t> SegmentNumbers(TenantId owner) {
    std::vector<int64_t> numbers;
    for (const SegmentRecord& record : harness_->segments()->List(owner).value()) {
      numbers.push_back(static_cast<int64_t>(record.number));
    }
    return numbers;
  }
  void Drop(TenantId owner, ContextId id) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DropOutcome outcome, harness_->contexts()->Drop(owner, id));
    ATTNDB_ASSERT_OK(harness_->segments()->Remove(outcome.unreferenced));
  }
  void Change(const std::string& sql) {
    const auto database =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    ATTNDB_ASSERT_OK(database->Execute(sql.c_str()));
  }
  // The catalog as the version before would have it.
  void MakeOld() {
    harness_.Close();
    Change(std::string(kDropNumbers) + "; PRAGMA user_version = 5");
  }
  // Contexts 1 and 4, and segments 1 and 4, are the default tenant's; 2 and 3 the other's.
  void MakeStoreOfBefore() {
    PublishFor(default_, Range(0, 10));
    PublishFor(other_, Range(0, 20));
    PublishFor(other_, Range(0, 30));
    PublishFor(default_, Range(50, 40));
    MakeOld();
  }

  const TenantId default_;
  const TenantId other_;
};

TEST_F(TenantNumbers, EachTenantCountsFromOneWhateverOthersDo) {
  for (TokenId i = 0; i < 3; ++i) {
    PublishFor(default_, Range(100 * i, 10));
    PublishFor(other_, Range(100 * i, 20));
    PublishFor(other_, Range(100 * i + 50, 20));
  }
  EXPECT_THAT(Numbers(default_), ElementsAre(1, 2, 3));
  EXPECT_THAT(SegmentNumbers(default_), ElementsAre(1, 2, 3));
  EXPECT_THAT(Numbers(other_), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(SegmentNumbers(other_), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST_F(TenantNumbers, ANumberFindsTheTenantsOwnContextAlone) {
  PublishFor(other_, Range(0, 10));
  const ContextId mine = PublishFor(default_, Range(0, 20));
  const ContextId others = PublishFor(other_, Range(0, 30));
  EXPECT_EQ(harness_->contexts()->Find(default_, "#1")->id, mine);
  EXPECT_EQ(harness_->contexts()->Find(default_, "#1")->Label(), "#1");
  EXPECT_EQ(harness_->contexts()->Find(other_, "#2")->id, others);
  // The store's ids are 2 and 3.
  for (const char* const label : {"#2", "#3"}) {
    EXPECT_THAT(harness_->contexts()->Find(default_, label),
                FailsWith(StatusCode::kNotFound, std::string("no context ") + label));
  }
  EXPECT_EQ(harness_->contexts()->Get(default_, others).status().message().find('3'),
            std::string::npos);
}

TEST_F(TenantNumbers, NoneIsUsedTwice) {
  PublishFor(default_, Range(0, 10));
  Drop(default_, PublishFor(default_, Range(50, 10)));
  harness_.Reopen();
  PublishFor(default_, Range(100, 10));
  EXPECT_THAT(Numbers(default_), ElementsAre(1, 3));
  EXPECT_THAT(SegmentNumbers(default_), ElementsAre(1, 3));
  for (const ContextRecord& record : harness_->contexts()->List(default_).value()) {
    Drop(default_, record.id);
  }
  harness_.Reopen();
  PublishFor(default_, Range(0, 10));
  EXPECT_THAT(Numbers(default_), ElementsAre(4));
  EXPECT_THAT(SegmentNumbers(default_), ElementsAre(4));
}

TEST_F(TenantNumbers, APublishThatFailsTakesNone) {
  PublishFor(default_, Range(0, 10), {.name = "a"});
  EXPECT_THAT(harness_.Publish(Range(50, 10), {.name = "a"}),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("a")));
  PublishRequest request;
  request.tenant = default_;
  request.model = harness_.model();
  const std::vector<TokenId> tokens = Range(100, 10);
  request.tokens = tokens;
  SegmentRecord segment;
  segment.id = harness_->segments()->ReserveId().value();
  segment.num_tokens = 10;
  request.new_segments = {segment};
  request.chain = {{segment.id, 9}};  // Too few, which shows when the segment has its number.
  EXPECT_THAT(harness_->contexts()->Publish(request),
              FailsWith(StatusCode::kInternal, HasSubstr("9")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome, harness_.Publish(Range(200, 10)));
  EXPECT_EQ(outcome.number, ContextNumber{2});
  EXPECT_THAT(Numbers(default_), ElementsAre(1, 2));
  EXPECT_THAT(SegmentNumbers(default_), ElementsAre(1, 2));
}

TEST_F(TenantNumbers, AContextThatGrowsKeepsItsNumberAndAMergedSegmentGetsANewOne) {
  const ContextId base = PublishFor(default_, Range(0, 10));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const PublishOutcome grown,
      harness_.Publish(Range(0, 30), {.base = base, .num_shared = 10, .drop_base = true}));
  EXPECT_TRUE(grown.grown);
  EXPECT_EQ(grown.number, ContextNumber{1});
  MergeRequest merge;
  merge.run = grown.chain;
  merge.merged.id = harness_->segments()->ReserveId().value();
  merge.merged.num_tokens = 30;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const MergeOutcome merged, harness_->segments()->ReplaceRun(merge));
  ATTNDB_ASSERT_OK(harness_->segments()->Remove(merged.unreferenced));
  EXPECT_THAT(SegmentNumbers(default_), ElementsAre(3));
  EXPECT_THAT(Numbers(default_), ElementsAre(1));
}

TEST_F(TenantNumbers, MessagesNameASegmentByItsNumber) {
  PublishFor(other_, Range(0, 10));
  const ContextId base = PublishFor(default_, Range(0, 10));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn"));
  EXPECT_THAT(harness_.Publish(Range(0, 20), {.base = base, .num_shared = 10}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("segment 1 is quarantined")));
}

TEST_F(TenantNumbers, AnUpgradeKeepsWhatUsersWroteDown) {
  MakeStoreOfBefore();
  harness_.Reopen();
  EXPECT_THAT(Numbers(default_), ElementsAre(1, 4));
  EXPECT_THAT(SegmentNumbers(default_), ElementsAre(1, 4));
  EXPECT_THAT(Numbers(other_), ElementsAre(2, 3));
  EXPECT_THAT(harness_->Verify().value(), IsEmpty());
  PublishFor(other_, Range(200, 10));
  PublishFor(default_, Range(200, 10));
  PublishFor(MakeTenant("new").value(), Range(0, 10));
  EXPECT_THAT(Numbers(other_), ElementsAre(2, 3, 4));
  EXPECT_THAT(SegmentNumbers(other_), ElementsAre(2, 3, 4));
  EXPECT_THAT(Numbers(default_), ElementsAre(1, 4, 5));
  EXPECT_THAT(Numbers(MakeTenant("new").value()), ElementsAre(1));
}

TEST_F(TenantNumbers, AReaderOfACatalogOfBeforeTakesIdsForNumbersUntilItIsUpgraded) {
  MakeStoreOfBefore();
  {
    const auto reader = harness_.Open(/*read_only=*/true).value();
    EXPECT_THAT(NumbersIn(*reader, default_), ElementsAre(1, 4));
    EXPECT_EQ(reader->contexts()->Find(default_, "#4")->num_tokens, 40u);
    EXPECT_THAT(reader->contexts()->Find(default_, "#3"),
                FailsWith(StatusCode::kNotFound, HasSubstr("#3")));
    EXPECT_EQ(reader->segments()->Get(4)->number, SegmentNumber{4});
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
    harness_.Reopen();
    PublishFor(other_, Range(200, 10));
    const ContextId mine = PublishFor(default_, Range(200, 10));
    EXPECT_THAT(NumbersIn(*reader, default_), ElementsAre(1, 4, 5));
    EXPECT_THAT(NumbersIn(*reader, other_), ElementsAre(2, 3, 4));
    EXPECT_EQ(reader->contexts()->Find(default_, "#5")->id, mine);
    EXPECT_THAT(reader->Verify().value(), IsEmpty());
  }
}

TEST_F(TenantNumbers, AContextWithoutANumberOfItsTenantIsCorrupt) {
  const ContextId id = PublishFor(default_, Range(0, 10), {.name = "a"});
  PublishFor(other_, Range(0, 10));
  for (const char* const sql :
       {"DELETE FROM context_numbers WHERE context = 1",
        "UPDATE context_numbers SET tenant = 2, number = 9 WHERE context = 1"}) {
    SCOPED_TRACE(sql);
    const std::string before = ReadFile(harness_.path());
    harness_.Close();
    Change(sql);
    harness_.Reopen();
    const auto is_corrupt = FailsWith(StatusCode::kCorruption,
                                      HasSubstr("context 1: column 13 is no number of its tenant"));
    EXPECT_THAT(harness_->contexts()->Find(default_, "a"), is_corrupt);
    EXPECT_THAT(harness_->contexts()->Get(default_, id), is_corrupt);
    EXPECT_THAT(harness_->contexts()->List(default_), is_corrupt);
    EXPECT_THAT(harness_->contexts()->Find(default_, "#1"),
                FailsWith(StatusCode::kNotFound, HasSubstr("#1")));
    EXPECT_THAT(harness_->contexts()->Find(other_, "#9"),
                FailsWith(StatusCode::kNotFound, HasSubstr("#9")));
    ATTNDB_EXPECT_OK(harness_->contexts()->List(other_));
    harness_.Close();
    WriteFile(harness_.path(), before);
    harness_.Reopen();
  }
}

TEST_F(TenantNumbers, ASegmentWithoutANumberOfItsTenantIsCorrupt) {
  const ContextId id = PublishFor(default_, Range(0, 10));
  harness_.Close();
  const std::string before = ReadFile(harness_.path());
  Change("DELETE FROM segment_numbers");
  harness_.Reopen();
  EXPECT_THAT(harness_->contexts()->Describe(default_, id),
              FailsWith(StatusCode::kCorruption,
                        HasSubstr("segment 1: column 11 is no number of its tenant")));
  harness_.Close();
  WriteFile(harness_.path(), before);
  harness_.Reopen();
}

TEST_F(TenantNumbers, ANextNumberThatCantBeIsRefused) {
  PublishFor(default_, Range(0, 10));
  const struct {
    const char* sql;
    const char* message;
  } changes[] = {
      {"DELETE FROM next_numbers WHERE tenant = 1", "tenant 1: next segment number is 0"},
      {"UPDATE next_numbers SET segment = 1", "tenant 1: next segment number is 1"},
      {"UPDATE next_numbers SET context = 1", "tenant 1: next context number is 1"},
      {"UPDATE next_numbers SET context = 9223372036854775807",
       "next context number is 9223372036854775807"},
      {"PRAGMA ignore_check_constraints = ON; UPDATE next_numbers SET context = -7",
       "next context number is -7"},
  };
  harness_.Close();
  const std::string before = ReadFile(harness_.path());
  for (const auto& [sql, message] : changes) {
    SCOPED_TRACE(sql);
    Change(sql);
    harness_.Reopen();
    EXPECT_THAT(harness_.Publish(Range(50, 10)),
                FailsWith(StatusCode::kCorruption, HasSubstr(message)));
    EXPECT_THAT(Numbers(default_), ElementsAre(1));
    harness_.Close();
    WriteFile(harness_.path(), before);
  }
  harness_.Reopen();
}

// 2^62, and none behind it.
TEST_F(TenantNumbers, TheLastNumberThatCanBeIsGiven) {
  harness_.Close();
  Change("UPDATE next_numbers SET context = 4611686018427387904");
  harness_.Reopen();
  EXPECT_EQ(harness_.Publish(Range(0, 10))->number, ContextNumber{4611686018427387904});
  EXPECT_THAT(
      harness_.Publish(Range(50, 10)),
      FailsWith(StatusCode::kCorruption, HasSubstr("next context number is 4611686018427387905")));
}

TEST_F(TenantNumbers, ANumberThatCantBeWrittenIsNotGiven) {
  PublishFor(default_, Range(0, 10));
  harness_.Close();
  {
    const auto database =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    for (const char* const where :
         {"UPDATE ON main.next_numbers", "INSERT ON main.context_numbers"}) {
      const std::string change =
          "BEGIN; DELETE FROM context_numbers; "
          "CREATE TEMP TRIGGER fails BEFORE " +
          std::string(where) + " BEGIN SELECT RAISE(ABORT, 'a test said so'); END";
      ATTNDB_ASSERT_OK(database->Execute(change.c_str()));
      EXPECT_THAT(NumberContext(database.get(), default_, ContextId{1}),
                  FailsWith(StatusCode::kInternal, HasSubstr("a test said so")));
      ATTNDB_ASSERT_OK(database->Execute("ROLLBACK"));
    }
  }
  harness_.Reopen();
  EXPECT_THAT(Numbers(default_), ElementsAre(1));
}

}  // namespace
}  // namespace attndb::store
