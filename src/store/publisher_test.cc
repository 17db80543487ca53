// Goal:   what is stored again has no new chain; what is held is not evicted; what can be refused
//         is refused before anything is written.
// Method: small stores with a quota.
#include "store/publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

class PublisherTest : public StoreTest {};

TEST_F(PublisherTest, WhatIsStoredAgainHasNoNewChain) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored first, Store({1}));
  const std::vector<TokenId> tokens = Tokens({1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(Prefix prefix, store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored again,
                              store_->publisher()->Store({.tenant = "t",
                                                          .spec = spec_,
                                                          .tokens = tokens,
                                                          .base = prefix.context,
                                                          .chain = std::move(prefix.chain.entries),
                                                          .num_stored = kTokens}));
  EXPECT_EQ(again.context, first.context);
  EXPECT_TRUE(again.chain.empty());
}

TEST_F(PublisherTest, WhatIsHeldIsNotEvicted) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Stored held, Store({1}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DBStats stats, store_->Stats("t"));
  ATTNDB_ASSERT_OK(store_->admin()->SetQuota("t", stats.file_bytes * 3 / 2));
  const Status refused = Store({2}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.message(), HasSubstr("neither pinned nor in use hold 0"));
  held = {};
  ATTNDB_ASSERT_OK(Store({2}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto contexts, store_->admin()->List("t"));
  ASSERT_EQ(contexts.size(), 1u);
  EXPECT_NE(contexts[0].id, held.context);
}

TEST_F(PublisherTest, ANameThatIsTakenIsRefusedBeforeAnythingIsWritten) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const uint64_t bytes = store_->Stats("t")->bytes_written;
  EXPECT_EQ(store_->publisher()->CheckStore("t", {.name = "a"}, 1).code(),
            StatusCode::kAlreadyExists);
  EXPECT_EQ(Store({2}, {.name = "a"}).status().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(store_->Stats("t")->bytes_written, bytes);
  ATTNDB_EXPECT_OK(store_->publisher()->CheckStore("t", {.name = "a", .replace = true}, 1));
  EXPECT_EQ(store_->Stats("t")->num_stores, 1u);
}

}  // namespace
}  // namespace attndb::store
