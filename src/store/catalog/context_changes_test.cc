// Goal:   chains are stored as given, and only what differs is written.
// Method: one context whose chain is changed in every way.
#include "store/catalog/context_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(ContextChanges, AChainIsWrittenFromWhereItDiffers) {
  CatalogHarness harness;
  const ContextId id = harness.MustPublish(Range(0, 10));
  harness.MustPublish(Range(0, 20), {.base = id, .num_shared = 10});
  harness.MustPublish(Range(50, 7));
  harness.Close();
  const auto database =
      SqliteDatabase::Open(harness.path(), SqliteDatabase::Mode::kReadWrite).value();
  const std::vector<ChainLink> chains[] = {
      {{1, 10}, {2, 10}}, {{1, 10}, {2, 5}, {3, 7}}, {{1, 10}}, {{3, 2}, {1, 10}}, {}, {{2, 1}},
  };
  for (const std::vector<ChainLink>& chain : chains) {
    ATTNDB_ASSERT_OK(StoreChain(database.get(), id, chain));
    EXPECT_EQ(LoadChain(database.get(), id).value(), chain);
  }
  ATTNDB_ASSERT_OK(StoreChain(database.get(), id, chains[0]));
  ATTNDB_ASSERT_OK(StoreChain(database.get(), id, chains[0]));
  EXPECT_EQ(database->num_changes(), 0);
}

TEST(ContextChanges, OnlyAGoodSegmentMayBeUsed) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 10));
  harness.MustPublish(Range(50, 10));
  ATTNDB_ASSERT_OK(harness->segments()->Quarantine(2, "granule 4"));
  const auto database =
      SqliteDatabase::Open(harness.path(), SqliteDatabase::Mode::kReadOnly).value();
  EXPECT_EQ(RequireGoodSegment(database.get(), 1)->num_tokens, 10u);
  EXPECT_THAT(RequireGoodSegment(database.get(), 2),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("quarantined: granule 4")));
  EXPECT_THAT(RequireGoodSegment(database.get(), 3),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("not in the store any more")));
}

}  // namespace
}  // namespace attndb::store
