// Goal:   tenants keep their quotas, models come back as they were stored, and no call finds a
//         tenant that was never ensured.
// Method: one catalog, opened again where that matters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

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

TEST_F(CatalogTest, AQuotaIsLessThanTwoToThe63) {
  constexpr uint64_t kTooMuch = uint64_t{1} << 63;
  ATTNDB_EXPECT_OK(harness_->owners()->SetQuota(tenant(), kTooMuch - 1));
  EXPECT_EQ(harness_->owners()->GetTenant(tenant())->quota_bytes, kTooMuch - 1);
  EXPECT_THAT(harness_->owners()->SetQuota(tenant(), kTooMuch),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("quota of 9223372036854775808 bytes: expected less than 2^63")));
  EXPECT_EQ(harness_->owners()->GetTenant(tenant())->quota_bytes, kTooMuch - 1);
}

// They are drawn: two words of 8 bytes are alike once in ages.
TEST_F(CatalogTest, TheSecretsOfTenantsHaveNothingInCommon) {
  for (int i = 0; i < 8; ++i) {
    ATTNDB_ASSERT_OK(harness_->owners()->EnsureTenant("tenant" + std::to_string(i)));
  }
  const auto database =
      SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly).value();
  Query query = database->Select("SELECT secret FROM tenants");
  std::set<uint64_t> words;
  size_t num_words = 0;
  while (query.Step().value()) {
    const std::span<const std::byte> secret = query.Blob(0);
    ASSERT_EQ(secret.size(), 32u);
    for (size_t i = 0; i < secret.size(); i += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, &secret[i], sizeof(word));
      words.insert(word);
      ++num_words;
    }
  }
  EXPECT_EQ(num_words, 9u * 4);
  EXPECT_EQ(words.size(), num_words);
}

TEST_F(CatalogTest, AFingerprintThatIsDeclaredEqualHas1To256Bytes) {
  CatalogOwners* const owners = harness_->owners();
  for (const size_t num_bytes : {size_t{1}, size_t{256}}) {
    ATTNDB_EXPECT_OK(owners->DeclareEqual(tenant(), std::string(num_bytes, 'x'), "a"));
    ATTNDB_EXPECT_OK(owners->DeclareEqual(tenant(), "a", std::string(num_bytes, 'y')));
  }
  for (const size_t num_bytes : {size_t{0}, size_t{257}}) {
    const auto is_refused =
        FailsWith(StatusCode::kInvalidArgument,
                  "fingerprint of " + std::to_string(num_bytes) + " bytes: expected 1 to 256");
    EXPECT_THAT(owners->DeclareEqual(tenant(), std::string(num_bytes, 'x'), "a"), is_refused);
    EXPECT_THAT(owners->DeclareEqual(tenant(), "a", std::string(num_bytes, 'y')), is_refused);
  }
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
