// Goal:   Compact gets every segment whose chains changed since it was settled, and the contexts
//         that show how much of it can be merged.
// Method: small stores, one behaviour a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CatalogCompact : public CatalogTest {
 protected:
  std::vector<UnsettledSegment> Segments() {
    return harness_->segments()->Unsettled(tenant()).value();
  }
  std::vector<SegmentId> Unsettled() {
    std::vector<SegmentId> ids;
    for (const UnsettledSegment& segment : Segments()) ids.push_back(segment.segment);
    return ids;
  }
  std::vector<ContextId> Shown(SegmentId segment) {
    const UnsettledSegment unsettled = {segment, 0};
    return harness_->segments()->ContextsToCompact(std::span(&unsettled, 1)).value();
  }
  void SettleAll() { ATTNDB_ASSERT_OK(harness_->segments()->Settle(Segments())); }
};

TEST_F(CatalogCompact, WhatIsStoredDroppedOrMergedIsUnsettled) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  EXPECT_THAT(Unsettled(), ElementsAre(1, 2));
  SettleAll();
  harness_.Reopen();
  EXPECT_THAT(Unsettled(), IsEmpty());
  harness_.MustPublish(Range(50, 10));
  EXPECT_THAT(Unsettled().size(), 1u);
  SettleAll();
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), a));
  EXPECT_THAT(Unsettled(), ElementsAre(1));
  SettleAll();
  MergeRequest request;
  request.run = harness_->contexts()->Chain(b).value();
  request.merged.id = harness_->segments()->ReserveId().value();
  request.merged.num_tokens = 20;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const MergeOutcome merged, harness_->segments()->ReplaceRun(request));
  ATTNDB_ASSERT_OK(harness_->segments()->Remove(merged.unreferenced));
  EXPECT_THAT(Unsettled(), ElementsAre(request.merged.id));
}

TEST_F(CatalogCompact, WhatChangesWhileItIsLookedAtStaysUnsettled) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const std::vector<UnsettledSegment> seen = Segments();
  harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  ATTNDB_ASSERT_OK(harness_->segments()->Settle(seen));
  EXPECT_THAT(Unsettled(), ElementsAre(1, 2));
}

TEST_F(CatalogCompact, AnotherLengthUnsettlesTheTenantsSegmentsOnce) {
  harness_.MustPublish(Range(0, 10));
  SettleAll();
  ATTNDB_ASSERT_OK(harness_->segments()->UnsettleForLength(tenant(), 0));
  EXPECT_THAT(Unsettled(), IsEmpty());
  ATTNDB_ASSERT_OK(
      harness_->segments()->UnsettleForLength(harness_->owners()->EnsureTenant("other")->id, 100));
  EXPECT_THAT(Unsettled(), IsEmpty());
  ATTNDB_ASSERT_OK(harness_->segments()->UnsettleForLength(tenant(), 100));
  EXPECT_THAT(Unsettled(), ElementsAre(1));
  SettleAll();
  harness_.Reopen();
  ATTNDB_ASSERT_OK(harness_->segments()->UnsettleForLength(tenant(), 100));
  EXPECT_THAT(Unsettled(), IsEmpty());
}

TEST_F(CatalogCompact, AContextShowsASegmentThatUsesMostOfItAndIsNotDamaged) {
  const ContextId a = harness_.MustPublish(Range(0, 100));
  const ContextId b = harness_.MustPublish(Range(0, 70), {.base = a, .num_shared = 60});
  EXPECT_THAT(Shown(1), ElementsAre(a));
  EXPECT_THAT(Shown(2), ElementsAre(b));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), a));
  EXPECT_THAT(Shown(1), ElementsAre(b));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn"));
  EXPECT_THAT(Shown(1), IsEmpty());
  EXPECT_THAT(Shown(99), IsEmpty());
}

// The sound part can be rewritten; a segment that is whole again can be merged.
TEST_F(CatalogCompact, WhatIsQuarantinedOrServedAgainIsUnsettled) {
  harness_.MustPublish(Range(0, 100));
  harness_.MustPublish(Range(200, 100));
  SettleAll();
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn", 100));
  EXPECT_THAT(Unsettled(), ElementsAre(2));
  SettleAll();
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "torn again", 100));
  EXPECT_THAT(Unsettled(), IsEmpty()) << "else Compact would look at it for ever";
  ATTNDB_ASSERT_OK(harness_->segments()->Lift(2));
  EXPECT_THAT(Unsettled(), ElementsAre(2));
  EXPECT_THAT(*harness_->Verify(), IsEmpty());
}

// Its chain is merged within its model alone.
TEST_F(CatalogCompact, AContextOfTheSegmentsModelShowsItToo) {
  const ContextId a = harness_.MustPublish(Range(0, 100));
  const ContextId b = harness_.MustPublish(Range(0, 90), {.base = a, .num_shared = 90});
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "others"));
  harness_.set_spec(TestSpec("others"));
  const ContextId other = harness_.MustPublish(Range(0, 120), {.base = a, .num_shared = 100});
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), a));
  EXPECT_THAT(Shown(1), ElementsAre(b, other));
}

TEST_F(CatalogCompact, ACatalogOfBeforeThereWereCountersIsUnsettled) {
  harness_.MustPublish(Range(0, 100));
  SettleAll();
  harness_.Close();
  {
    const auto database =
        SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
    ATTNDB_ASSERT_OK(database->Execute(kDropCounters));
    ATTNDB_ASSERT_OK(database->Execute("PRAGMA user_version = 2"));
  }
  harness_.Reopen();
  EXPECT_THAT(Unsettled(), ElementsAre(1));
}

}  // namespace
}  // namespace attndb::store
