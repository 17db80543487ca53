// Goal:   contexts are found only by their tenant. They are described, kept and dropped as asked.
// Method: small stores, one behaviour a test; Verify at the end of each. Rows that SQL has changed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(CatalogTest, AContextIsFoundByNameAndById) {
  const ContextId id = harness_.MustPublish(Range(0, 3), {.name = "doc"});
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "doc")->id, id);
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "#1")->id, id);
  EXPECT_EQ(Get(id).Label(), "doc");
  EXPECT_EQ(Get(harness_.MustPublish({1})).Label(), "#2");
}

TEST_F(CatalogTest, WhatCanBeNoNameIsNotLookedFor) {
  for (const char* const name : {"a b", "#0", "#1x", "*"}) {
    EXPECT_THAT(harness_->contexts()->Find(tenant(), name),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("context name")))
        << name;
  }
}

TEST_F(CatalogTest, AnotherTenantsContextLooksLikeNone) {
  const ContextId id = harness_.MustPublish(Range(0, 100), {.name = "doc"});
  const TenantId mine = tenant();
  const TenantId other = harness_->owners()->EnsureTenant("other")->id;
  EXPECT_EQ(harness_->contexts()->Find(other, "doc").status(),
            Status::NotFound("no context \"doc\""));
  EXPECT_EQ(harness_->contexts()->Find(mine, "dog").status(),
            Status::NotFound("no context \"dog\""));
  EXPECT_EQ(harness_->contexts()->Find(other, "#1").status(), Status::NotFound("no context #1"));
  EXPECT_EQ(harness_->contexts()->Find(mine, "#9").status(), Status::NotFound("no context #9"));
  EXPECT_EQ(harness_->contexts()->Drop(other, id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(harness_->contexts()->Pin(other, id, true).code(), StatusCode::kNotFound);
  EXPECT_EQ(harness_->contexts()->SetTtl(other, id, seconds(1)).code(), StatusCode::kNotFound);
  EXPECT_EQ(harness_->contexts()->Describe(other, id).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(harness_->contexts()->List(other).value(), IsEmpty());
  harness_.set_tenant(other);
  EXPECT_FALSE(harness_.Longest(Range(0, 100)).has_value());
  EXPECT_EQ(harness_->Stats(other)->file_bytes, 0u);
  harness_.MustPublish(Range(0, 50), {.name = "doc"});  // The same name is free here.
  EXPECT_EQ(harness_.Longest(Range(0, 100))->num_tokens, 50u);
}

TEST_F(CatalogTest, AContextGetsAnotherNameAndKeepsItsId) {
  const ContextId id = harness_.MustPublish(Range(0, 100), {.name = "doc"});
  const ContextId other = harness_.MustPublish(Range(500, 100), {.name = "other"});
  ATTNDB_ASSERT_OK(harness_->contexts()->Rename(tenant(), id, "яблоко"));
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "яблоко")->id, id);
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "doc").status().code(), StatusCode::kNotFound);
  ATTNDB_EXPECT_OK(harness_->contexts()->Rename(tenant(), id, "яблоко"));
  EXPECT_EQ(harness_->contexts()->Rename(tenant(), id, "other").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(harness_->contexts()->Rename(tenant(), id, "#9").code(), StatusCode::kInvalidArgument);
  ATTNDB_EXPECT_OK(harness_->contexts()->Rename(tenant(), other, "doc"));
  const TenantId stranger = harness_->owners()->EnsureTenant("other")->id;
  EXPECT_EQ(harness_->contexts()->Rename(stranger, id, "mine").code(), StatusCode::kNotFound);
  harness_.Reopen();
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "яблоко")->id, id);
}

TEST_F(CatalogTest, DescribeTellsWhatIsShared) {
  const ContextId first = harness_.MustPublish(Range(0, 100), {.name = "first"});
  const ContextId second = harness_.MustPublish(Range(0, 150), {.base = first, .num_shared = 60});
  const uint64_t token_bytes = TestSpec().KvBytesPerToken();
  ContextDetail detail = harness_->contexts()->Describe(tenant(), second).value();
  EXPECT_EQ(detail.context.id, second);
  EXPECT_EQ(detail.context.num_tokens, 150u);
  ASSERT_EQ(detail.chain.size(), 2u);
  EXPECT_EQ(detail.chain[0].num_tokens_used, 60u);
  EXPECT_EQ(detail.chain[0].num_contexts, 2u);
  EXPECT_EQ(detail.chain[1].num_tokens_used, 90u);
  EXPECT_EQ(detail.own_bytes, 90 * token_bytes + 4096);
  EXPECT_EQ(detail.file_bytes, 190 * token_bytes + 2 * 4096);
  EXPECT_EQ(detail.query_bytes, 200u);
  EXPECT_EQ(detail.retained_bytes, 0u);
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), first));
  detail = harness_->contexts()->Describe(tenant(), second).value();
  EXPECT_EQ(detail.retained_bytes, 40 * token_bytes);
  EXPECT_EQ(detail.own_bytes, detail.file_bytes);
}

TEST_F(CatalogTest, TtlCountsFromTheLastAccess) {
  const ContextId id = harness_.MustPublish(Range(0, 10), {.name = "a", .ttl = seconds(10)});
  const ContextId pinned = harness_.MustPublish(Range(0, 5), {.ttl = seconds(1), .pin = true});
  harness_.now_us += 9'000'000;
  harness_->contexts()->Touch(id);
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
  EXPECT_EQ(harness_->contexts()->Find(tenant(), "a")->last_access_us, harness_.now_us);
  EXPECT_EQ(harness_->contexts()->List(tenant())->front().last_access_us, harness_.now_us);
  harness_.now_us += 9'999'999;
  EXPECT_FALSE(harness_->contexts()->AnyExpired().value());
  EXPECT_EQ(harness_.Longest(Range(0, 10))->num_tokens, 10u);
  harness_.now_us += 1;
  EXPECT_TRUE(harness_->contexts()->AnyExpired().value());
  EXPECT_EQ(harness_.Longest(Range(0, 10)), (PrefixMatch{pinned, 5}));
  EXPECT_THAT(harness_->contexts()->Expire(std::vector{id})->dropped,
              IsEmpty());  // A session uses it.
  const DropOutcome outcome = harness_->contexts()->Expire({}).value();
  ASSERT_EQ(outcome.dropped.size(), 1u);
  EXPECT_EQ(outcome.dropped[0].id, id);
  EXPECT_THAT(outcome.unreferenced, ElementsAre(1));
}

TEST_F(CatalogTest, TtlHasLimits) {
  const ContextId id = harness_.MustPublish(Range(0, 10));
  EXPECT_EQ(harness_->contexts()->SetTtl(tenant(), id, seconds(-1)).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_->contexts()->SetTtl(tenant(), id, seconds::max()).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(harness_.Publish(Range(0, 20), {.ttl = seconds(-1)}).status().code(),
            StatusCode::kInvalidArgument);
  ATTNDB_EXPECT_OK(harness_->contexts()->SetTtl(tenant(), id, seconds(5)));
  EXPECT_EQ(Get(id).ttl_seconds, 5);
  ATTNDB_EXPECT_OK(harness_->contexts()->SetTtl(tenant(), id, std::nullopt));
  EXPECT_EQ(Get(id).ttl_seconds, std::nullopt);
}

TEST_F(CatalogTest, ADropTellsWhatItDroppedAndWhatNobodyUsesThen) {
  const ContextId first = harness_.MustPublish(Range(0, 10), {.name = "first"});
  const ContextId second =
      harness_.MustPublish(Range(0, 30), {.name = "second", .base = first, .num_shared = 10});
  DropOutcome outcome = harness_->contexts()->Drop(tenant(), second).value();
  ASSERT_EQ(outcome.dropped.size(), 1u);
  EXPECT_EQ(outcome.dropped[0].id, second);
  EXPECT_EQ(outcome.dropped[0].name, "second");
  EXPECT_EQ(outcome.dropped[0].num_tokens, 30u);
  EXPECT_THAT(outcome.unreferenced, ElementsAre(2));
  outcome = harness_->contexts()->Drop(tenant(), first).value();
  EXPECT_EQ(outcome.dropped.at(0).id, first);
  EXPECT_THAT(outcome.unreferenced, ElementsAre(1));
}

TEST(CatalogContextRows, AContextWhoseChainContradictsItsSegmentsIsNotDroppedByHalves) {
  CatalogHarness harness;
  const ContextId id = harness.MustPublish(Range(0, 10), {.name = "a", .ttl = seconds(0)});
  harness.Close();
  ChangeRows(harness.path(), "UPDATE chain SET num_tokens_used = 11");
  harness.Reopen();
  const auto is_corrupt =
      FailsWith(StatusCode::kCorruption, HasSubstr("uses 11 tokens of segment 1, which has 10"));
  EXPECT_THAT(harness->contexts()->Drop(harness.tenant(), id), is_corrupt);
  EXPECT_THAT(harness->contexts()->Expire({}), is_corrupt);
  EXPECT_THAT(harness.Publish(Range(50, 10), {.name = "a", .replace = true}), is_corrupt);
  EXPECT_EQ(harness->contexts()->Find(harness.tenant(), "a")->id, id);
  EXPECT_EQ(harness->contexts()->List(harness.tenant())->size(), 1u);
}

}  // namespace
}  // namespace attndb::store
