// Goal:   a catalog is opened, made, and keeps tenants, models and access times.
// Method: small stores, one behaviour a test; Verify at the end of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using std::chrono::seconds;
using ::testing::HasSubstr;

TEST_F(CatalogTest, WhatIsPublishedIsThereAfterReopening) {
  const StoreUuid uuid = harness_->store_uuid();
  const ContextId id = harness_.MustPublish(Range(0, 130), {.name = "doc", .ttl = seconds(9)});
  const std::string before = CatalogHarness::Dump(*harness_, TestSpec()).value();
  harness_.Reopen();
  EXPECT_EQ(harness_->store_uuid(), uuid);
  EXPECT_EQ(CatalogHarness::Dump(*harness_, TestSpec()).value(), before);
  const ContextRecord record = Get(id);
  EXPECT_EQ(record.name, "doc");
  EXPECT_EQ(record.num_tokens, 130u);
  EXPECT_EQ(record.ttl_seconds, 9);
  EXPECT_EQ(record.created_us, harness_.now_us);
  EXPECT_EQ(harness_->Tokens(id).value(), Range(0, 130));
}

TEST_F(CatalogTest, ANewCatalogIsMadeOnlyWhenAsked) {
  CatalogOptions options;
  options.path = harness_.dir() + "/other.db";
  EXPECT_THAT(Catalog::Open(options), FailsWith(StatusCode::kNotFound, HasSubstr("other.db")));
  options.create_if_missing = true;
  options.read_only = true;
  EXPECT_THAT(Catalog::Open(options), FailsWith(StatusCode::kNotFound, HasSubstr("other.db")));
  EXPECT_FALSE(std::filesystem::exists(options.path));
  options.read_only = false;
  ATTNDB_EXPECT_OK(Catalog::Open(options));
}

TEST_F(CatalogTest, AccessTimesSurviveAClose) {
  const ContextId id = harness_.MustPublish(Range(0, 10));
  harness_.now_us += 5;
  harness_->Touch(id);
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
  harness_.Reopen();
  EXPECT_EQ(Get(id).last_access_us, harness_.now_us);
}

TEST_F(CatalogTest, QuotasAreKept) {
  ATTNDB_EXPECT_OK(harness_->SetQuota(tenant(), 12345));
  EXPECT_EQ(harness_->SetQuota(tenant(), std::numeric_limits<uint64_t>::max()).code(),
            StatusCode::kInvalidArgument);
  harness_.Reopen();
  EXPECT_EQ(harness_->FindTenant("default").value()->quota_bytes, 12345u);
}

TEST_F(CatalogTest, AModelIsGivenBackInCanonicalForm) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ModelSpec spec, harness_->GetModel(harness_.model()));
  EXPECT_EQ(spec.fingerprint, "weights");
  EXPECT_EQ(spec.layers[0].rope.rope_dims, 16u);
  EXPECT_EQ(harness_->FindModel(spec).value(), harness_.model());
  EXPECT_EQ(harness_->FindModel(TestSpec("never seen")).value(), std::nullopt);
  ModelSpec bad = spec;
  bad.fingerprint.clear();
  EXPECT_EQ(harness_->EnsureModel(bad).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::store
