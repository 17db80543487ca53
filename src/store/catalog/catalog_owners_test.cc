// Goal:   tenants keep their quotas, models are given back as they are stored, and nobody has a
//         tenant that was never ensured.
// Method: one catalog, opened again where that matters.
#include <gtest/gtest.h>

#include <limits>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

TEST_F(CatalogTest, AnUnknownTenantHasNoIdUntilItIsEnsured) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tenant unknown, harness_->owners()->FindTenant("other"));
  EXPECT_EQ(unknown.id, TenantId::kNone);
  EXPECT_EQ(harness_->contexts()->Find("other", "a").status().code(), StatusCode::kNotFound);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Tenant ensured, harness_->owners()->EnsureTenant("other"));
  EXPECT_NE(ensured.id, TenantId::kNone);
  EXPECT_NE(ensured.id, tenant());
  EXPECT_EQ(harness_->owners()->EnsureTenant("other")->id, ensured.id);
  EXPECT_EQ(harness_->owners()->GetTenant(ensured.id)->name, "other");
}

TEST_F(CatalogTest, QuotasAreKept) {
  ATTNDB_EXPECT_OK(harness_->owners()->SetQuota(tenant(), 12345));
  EXPECT_EQ(harness_->owners()->SetQuota(tenant(), std::numeric_limits<uint64_t>::max()).code(),
            StatusCode::kInvalidArgument);
  harness_.Reopen();
  EXPECT_EQ(harness_->owners()->FindTenant("default")->quota_bytes, 12345u);
}

TEST_F(CatalogTest, AModelIsGivenBackInCanonicalForm) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ModelSpec spec, harness_->owners()->GetModel(harness_.model()));
  EXPECT_EQ(spec.fingerprint, "weights");
  EXPECT_EQ(spec.layers[0].rope.rope_dims, 16u);
  EXPECT_EQ(harness_->owners()->FindModel(spec).value(), harness_.model());
  EXPECT_EQ(harness_->owners()->FindModel(TestSpec("never seen")).value(), std::nullopt);
  ModelSpec bad = spec;
  bad.fingerprint.clear();
  EXPECT_EQ(harness_->owners()->EnsureModel(bad).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::store
