// Goal:   what Stores leave at the end of a chain becomes one segment, with the same rows, in the
//         background or before the Store returns; who holds the run finds what took its place.
// Method: a context that grows by small tails.
#include "store/merger.h"

#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

class MergerTest : public StoreTest {};

TEST_F(MergerTest, WhoHoldsTheRunFindsWhatTookItsPlace) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}, {.name = "a", .replace = true}));
  ATTNDB_ASSERT_OK(store_->background()->Wait(nullptr));
  ExpectKeys(stored.chain, {1, 2});
  ASSERT_EQ(stored.chain.size(), 2u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto merged, store_->uses()->OpenContext(stored.context));
  ASSERT_EQ(merged.size(), 1u);
  ExpectKeys(merged, {1, 2});
  EXPECT_EQ(store_->merged_runs().num_added(), 1u);
  const auto renewed = store_->merged_runs().Renew(stored.chain);
  ASSERT_TRUE(renewed.has_value());
  ASSERT_EQ(renewed->size(), 1u);
  EXPECT_EQ((*renewed)[0].segment, merged[0].segment);
  EXPECT_EQ(store_->Stats("t", true)->bytes_merged,
            store_->admin()->Describe("t", "a")->file_bytes -
                store_->admin()->Describe("t", "a")->companion_bytes);
}

TEST_F(MergerTest, WithoutABackgroundAStoreMergesBeforeItReturns) {
  Open({.background_builds = false});
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}, {.name = "a", .replace = true}));
  EXPECT_EQ(stored.chain.size(), 1u);
  ExpectKeys(stored.chain, {1, 2});
}

TEST_F(MergerTest, CompactMergesWhatContextsShare) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2, 3}, {.name = "c"}).status());
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
  ATTNDB_ASSERT_OK(store_->merger()->Compact("t", {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext b,
                              store_->lookup()->OpenNamed("t", spec_, "b", 0));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext c,
                              store_->lookup()->OpenNamed("t", spec_, "c", 0));
  ExpectKeys(b.chain.entries, {1, 2});
  ExpectKeys(c.chain.entries, {1, 2, 3});
  ASSERT_EQ(b.chain.entries.size(), 1u);
  EXPECT_EQ(c.chain.entries.front().segment, b.chain.entries.front().segment);
}

}  // namespace
}  // namespace attndb::store
