// Goal:   segments stay as long as somebody reads them, and a context is opened as far as it is
//         asked for.
// Method: a store whose contexts are dropped while their chains are held.
#include "store/uses.h"

#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

class UsesTest : public StoreTest {};

TEST_F(UsesTest, FilesOfADroppedContextStayUntilNobodyReadsThem) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored stored, Store({1}, {.name = "a"}));
  std::vector<storage::ChainEntry> chain = std::move(stored.chain);
  stored = {};
  ATTNDB_ASSERT_OK(store_->publisher()->Drop("t", "a"));
  ExpectKeys(chain, {1});
  EXPECT_EQ(store_->Stats("t", true)->num_segments, 1u);
  chain.clear();
  store_->uses()->Sweep();
  EXPECT_EQ(store_->Stats("t", true)->num_segments, 0u);
}

TEST_F(UsesTest, AContextIsOpenedAsFarAsItIsAskedFor) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored stored, Store({1, 2}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto whole, store_->uses()->OpenContext(stored.context));
  ExpectKeys(whole, {1, 2});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto part, store_->uses()->OpenContext(stored.context, 7));
  ASSERT_EQ(part.size(), 1u);
  EXPECT_EQ(part[0].num_tokens_used, 7u);
  EXPECT_EQ(part[0].segment, whole[0].segment);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto again,
                              store_->uses()->OpenContext(stored.context, kTokens + 1, whole));
  ASSERT_EQ(again.size(), 2u);
  EXPECT_EQ(again[1].num_tokens_used, 1u);
  EXPECT_EQ(store_->uses()->OpenContext(ContextId{999}).status().code(), StatusCode::kNotFound);
}

TEST_F(UsesTest, AContextIsInUseUntilItsLastHoldIsGone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored stored, Store({1}));
  std::shared_ptr<const void> second = store_->uses()->Hold(stored.context);
  const std::vector<ContextId> used = {stored.context};
  EXPECT_EQ(store_->uses()->ContextsInUse(), used);
  stored.hold = nullptr;
  EXPECT_EQ(store_->uses()->ContextsInUse(), used);
  second = nullptr;
  EXPECT_TRUE(store_->uses()->ContextsInUse().empty());
  EXPECT_EQ(store_->uses()->Hold(ContextId::kNone), nullptr);
}

}  // namespace
}  // namespace attndb::store
