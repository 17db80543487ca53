// Goal:   a prompt, or a name, finds what is stored and fits its model and position; a search looks
//         through shared segments once.
// Method: small stores of random segments, looked up by prompts that share some of their tokens.
#include "store/lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/store_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::testing::HasSubstr;

class LookupTest : public StoreTest {};

TEST_F(LookupTest, SharedSegmentsAreSearchedOnce) {
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  ATTNDB_ASSERT_OK(Store({1, 2}, {.name = "b"}).status());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet set, store_->lookup()->OpenForSearch("t", spec_, {}));
  ASSERT_EQ(set.contexts.size(), 2u);
  uint64_t num_tokens = 0, num_uses = 0;
  for (const SearchSet::Run& run : set.runs) {
    num_tokens += run.num_tokens;
    num_uses += run.uses.size();
  }
  EXPECT_EQ(num_tokens, 2 * kTokens);
  EXPECT_EQ(num_uses, set.runs.size() + 1);
  ModelSpec other = spec_;
  other.fingerprint = "another";
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet none,
                              store_->lookup()->OpenForSearch("t", other, {}));
  ASSERT_EQ(none.skipped.size(), 2u);
  EXPECT_EQ(none.skipped[0].reason, "of another model");
}

TEST_F(LookupTest, ANamedContextFitsItsModelAndItsPosition) {
  using test::FailsWith;
  ATTNDB_ASSERT_OK(Store({1}, {.name = "a"}).status());
  EXPECT_THAT(store_->lookup()->OpenNamed("t", spec_, "a", 7),
              FailsWith(StatusCode::kFailedPrecondition, HasSubstr("begins at position 0")));
  ModelSpec other = spec_;
  other.fingerprint = "another";
  EXPECT_THAT(store_->lookup()->OpenNamed("t", other, "a", 0),
              FailsWith(StatusCode::kOtherModel, HasSubstr("of another model")));
  EXPECT_THAT(store_->lookup()->OpenNamed("t", spec_, "b", 0),
              FailsWith(StatusCode::kNotFound, HasSubstr("b")));
}

TEST_F(LookupTest, APromptIsReusedAsFarAsItAgrees) {
  ATTNDB_ASSERT_OK(Store({1}).status());
  std::vector<TokenId> tokens = Tokens({1, 2});
  tokens[kTokens - 3] += 1;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Prefix found,
                              store_->lookup()->OpenPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(found.chain.tokens.size(), kTokens - 3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefixExplain explain,
                              store_->lookup()->ExplainPrefix("t", spec_, tokens, {}));
  EXPECT_EQ(explain.num_reused, kTokens - 3);
}

TEST_F(LookupTest, OfNamedContextsEachIsSearchedOnceAndTheOldestFirst) {
  for (const uint64_t tail : {1u, 2u, 3u}) {
    ATTNDB_ASSERT_OK(Store({tail}, {.name = std::to_string(tail)}).status());
  }
  const std::string names[] = {"3", "1", "3"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SearchSet set,
                              store_->lookup()->OpenForSearch("t", spec_, names));
  ASSERT_EQ(set.contexts.size(), 2u);
  EXPECT_EQ(set.contexts[0].name, "1");
  EXPECT_EQ(set.contexts[1].name, "3");
  const std::string unknown[] = {"1", "4"};
  EXPECT_EQ(store_->lookup()->OpenForSearch("t", spec_, unknown).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace attndb::store
