// Goal:   lookups reuse what may be reused, and explain what may not.
// Method: small stores, one behaviour a test; Verify at the end of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using std::chrono::seconds;

TEST_F(CatalogTest, ModelsAreKeptApartUnlessDeclaredEqual) {
  const ContextId id = harness_.MustPublish(Range(0, 100));
  const ModelSpec original = harness_.spec();
  harness_.set_spec(TestSpec("b"));
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "weights", "a"));
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "b", "a"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100}));  // Through "a".
  const ContextId more = harness_.MustPublish(Range(0, 120), {.base = id, .num_shared = 100});
  harness_.set_spec(original);
  EXPECT_EQ(harness_.Longest(Range(0, 130)), (PrefixMatch{more, 120}));
  ModelSpec other_layout = TestSpec("b");
  other_layout.layers[0].rope.base = 7;
  harness_.set_spec(other_layout);
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_EQ(harness_->owners()->DeclareEqual(tenant(), "", "a").code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_->owners()->DeclareEqual(tenant(), "a", std::string(257, 'x')).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(CatalogTest, WhatWasDeclaredEqualIsTakenBack) {
  const ContextId id = harness_.MustPublish(Range(0, 100));
  CatalogOwners* const owners = harness_->owners();
  for (const char* between : {"a", "c"}) {
    ATTNDB_ASSERT_OK(owners->DeclareEqual(tenant(), "weights", between));
    ATTNDB_ASSERT_OK(owners->DeclareEqual(tenant(), between, "b"));
  }
  harness_.set_spec(TestSpec("b"));
  ATTNDB_ASSERT_OK(owners->RevokeEqual(tenant(), "a", "weights"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100})) << "through c";
  const TenantId other = owners->EnsureTenant("other")->id;
  EXPECT_EQ(owners->RevokeEqual(other, "c", "b").code(), StatusCode::kNotFound);
  ATTNDB_ASSERT_OK(owners->RevokeEqual(tenant(), "c", "b"));
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_EQ(owners->RevokeEqual(tenant(), "c", "b").code(), StatusCode::kNotFound);
}

TEST_F(CatalogTest, WhatATenantDeclaresEqualIsEqualForThatTenantAlone) {
  const TenantId first = tenant();
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  const ContextId of_first = harness_.MustPublish(Range(0, 100));
  harness_.set_tenant(other);
  const ContextId of_other = harness_.MustPublish(Range(0, 100));
  harness_.set_spec(TestSpec("b"));
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(other, "weights", "b"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{of_other, 100}));
  harness_.set_tenant(first);
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_FALSE(*harness_->owners()->SameModel(first, Get(of_first).model, harness_.spec()));
  EXPECT_TRUE(*harness_->owners()->SameModel(other, Get(of_first).model, harness_.spec()));
}

// The rows of a store of a build before, whose declarations held for all tenants.
TEST_F(CatalogTest, WhatABuildBeforeDeclaredHoldsForAllAndGoesOnWithWhatATenantDeclares) {
  const ContextId id = harness_.MustPublish(Range(0, 100));
  harness_.Close();
  {
    const auto database = *SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
    ATTNDB_ASSERT_OK(database->Run("INSERT INTO equal_fingerprints VALUES(?1, ?2), (?2, ?1)",
                                   bytes("weights"), bytes("b")));
  }
  harness_.Reopen();
  harness_.set_spec(TestSpec("b"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100}));
  ASSERT_TRUE(harness_->owners()->EnsureModel(TestSpec("b")).ok());
  ATTNDB_ASSERT_OK(harness_->owners()->DeclareEqual(tenant(), "b", "c"));
  harness_.set_spec(TestSpec("c"));
  EXPECT_EQ(harness_.Longest(Range(0, 100)), (PrefixMatch{id, 100}));
}

TEST_F(CatalogTest, OfEquallyLongMatchesTheOldestIsTaken) {
  const ContextId a = harness_.MustPublish(Range(0, 100));
  const ContextId b = harness_.MustPublish(Range(0, 100));
  const ContextId c = harness_.MustPublish(Range(0, 150));
  EXPECT_EQ(harness_.Longest(Range(0, 100))->context, a);
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), a));
  EXPECT_EQ(harness_.Longest(Range(0, 100))->context, b);
  EXPECT_EQ(harness_.Longest(Range(0, 101))->context, c);
}

TEST_F(CatalogTest, ExplainNamesWhatWasMissed) {
  const ContextId best = harness_.MustPublish(Range(0, 17), {.name = "best"});
  harness_.MustPublish(Range(0, 50));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(2, "test"));
  const ContextId expired = harness_.MustPublish(Range(0, 60), {.ttl = seconds(0)});
  const ContextId moved = harness_.MustPublish(Range(0, 80), {.first_position = 5});
  harness_.set_spec(TestSpec("other"));
  const ContextId foreign = harness_.MustPublish(Range(0, 90));
  harness_.set_spec(TestSpec());
  std::vector<TokenId> prompt = Range(0, 100);
  ATTNDB_ASSERT_OK_AND_ASSIGN(PrefixReport report,
                              harness_->prefixes()->Explain(harness_.Query(prompt)));
  EXPECT_EQ(report.best, (PrefixMatch{best, 17}));
  EXPECT_EQ(report.next_token, std::nullopt);
  using Reason = PrefixNearMiss::Reason;
  ASSERT_EQ(report.near_misses.size(), 4u);
  EXPECT_EQ(report.near_misses[0].reason, Reason::kDamaged);
  EXPECT_EQ(report.near_misses[0].num_contexts, 1u);
  EXPECT_EQ(report.near_misses[0].best, PrefixMatch());  // The expired one agrees longer.
  EXPECT_EQ(report.near_misses[1].reason, Reason::kExpired);
  EXPECT_EQ(report.near_misses[1].best, (PrefixMatch{expired, 60}));
  EXPECT_EQ(report.near_misses[2].reason, Reason::kOtherModel);
  EXPECT_EQ(report.near_misses[2].best, (PrefixMatch{foreign, 90}));
  EXPECT_EQ(report.near_misses[3].reason, Reason::kOtherPosition);
  EXPECT_EQ(report.near_misses[3].best, (PrefixMatch{moved, 80}));
  prompt[10] = 99;
  ATTNDB_ASSERT_OK_AND_ASSIGN(report, harness_->prefixes()->Explain(harness_.Query(prompt)));
  EXPECT_EQ(report.best, (PrefixMatch{best, 10}));
  EXPECT_EQ(report.next_token, 10);
}

}  // namespace
}  // namespace attndb::store
