// Goal:   a catalog is created only where the caller wants one, and holds the same rows when it is
//         opened again.
// Method: small stores, one behaviour a test; Verify at the end of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

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
  EXPECT_EQ(harness_->contexts()->Tokens(id).value(), Range(0, 130));
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

}  // namespace
}  // namespace attndb::store
