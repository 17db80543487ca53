// Goal:   a search goes on past contexts that may not be used, to the exact best that may.
// Method: a fan of contexts of which more and more are shut out, compared with brute force. The
//         whole catalog's random histories are in catalog_property_test.cc.
// Replay: ATTNDB_SEED=17 ctest -R db_test
#include "store/catalog/prefix_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/random.h"
#include "store/catalog/catalog_rows.h"
#include "store/catalog/catalog_test_util.h"
#include "store/catalog/model_identity.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

uint64_t CommonLength(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
  return static_cast<uint64_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

class PrefixSearchTest : public ::testing::Test {
 protected:
  void Publish(const std::vector<TokenId>& tokens) {
    contexts_[harness_.MustPublish(tokens)] = tokens;
  }
  // After the last Publish.
  void Connect() {
    database_ = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly).value();
    tree_.secret = LoadTenantRow(database_.get(), harness_.tenant())->secret;
    tree_.model = EncodeModel(harness_.spec()).identity;
  }
  std::optional<PrefixMatch> Find(const std::vector<TokenId>& prompt,
                                  const std::set<ContextId>& shut_out) {
    return TryToFind(prompt, shut_out).value();
  }
  Result<std::optional<PrefixMatch>> TryToFind(const std::vector<TokenId>& prompt,
                                               const std::set<ContextId>& shut_out) {
    num_asked_ = 0;
    PrefixSearch search(
        database_.get(),
        [&](ContextId context) -> Result<bool> {
          ++num_asked_;
          return !shut_out.contains(context);
        },
        /*looks_below_cuts=*/true);
    return search.Find(tree_, prompt);
  }
  std::optional<PrefixMatch> FindAny(const std::vector<TokenId>& prompt) {
    PrefixSearch search(database_.get(), nullptr, /*looks_below_cuts=*/true);
    return search.Find(tree_, prompt).value();
  }
  uint64_t Expected(const std::vector<TokenId>& prompt, const std::set<ContextId>& shut_out) {
    uint64_t best = 0;
    for (const auto& [id, tokens] : contexts_) {
      if (!shut_out.contains(id)) best = std::max(best, CommonLength(tokens, prompt));
    }
    return best;
  }

  CatalogHarness harness_;
  std::map<ContextId, std::vector<TokenId>> contexts_;
  std::unique_ptr<SqliteDatabase> database_;
  TreeIdentity tree_;
  int num_asked_ = 0;
};

TEST_F(PrefixSearchTest, FindsTheNextBestAgainAndAgain) {
  Random random(test::SeedOr(1));
  for (int i = 0; i < 60; ++i) {
    std::vector<TokenId> tokens = Range(0, 300);
    const size_t fork = random.Uniform(300);
    tokens.resize(fork + 1 + random.Uniform(200), 7);
    tokens[fork] = static_cast<TokenId>(random.Uniform(400));
    Publish(tokens);
  }
  Connect();
  const std::vector<TokenId> prompt = Range(0, 300);
  std::set<ContextId> shut_out;
  for (size_t left = contexts_.size(); left > 0; --left) {
    const std::optional<PrefixMatch> match = Find(prompt, shut_out);
    ASSERT_TRUE(match.has_value());
    ASSERT_FALSE(shut_out.contains(match->context));
    EXPECT_EQ(match->num_tokens, CommonLength(contexts_[match->context], prompt));
    EXPECT_EQ(match->num_tokens, Expected(prompt, shut_out));
    shut_out.insert(match->context);
  }
  EXPECT_FALSE(Find(prompt, shut_out).has_value());
}

TEST_F(PrefixSearchTest, AsksOnceWhereTheBestMayBeUsed) {
  for (TokenId last = 0; last < 200; ++last) {
    std::vector<TokenId> tokens = Range(0, 150);
    tokens.push_back(1000 + last);
    Publish(tokens);
  }
  Connect();
  std::vector<TokenId> prompt = Range(0, 150);
  prompt.push_back(1100);
  EXPECT_EQ(Find(prompt, {})->num_tokens, 151u);
  EXPECT_EQ(num_asked_, 1);
}

// Each node is looked into once: no blow-up where all that is found is shut out.
TEST_F(PrefixSearchTest, ADeepTreeOfUnusableContextsCostsOneWalk) {
  std::set<ContextId> shut_out;
  for (size_t num_tokens = 64; num_tokens <= 64 * 60; num_tokens += 64) {
    Publish(Range(0, num_tokens));
  }
  for (const auto& [id, tokens] : contexts_) shut_out.insert(id);
  Connect();
  EXPECT_FALSE(Find(Range(0, 64 * 60), shut_out).has_value());
  EXPECT_LE(num_asked_, 2 * 61);
}

TEST_F(PrefixSearchTest, WithoutAFilterDamagedContextsCountToo) {
  Publish(Range(0, 200));
  ATTNDB_ASSERT_OK(harness_->segments()->Quarantine(1, "test"));
  Connect();
  EXPECT_FALSE(Find(Range(0, 200), {}).has_value());
  EXPECT_EQ(FindAny(Range(0, 150)), (PrefixMatch{static_cast<ContextId>(1), 150, {}}));
  // The context is two nodes further down.
  EXPECT_EQ(FindAny(Range(0, 64)), (PrefixMatch{static_cast<ContextId>(1), 64, {}}));
}

TEST_F(PrefixSearchTest, ANodeInWhichNoContextEndsIsPassedOver) {
  Publish(Range(0, 200));
  Connect();
  ATTNDB_ASSERT_OK(SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite)
                       .value()
                       ->Execute("INSERT INTO nodes(parent, key, tokens, num_uses) "
                                 "VALUES(1, zeroblob(32), x'00000063', 0)"));
  EXPECT_EQ(FindAny({0x63}), std::nullopt);
  EXPECT_EQ(FindAny(Range(0, 1)), (PrefixMatch{static_cast<ContextId>(1), 1, {}}));
}

TEST_F(PrefixSearchTest, OfContextsThatAgreeAsLongTheOneThatEndsThereIsFound) {
  Publish(Range(0, 130));
  const ContextId whole = harness_.MustPublish(Range(0, 100));
  Connect();
  EXPECT_EQ(Find(Range(0, 100), {}), (PrefixMatch{whole, 100, {}}));
}

// SQLite is interrupted once in a search, at each of its steps in turn.
TEST_F(PrefixSearchTest, ASearchThatIsCutShortIsAnErrorAndNeverAMiss) {
  const ContextId before = harness_.MustPublish({1, 2, 4});
  const ContextId after = harness_.MustPublish({1, 2, 5, 6});
  Connect();
  const struct {
    std::vector<TokenId> prompt;
    std::set<ContextId> shut_out;
    PrefixMatch expected;
  } searches[] = {{{1, 2, 5, 5}, {}, {after, 3, {}}},
                  {{1, 2, 4, 9}, {}, {before, 3, {}}},
                  {{1, 2, 5, 5}, {after}, {before, 2, {}}}};
  const auto interrupt = [](void* num_left) { return --*static_cast<int*>(num_left) == 0 ? 1 : 0; };
  for (const auto& [prompt, shut_out, expected] : searches) {
    ASSERT_EQ(Find(prompt, shut_out), expected);
    int num_left = 0;
    for (int num_steps = 1; num_left <= 0; ++num_steps) {
      num_left = num_steps;
      sqlite3_progress_handler(database_->handle(), /*nOps=*/1, interrupt, &num_left);
      const Result<std::optional<PrefixMatch>> match = TryToFind(prompt, shut_out);
      sqlite3_progress_handler(database_->handle(), 0, nullptr, nullptr);
      if (num_left <= 0) {
        ASSERT_THAT(match, FailsWith(StatusCode::kInternal, HasSubstr("interrupted"))) << num_steps;
      } else {
        EXPECT_GT(num_steps, 30);
        EXPECT_EQ(match.value(), expected);
      }
    }
  }
}

TEST_F(PrefixSearchTest, OfContextsWithTheSameTokensTheOneThatMayBeUsedIsFound) {
  for (const char* name : {"a", "b", "c"}) {
    contexts_[harness_.MustPublish(Range(0, 100), {.name = name})] = Range(0, 100);
  }
  ASSERT_EQ(contexts_.size(), 3u);
  Publish(Range(0, 130));
  Connect();
  for (const auto& [usable, tokens] : contexts_) {
    std::set<ContextId> shut_out;
    for (const auto& [id, others] : contexts_) shut_out.insert(id);
    shut_out.erase(usable);
    const std::optional<PrefixMatch> match = Find(Range(0, 100), shut_out);
    ASSERT_TRUE(match.has_value());
    EXPECT_EQ(match->context, usable);
    EXPECT_EQ(match->num_tokens, 100u);
  }
}

}  // namespace
}  // namespace attndb::store
