// Goal:   contexts are evicted least recently used first, as few as free the bytes. Eviction frees
//         as much as dropping these contexts would.
// Method: small stores, one behaviour a test; rows that SQL has changed; random histories, where
//         contexts share segments and accesses are noted, written and tied, against a walk over all
//         contexts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>

#include "common/random.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr uint64_t kAll = UINT64_MAX;

class CatalogEviction : public CatalogTest {
 protected:
  Evictions Choose(uint64_t missing_bytes, std::vector<ContextId> in_use = {},
                   bool with_companions = false) {
    std::ranges::sort(in_use);
    return harness_->contexts()
        ->ChooseEvictions({tenant(), in_use, missing_bytes, with_companions})
        .value();
  }
  static uint64_t FileBytes(uint64_t num_tokens) {
    return num_tokens * TestSpec().KvBytesPerToken() + 4096;
  }
  void CheckAgainstAWalk(Random* random);
};

TEST_F(CatalogEviction, BeginsWithWhatWasUsedLongestAgo) {
  const ContextId a = harness_.MustPublish(Range(0, 10));
  const ContextId b = harness_.MustPublish(Range(0, 20), {.base = a, .num_shared = 10});
  const ContextId pinned = harness_.MustPublish(Range(50, 10));
  const ContextId used = harness_.MustPublish(Range(60, 10));
  ATTNDB_ASSERT_OK(harness_->contexts()->Pin(tenant(), pinned, true));
  harness_.now_us += 1;
  harness_->contexts()->Touch(a);
  Evictions chosen = Choose(kAll, {used});
  EXPECT_THAT(chosen.contexts, ElementsAre(b, a));
  EXPECT_EQ(chosen.freed_bytes, 2 * FileBytes(10));
  // The access is in the row now.
  ATTNDB_ASSERT_OK(harness_->FlushTouches());
  EXPECT_THAT(Choose(kAll, {used}).contexts, ElementsAre(b, a));
  chosen = Choose(1, {used});
  EXPECT_THAT(chosen.contexts, ElementsAre(b));
  EXPECT_EQ(chosen.freed_bytes, FileBytes(10));
  EXPECT_THAT(Choose(0).contexts, IsEmpty());
}

TEST_F(CatalogEviction, ASegmentIsGivenBackByTheLastThatHasIt) {
  const ContextId a = harness_.MustPublish(Range(0, 100));
  const ContextId b = harness_.MustPublish(Range(0, 110), {.base = a, .num_shared = 100});
  const ContextId c = harness_.MustPublish(Range(0, 120), {.base = a, .num_shared = 100});
  Evictions chosen = Choose(FileBytes(10) + 1);
  EXPECT_THAT(chosen.contexts, ElementsAre(a, b, c));  // a and b give back the smaller one alone.
  EXPECT_EQ(chosen.freed_bytes, FileBytes(10) + FileBytes(20) + FileBytes(100));
  chosen = Choose(kAll, {c});
  EXPECT_THAT(chosen.contexts, ElementsAre(a, b));
  EXPECT_EQ(chosen.freed_bytes, FileBytes(10));
}

TEST_F(CatalogEviction, AContextInUseIsNotAmongTheVictims) {
  std::vector<ContextId> contexts;
  for (TokenId i = 0; i < 5; ++i) contexts.push_back(harness_.MustPublish(Range(100 * i, 10)));
  for (const ContextId used : contexts) {
    std::vector<ContextId> others = contexts;
    std::erase(others, used);
    EXPECT_EQ(Choose(kAll, {used}).contexts, others);
    EXPECT_THAT(Choose(kAll, others).contexts, ElementsAre(used));
  }
  EXPECT_THAT(Choose(1, {contexts[0]}).contexts, ElementsAre(contexts[1]));
  const Evictions none = Choose(1, contexts);
  EXPECT_THAT(none.contexts, IsEmpty());
  EXPECT_EQ(none.freed_bytes, 0u);
}

TEST_F(CatalogEviction, ASegmentThatIsKeptIsGivenBackByNone) {
  const ContextId a = harness_.MustPublish(Range(0, 100));
  const ContextId b = harness_.MustPublish(Range(0, 110), {.base = a, .num_shared = 100});
  const std::vector<SegmentId> kept = {1};
  EvictionRequest request = {.tenant = tenant(), .missing_bytes = kAll, .kept = kept};
  Evictions chosen = harness_->contexts()->ChooseEvictions(request).value();
  EXPECT_THAT(chosen.contexts, ElementsAre(a, b));
  EXPECT_EQ(chosen.freed_bytes, FileBytes(10));
  request.kept = {};
  chosen = harness_->contexts()->ChooseEvictions(request).value();
  EXPECT_EQ(chosen.freed_bytes, FileBytes(10) + FileBytes(100));
}

// Between the choice and the commit that evicts, others pin, drop and open contexts.
TEST_F(CatalogEviction, WhatIsPinnedOrGoneOnceItWasChosenIsPassedOver) {
  const ContextId pinned = harness_.MustPublish(Range(0, 10));
  const ContextId gone = harness_.MustPublish(Range(20, 10));
  const ContextId chosen = harness_.MustPublish(Range(40, 10));
  const std::vector<ContextId> victims = Choose(kAll).contexts;
  ASSERT_THAT(victims, ElementsAre(pinned, gone, chosen));
  ATTNDB_ASSERT_OK(harness_->contexts()->Pin(tenant(), pinned, true));
  ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), gone));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PublishOutcome outcome,
                              harness_.Publish(Range(60, 10), {.evict = victims}));
  EXPECT_EQ(outcome.evicted.size(), 1u);
  EXPECT_EQ(Get(pinned).id, pinned);
  EXPECT_EQ(harness_->contexts()->Get(tenant(), chosen).status().code(), StatusCode::kNotFound);
}

TEST_F(CatalogEviction, CompanionsCountWhereTheyAreToCount) {
  harness_.MustPublish(Range(0, 10));
  CompanionRecord companion;
  companion.kind = "planes";
  companion.generation = harness_->companions()->ReserveGeneration().value();
  companion.file_bytes = 77;
  ATTNDB_ASSERT_OK(harness_->companions()->Publish(1, companion));
  EXPECT_EQ(Choose(kAll).freed_bytes, FileBytes(10));
  EXPECT_EQ(Choose(kAll, {}, /*with_companions=*/true).freed_bytes, FileBytes(10) + 77);
}

TEST(CatalogEvictionRows, ASegmentWithoutContextsOrSizeIsCorrupt) {
  CatalogHarness harness;
  const ContextId id = harness.MustPublish(Range(0, 10));
  const struct {
    const char* sql;
    std::optional<uint64_t> freed_bytes;  // None: it is corrupt.
  } cases[] = {
      {"UPDATE segments SET file_bytes = 0", 0},
      {"UPDATE segments SET file_bytes = -1", std::nullopt},
      {"UPDATE segments SET file_bytes = 1", 1},
      {"UPDATE segment_uses SET num_contexts = 0", std::nullopt},
      {"DELETE FROM segment_uses", std::nullopt},
  };
  for (const auto& [sql, freed_bytes] : cases) {
    SCOPED_TRACE(sql);
    harness.Close();
    ChangeRows(harness.path(), sql);
    harness.Reopen();
    const Result<Evictions> chosen =
        harness->contexts()->ChooseEvictions({.tenant = harness.tenant(), .missing_bytes = kAll});
    if (freed_bytes) {
      EXPECT_THAT(chosen->contexts, ElementsAre(id));
      EXPECT_EQ(chosen->freed_bytes, *freed_bytes);
    } else {
      EXPECT_THAT(chosen,
                  FailsWith(StatusCode::kCorruption,
                            HasSubstr("segment 1: in a chain, but with no contexts or size")));
    }
  }
}

TEST(CatalogEvictionRows, ADamagedPageIsNoEndOfTheContexts) {
  CatalogHarness harness;
  harness.MustPublish(Range(0, 10));
  harness.Close();
  DamageRootPageOf(harness.path(), "contexts_by_access");
  harness.Reopen();
  EXPECT_THAT(
      harness->contexts()->ChooseEvictions({.tenant = harness.tenant(), .missing_bytes = kAll}),
      FailsWith(StatusCode::kCorruption, HasSubstr("is damaged")));
}

// By a walk over all contexts and their segments.
void CatalogEviction::CheckAgainstAWalk(Random* random) {
  std::vector<ContextRecord> contexts = harness_->contexts()->List(tenant()).value();
  std::vector<ContextId> in_use;
  for (const ContextRecord& context : contexts) {
    if (random->OneIn(5)) in_use.push_back(context.id);
  }
  std::map<SegmentId, uint32_t> num_users;
  for (const ContextRecord& context : contexts) {
    for (const ChainLink& link : harness_->contexts()->Chain(context.id).value())
      ++num_users[link.segment];
  }
  std::erase_if(contexts, [&](const ContextRecord& c) {
    return c.pinned || std::ranges::count(in_use, c.id) > 0;
  });
  std::ranges::stable_sort(contexts, std::less(), &ContextRecord::last_access_us);
  const uint64_t missing_bytes = random->OneIn(4) ? kAll : random->Uniform(100'000);
  Evictions expected;
  for (const ContextRecord& context : contexts) {
    if (expected.freed_bytes >= missing_bytes) break;
    expected.contexts.push_back(context.id);
    for (const ChainLink& link : harness_->contexts()->Chain(context.id).value()) {
      if (--num_users[link.segment] > 0) continue;
      expected.freed_bytes += harness_->segments()->Get(link.segment)->file_bytes;
    }
  }
  const Evictions found = Choose(missing_bytes, in_use);
  EXPECT_EQ(found.contexts, expected.contexts);
  EXPECT_EQ(found.freed_bytes, expected.freed_bytes);
}

TEST_F(CatalogEviction, IsThatOfAWalkOverAllContexts) {
  Random random(test::SeedOr(1));
  std::vector<ContextId> contexts;
  for (TokenId step = 0; step < 150; ++step) {
    SCOPED_TRACE(step);
    harness_.now_us += static_cast<int64_t>(random.Uniform(3));  // Ties are usual.
    if (contexts.size() < 5 || random.OneIn(2)) {
      Published options = {.pin = random.OneIn(6)};
      std::vector<TokenId> tokens;
      if (!contexts.empty() && !random.OneIn(4)) {
        options.base = contexts[random.Uniform(contexts.size())];
        tokens = harness_->contexts()->Tokens(options.base).value();
        options.num_shared = 1 + random.Uniform(tokens.size());
        tokens.resize(options.num_shared);
      }
      const std::vector<TokenId> more = Range(1000 * step, 1 + random.Uniform(50));
      tokens.insert(tokens.end(), more.begin(), more.end());
      contexts.push_back(harness_.MustPublish(tokens, options));
    } else if (random.OneIn(4)) {
      const size_t dropped = random.Uniform(contexts.size());
      ATTNDB_ASSERT_OK(harness_->contexts()->Drop(tenant(), contexts[dropped]));
      contexts.erase(contexts.begin() + static_cast<ptrdiff_t>(dropped));
    } else {
      harness_->contexts()->Touch(contexts[random.Uniform(contexts.size())]);
    }
    CheckAgainstAWalk(&random);
  }
}

}  // namespace
}  // namespace attndb::store
