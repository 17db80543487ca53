// Goal:   the store needs no session: who gives it a tail and tokens finds them again as a chain,
//         in the next process too, which finds no file that a crash left.
// Method: random segments in memory are the tails, and what must be read back.
#include "store/context_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "store/object_path.h"
#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

class ContextStoreTest : public StoreTest {};

TEST_F(ContextStoreTest, WhatIsStoredIsFoundAsAChain) {
  ContextId second = ContextId::kNone;
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored of_one, Store({1}, {.name = "a"}));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Stored of_both, Store({1, 2}));
    EXPECT_NE(of_one.context, of_both.context);
    ExpectKeys(of_both.chain, {1, 2});
    second = of_both.context;
  }
  Open({});
  const std::vector<TokenId> tokens = Tokens({1, 2, 3});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix found,
                              store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(found.context, second);
  EXPECT_EQ(found.chain.tokens, Tokens({1, 2}));
  ExpectKeys(found.chain.entries, {1, 2});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole,
                              store_->lookup()->OpenNamed("t", spec_, "a", 0));
  ExpectKeys(whole.chain.entries, {1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix of_others,
                              store_->lookup()->OpenPrefix("u", spec_, tokens, {}));
  EXPECT_EQ(of_others.context, ContextId::kNone);
}

TEST_F(ContextStoreTest, WhatACrashLeftIsRemovedWhenTheStoreIsOpened) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  const std::string orphan = dir_.File("store/" + ObjectPath({.segment_id = 255}));
  std::ofstream(orphan) << "left behind";
  Open({.read_only = true});
  EXPECT_TRUE(std::filesystem::exists(orphan));
  Open({});
  EXPECT_FALSE(std::filesystem::exists(orphan));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WholeContext whole,
                              store_->lookup()->OpenNamed("t", spec_, "a", 0));
  ExpectKeys(whole.chain.entries, {1});
}

}  // namespace
}  // namespace attndb::store
