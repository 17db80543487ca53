// Goal:   segments get fresh ids, live as long as they are used, merge and are quarantined.
// Method: small stores, one behaviour a test; Verify at the end of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "store/catalog/catalog_test_util.h"
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
  harness_.Reopen();  // Who opens to write has no sessions: what nobody uses is forgotten.
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

TEST_F(CatalogTest, AQuarantinedSegmentTakesItsContextsOutOfService) {
  const ContextId base = harness_.MustPublish(Range(0, 100), {.name = "base"});
  const ContextId more = harness_.MustPublish(Range(0, 200), {.base = base, .num_shared = 100});
  const std::vector<ContextRecord> affected =
      harness_->segments()->Quarantine(2, "page 3: checksum").value();
  ASSERT_EQ(affected.size(), 1u);
  EXPECT_EQ(affected[0].id, more);
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

}  // namespace
}  // namespace attndb::store
