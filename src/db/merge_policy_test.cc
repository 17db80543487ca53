// Goal:   chains stay short and no token is rewritten often, however the tokens came in.
#include "db/merge_policy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace attndb::internal {
namespace {

struct Totals {
  size_t max_length = 0;
  uint64_t num_tokens = 0;
  uint64_t num_rewritten = 0;
};

// A chat: each turn adds a segment and merges what the policy says.
template <typename NextTurn>
Totals Chat(std::vector<MergeLink> chain, int num_turns, NextTurn next_turn) {
  Totals totals;
  for (int turn = 0; turn < num_turns; ++turn) {
    const uint64_t num_new = next_turn();
    totals.num_tokens += num_new;
    chain.push_back({num_new});
    while (const auto choice = ChooseMerge(chain)) {
      MergeLink merged;
      for (size_t i = choice->begin; i < choice->end; ++i) merged.num_tokens += chain[i].num_tokens;
      totals.num_rewritten += merged.num_tokens;
      chain.erase(chain.begin() + static_cast<long>(choice->begin),
                  chain.begin() + static_cast<long>(choice->end));
      chain.insert(chain.begin() + static_cast<long>(choice->begin), merged);
    }
    totals.max_length = std::max(totals.max_length, chain.size());
  }
  return totals;
}

TEST(MergePolicyTest, TwoHundredTurnsLeaveAShortChain) {
  const Totals totals = Chat({{6000}}, 200, [] { return uint64_t{100}; });
  EXPECT_LE(totals.max_length, 1 + 20000 / kSmallTokens + 12);
  EXPECT_LE(totals.num_rewritten, 6 * totals.num_tokens);
}

TEST(MergePolicyTest, RandomTurnsKeepTheBounds) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    const Totals totals = Chat({}, 1000, [&] { return uint64_t{1 + random() % 400}; });
    EXPECT_LE(totals.max_length, totals.num_tokens / kSmallTokens + 12) << "seed " << seed;
    EXPECT_LE(totals.num_rewritten, 12 * totals.num_tokens) << "seed " << seed;
  }
}

TEST(MergePolicyTest, LargeSegmentsAreNeverRewritten) {
  const std::vector<MergeLink> chain = {{4096}, {4096}, {4096}};
  EXPECT_FALSE(ChooseMerge(chain).has_value());
  EXPECT_FALSE(ChooseThoroughMerge(chain).has_value());
}

TEST(MergePolicyTest, SharedSegmentsAreMergedOnlyInLongRuns) {
  std::vector<MergeLink> chain(kMinSharedRun - 1, {100, 2});
  EXPECT_FALSE(ChooseMerge(chain).has_value());
  chain.push_back({100, 2});
  EXPECT_TRUE(ChooseMerge(chain).has_value());
}

TEST(MergePolicyTest, WhatIsNotMergeableCutsTheRun) {
  const std::vector<MergeLink> chain = {{10}, {10, 1, false}, {10}, {10}, {4096}, {5}};
  EXPECT_FALSE(ChooseMerge(chain).has_value());
  const auto choice = ChooseThoroughMerge(chain);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->begin, 2u);
  EXPECT_EQ(choice->end, 4u);
}

TEST(MergePolicyTest, CompactingCopiesNoSharedPrefix) {
  const std::vector<MergeLink> chain = {{1500, 500}, {100}, {100}, {4096}};
  const auto choice = ChooseThoroughMerge(chain);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->begin, 1u);
  EXPECT_EQ(choice->end, 3u);
  EXPECT_FALSE(ChooseThoroughMerge(std::vector<MergeLink>{{1500, 500}, {200}}).has_value());
}

}  // namespace
}  // namespace attndb::internal
