// Goal:   segments get fresh ids, live as long as they are used, merge and are quarantined.
// Method: small stores, one behaviour a test; Verify at the end of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/sqlite.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CatalogTest, SegmentIdsAreNeverUsedAgain) {
  std::vector<SegmentId> ids;
  for (int i = 0; i < 200; ++i) {
    ids.push_back(harness_->segments()->ReserveId().value());
    if (i % 30 == 0) harness_.Reopen();
  }
  EXPECT_TRUE(std::ranges::is_sorted(ids));
  EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end());
}

TEST_F(CatalogTest, SegmentsStayKnownUntilTheyAreRemoved) {
  const ContextId first = harness_.MustPublish(Range(0, 100));
  const ContextId second = harness_.MustPublish(Range(0, 150), {.base = first, .num_shared = 100});
  EXPECT_THAT(harness_->contexts()->Drop(tenant(), first)->unreferenced, IsEmpty());
  EXPECT_THAT(harness_->contexts()->Drop(tenant(), second)->unreferenced, ElementsAre(1, 2));
  EXPECT_THAT(harness_.SegmentIds(), ElementsAre(1, 2));
  EXPECT_GT(harness_->Stats(tenant())->file_bytes, 0u);
  EXPECT_THAT(IdsOf(harness_->segments()->Remove(std::vector<SegmentId>{2, 9}).value()),
              ElementsAre(2));
  EXPECT_THAT(harness_.SegmentIds(), ElementsAre(1));
  harness_.Reopen();  // A new writer has no sessions: it forgets unused segments.
  EXPECT_THAT(harness_.SegmentIds(), IsEmpty());
}

TEST_F(CatalogTest, AMergeReplacesTheRunWhereverItIsWhole) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  const ContextId c = harness_.MustPublish(Range(0, 30), {.base = b, .num_shared = 20});
  const ContextId crop = harness_.MustPublish(Range(0, 15), {.base = b, .num_shared = 15});
  const ContextId deep_crop = harness_.MustPublish(Range(0, 5), {.base = b, .num_shared = 5});
  MergeRequest request;
  request.run = {{1, 10}, {2, 10}};
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.num_tokens = 20;
  const MergeOutcome outcome = harness_->segments()->ReplaceRun(request).value();
  const SegmentId merged = request.merged.id;
  EXPECT_THAT(outcome.changed, ElementsAre(b, c, crop));
  EXPECT_THAT(outcome.unreferenced, ElementsAre(2));  // 1 is a's and the deep crop's.
  EXPECT_THAT(harness_->contexts()->Chain(b).value(), ElementsAre(ChainLink{merged, 20}));
  EXPECT_THAT(harness_->contexts()->Chain(c).value(),
              ElementsAre(ChainLink{merged, 20}, ChainLink{3, 10}));
  EXPECT_THAT(harness_->contexts()->Chain(crop).value(), ElementsAre(ChainLink{merged, 15}));
  EXPECT_THAT(harness_->contexts()->Chain(deep_crop).value(), ElementsAre(ChainLink{1, 5}));
  EXPECT_EQ(harness_.Longest(Range(0, 30))->num_tokens, 30u);
}

TEST_F(CatalogTest, AMergeThatFitsNowhereChangesNothing) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  MergeRequest request;
  request.run = {{1, 10}, {2, 10}};
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.num_tokens = 19;
  EXPECT_THAT(harness_->segments()->ReplaceRun(request),
              FailsWith(StatusCode::kInternal, HasSubstr("19")));
  request.merged.num_tokens = 20;
  request.merged.first_position = 1;
  EXPECT_EQ(harness_->segments()->ReplaceRun(request).status().code(), StatusCode::kInternal);
  request.merged.first_position = 0;
  request.run = {{1, 10}, {99, 10}};
  EXPECT_EQ(harness_->segments()->ReplaceRun(request).status().code(),
            StatusCode::kFailedPrecondition);
  request.run = {{1, 5}, {2, 10}};
  request.merged.num_tokens = 15;
  EXPECT_EQ(harness_->segments()->ReplaceRun(request).status().code(), StatusCode::kInternal);
  EXPECT_THAT(harness_.SegmentIds(), ElementsAre(1, 2));
}

// The run's second segment stands behind another first one there.
TEST_F(CatalogTest, AMergeLeavesChainsAloneThatHaveAPartOfTheRun) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  harness_.MustPublish(Range(0, 11), {.base = a, .num_shared = 10});
  harness_.MustPublish(Range(100, 10));
  std::vector<TokenId> tokens = Range(100, 10);
  tokens.insert(tokens.end(), 10, 7);
  PublishRequest mixed;
  mixed.tenant = tenant();
  mixed.model = harness_.model();
  mixed.tokens = tokens;
  mixed.chain = {{4, 10}, {2, 10}};
  const ContextId other = harness_->contexts()->Publish(mixed).value().id;
  MergeRequest request;
  request.run = {{1, 10}, {2, 10}};
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.num_tokens = 20;
  const MergeOutcome outcome = harness_->segments()->ReplaceRun(request).value();
  EXPECT_THAT(outcome.changed, ElementsAre(b));
  EXPECT_THAT(outcome.unreferenced, IsEmpty());
  EXPECT_EQ(harness_->contexts()->Chain(other).value(), mixed.chain);
}

TEST_F(CatalogTest, ARunGoesOnWithinItsTenantAndItsSegments) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  const TenantId mine = tenant();
  harness_.set_tenant(harness_->owners()->EnsureTenant("other")->id);
  harness_.MustPublish(Range(50, 10), {.first_position = 10});
  harness_.set_tenant(mine);
  MergeRequest request;
  request.merged.id = harness_->segments()->ReserveId().value();
  request.run = {{1, 10}, {2, 11}};
  request.merged.num_tokens = 21;
  EXPECT_THAT(harness_->segments()->ReplaceRun(request),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("segment 2 does not continue the run at token 10")));
  request.run = {{1, 10}, {3, 10}};
  request.merged.num_tokens = 20;
  EXPECT_THAT(harness_->segments()->ReplaceRun(request),
              FailsWith(StatusCode::kInternal,
                        HasSubstr("segment 3 does not continue the run at token 10")));
  EXPECT_THAT(harness_->contexts()->Chain(b).value(),
              ElementsAre(ChainLink{1, 10}, ChainLink{2, 10}));
}

TEST_F(CatalogTest, AMergedSegmentIsOfItsRunsTenantAndModelAndHasAnIdOfItsOwn) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  MergeRequest request;
  request.run = {{1, 10}, {2, 10}};
  request.merged.id = 1;
  request.merged.num_tokens = 20;
  request.merged.tenant = TenantId{77};
  request.merged.model = ModelId{77};
  EXPECT_THAT(harness_->segments()->ReplaceRun(request),
              FailsWith(StatusCode::kInternal, HasSubstr("UNIQUE")));
  EXPECT_THAT(harness_->contexts()->Chain(b).value(),
              ElementsAre(ChainLink{1, 10}, ChainLink{2, 10}));
  request.merged.id = harness_->segments()->ReserveId().value();
  ATTNDB_ASSERT_OK(harness_->segments()->ReplaceRun(request));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SegmentRecord merged,
                              harness_->segments()->Get(request.merged.id));
  EXPECT_EQ(merged.tenant, tenant());
  EXPECT_EQ(merged.model, harness_.model());
}

// A statement of a transaction fails, by a trigger that stands before it.
class CatalogSegmentsFault : public CatalogTest {
 protected:
  CatalogSegmentsFault() {
    const ContextId a = harness_.MustPublish(Range(0, 10));
    harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  }
  void ExpectNothingChanges(const std::string& where,
                            const std::function<Status(CatalogSegments*)>& call) {
    SCOPED_TRACE(where);
    const std::string before = CatalogHarness::Dump(*harness_, harness_.spec()).value();
    harness_.Close();
    {
      CatalogOptions options;
      options.path = harness_.path();
      CatalogCore core(options);
      ATTNDB_ASSERT_OK(core.Open());
      {
        MutexLock lock(core.mutex());
        const std::string trigger = "CREATE TEMP TRIGGER fails BEFORE " + where +
                                    " BEGIN SELECT RAISE(ABORT, 'a test said so'); END";
        ATTNDB_ASSERT_OK(core.database()->Execute(trigger.c_str()));
      }
      CatalogSegments segments(&core);
      EXPECT_THAT(call(&segments), FailsWith(StatusCode::kInternal, HasSubstr("a test said so")));
    }
    harness_.Reopen();
    EXPECT_EQ(CatalogHarness::Dump(*harness_, harness_.spec()).value(), before);
  }
};

TEST_F(CatalogSegmentsFault, AQuarantineIsWholeOrNotAtAll) {
  for (const char* const where :
       {"INSERT ON main.sound_tokens", "UPDATE OF damaged ON main.contexts",
        "UPDATE OF context ON main.nodes"}) {
    ExpectNothingChanges(where, [](CatalogSegments* segments) {
      return segments->Quarantine(1, "torn", 5).status();
    });
  }
}

TEST_F(CatalogSegmentsFault, ALiftIsWholeOrNotAtAll) {
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "torn", 5));
  for (const char* const where :
       {"DELETE ON main.sound_tokens", "UPDATE OF damaged ON main.contexts",
        "UPDATE OF context ON main.nodes"}) {
    ExpectNothingChanges(where, [](CatalogSegments* segments) { return segments->Lift(1); });
  }
}

TEST_F(CatalogSegmentsFault, AMergeIsWholeOrNotAtAll) {
  ATTNDB_ASSERT_OK(harness_->companions()->AddWish(2, "graph"));
  for (const char* const where : {"INSERT ON main.chain", "INSERT ON main.wishes"}) {
    ExpectNothingChanges(where, [](CatalogSegments* segments) -> Status {
      MergeRequest request;
      request.run = {{1, 10}, {2, 10}};
      ATTNDB_ASSIGN_OR_RETURN(request.merged.id, segments->ReserveId());
      request.merged.num_tokens = 20;
      return segments->ReplaceRun(request).status();
    });
  }
}

TEST_F(CatalogTest, AQuarantinedSegmentTakesItsContextsOutOfService) {
  const ContextId base = harness_.MustPublish(Range(0, 100), {.name = "base"});
  const ContextId more = harness_.MustPublish(Range(0, 200), {.base = base, .num_shared = 100});
  const std::vector<ContextRecord> affected =
      harness_->segments()->Quarantine(2, "page 3: checksum").value();
  ASSERT_EQ(affected.size(), 1u);
  EXPECT_EQ(affected[0].id, more);
  EXPECT_TRUE(affected[0].damaged);
  EXPECT_TRUE(Get(more).damaged);
  EXPECT_FALSE(Get(base).damaged);
  EXPECT_EQ(harness_->segments()->Get(2)->damage, "page 3: checksum");
  EXPECT_EQ(harness_.Longest(Range(0, 200)), (PrefixMatch{base, 100}));
  EXPECT_THAT(harness_.Publish(Range(0, 210), {.base = more, .num_shared = 200}),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("segment 2 is quarantined")));
  EXPECT_EQ(harness_->contexts()->Tokens(more).value(), Range(0, 200));
  EXPECT_EQ(harness_->Stats(tenant())->num_damaged_segments, 1u);
  ATTNDB_EXPECT_OK(harness_->contexts()->Drop(tenant(), more));
  EXPECT_EQ(harness_->segments()->Quarantine(99, "").status().code(), StatusCode::kNotFound);
}

TEST_F(CatalogTest, WhoUsesSoundTokensOfAQuarantinedSegmentStaysInService) {
  const ContextId base = harness_.MustPublish(Range(0, 100), {.name = "base"});
  const ContextId more = harness_.MustPublish(Range(0, 300), {.base = base, .num_shared = 100});
  std::vector<TokenId> tokens = Range(0, 170);
  tokens.push_back(999);
  const ContextId fork = harness_.MustPublish(tokens, {.base = more, .num_shared = 170});
  ASSERT_EQ(harness_->contexts()->Chain(fork)->at(1), (ChainLink{2, 70}));
  const auto quarantine = [&](uint64_t num_sound) {
    std::vector<ContextId> harmed;
    const auto records = harness_->segments()->Quarantine(2, "granule", num_sound);
    for (const ContextRecord& record : *records) harmed.push_back(record.id);
    return harmed;
  };
  EXPECT_THAT(quarantine(70), ElementsAre(more));
  EXPECT_EQ(harness_.Longest(Range(0, 300)), (PrefixMatch{fork, 170}));
  // It can be shared as far as it is sound, and no further.
  std::vector<TokenId> again = Range(0, 170);
  again.push_back(1000);
  const ContextId second = harness_.MustPublish(again, {.base = fork, .num_shared = 170});
  EXPECT_EQ(harness_->contexts()->Chain(second)->at(1), (ChainLink{2, 70}));
  EXPECT_THAT(quarantine(69), ElementsAre(more, fork, second));
  EXPECT_EQ(harness_.Longest(Range(0, 300)), (PrefixMatch{base, 100}));
  EXPECT_THAT(quarantine(200), IsEmpty()) << "who looked last knows best";
  EXPECT_EQ(harness_.Longest(Range(0, 300)), (PrefixMatch{more, 300}));
  EXPECT_EQ(harness_->Stats(tenant())->num_damaged_segments, 1u);
  EXPECT_THAT(quarantine(0), ElementsAre(more, fork, second));
  ATTNDB_ASSERT_OK(harness_->segments()->Lift(2));
  EXPECT_EQ(harness_.Longest(again), (PrefixMatch{second, 171}));
  EXPECT_THAT(*harness_->Verify(), IsEmpty());
}

TEST_F(CatalogTest, ACatalogFromBeforeSoundTokensWereCountedHasNone) {
  const ContextId base = harness_.MustPublish(Range(0, 100), {.name = "base"});
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "granule"));
  harness_.Close();
  {
    auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK((*database)->Execute("DROP TABLE sound_tokens"));
    ATTNDB_ASSERT_OK((*database)->Execute(kDropNumbers));
    ATTNDB_ASSERT_OK((*database)->Execute("PRAGMA user_version = 4"));
  }
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader, harness_.Open(/*read_only=*/true));
    EXPECT_THAT(*reader->Verify(), IsEmpty());
    EXPECT_TRUE(reader->contexts()->Get(tenant(), base)->damaged);
  }
  harness_.Reopen();
  EXPECT_TRUE(Get(base).damaged);
  EXPECT_THAT(*harness_->segments()->Quarantine(1, "granule", 100), IsEmpty());
  EXPECT_FALSE(Get(base).damaged);
}

TEST_F(CatalogTest, AContextIsServedAgainWhenItsLastQuarantinedSegmentIs) {
  const ContextId base = harness_.MustPublish(Range(0, 100), {.name = "base"});
  const ContextId more = harness_.MustPublish(Range(0, 200), {.base = base, .num_shared = 100});
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "gone"));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "gone"));
  ATTNDB_ASSERT_OK(harness_->segments()->Lift(1));
  EXPECT_FALSE(Get(base).damaged);
  EXPECT_TRUE(Get(more).damaged);
  EXPECT_EQ(harness_.Longest(Range(0, 200)), (PrefixMatch{base, 100}));
  ATTNDB_ASSERT_OK(harness_->segments()->Lift(2));
  EXPECT_FALSE(Get(more).damaged);
  EXPECT_EQ(harness_.Longest(Range(0, 200)), (PrefixMatch{more, 200}));
  EXPECT_EQ(harness_->Stats(tenant())->num_damaged_segments, 0u);
  ATTNDB_EXPECT_OK(harness_->segments()->Lift(2));
  ATTNDB_EXPECT_OK(harness_->segments()->Lift(99));
}

}  // namespace
}  // namespace attndb::store
