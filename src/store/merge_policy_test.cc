// Goal:   chains stay short and no token is rewritten often, for any sizes of Stores.
#include "store/merge_policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace attndb::store {
namespace {

struct Totals {
  size_t max_length = 0;
  uint64_t num_tokens = 0;
  uint64_t num_rewritten = 0;
};

// Merges what the policy says until it says nothing; returns how many tokens were rewritten.
uint64_t MergeAll(std::vector<MergeLink>* chain) {
  uint64_t num_rewritten = 0;
  while (const auto choice = ChooseMerge(*chain)) {
    MergeLink merged;
    for (size_t i = choice->begin; i < choice->end; ++i)
      merged.num_tokens += (*chain)[i].num_tokens;
    num_rewritten += merged.num_tokens;
    chain->erase(chain->begin() + static_cast<long>(choice->begin),
                 chain->begin() + static_cast<long>(choice->end));
    chain->insert(chain->begin() + static_cast<long>(choice->begin), merged);
  }
  return num_rewritten;
}

// A chat: each turn adds a segment and merges what the policy says.
template <typename NextTurn>
Totals Chat(std::vector<MergeLink> chain, int num_turns, NextTurn next_turn) {
  Totals totals;
  for (int turn = 0; turn < num_turns; ++turn) {
    const uint64_t num_new = next_turn();
    totals.num_tokens += num_new;
    chain.push_back({num_new});
    totals.num_rewritten += MergeAll(&chain);
    totals.max_length = std::max(totals.max_length, chain.size());
  }
  return totals;
}

using Runs = std::vector<std::pair<size_t, size_t>>;

Runs RunsOf(const std::vector<MergeLink>& chain, const CompactRule& rule) {
  Runs runs;
  for (const MergeChoice& choice : ChooseThoroughMerges(chain, rule)) {
    runs.emplace_back(choice.begin, choice.end);
  }
  return runs;
}

CompactRule RuleOf(uint64_t segment_tokens) { return {segment_tokens, segment_tokens}; }

uint64_t NumTokens(std::span<const MergeLink> chain) {
  uint64_t num_tokens = 0;
  for (const MergeLink& link : chain) num_tokens += link.num_tokens;
  return num_tokens;
}

uint64_t Longest(std::span<const MergeLink> chain) {
  uint64_t longest = 0;
  for (const MergeLink& link : chain) longest = std::max(longest, link.num_tokens);
  return longest;
}

// The chain when all that the rule chooses is merged.
std::vector<MergeLink> Merged(const std::vector<MergeLink>& chain, const CompactRule& rule) {
  std::vector<MergeLink> merged;
  size_t next = 0;
  for (const MergeChoice& choice : ChooseThoroughMerges(chain, rule)) {
    for (; next < choice.begin; ++next) merged.push_back(chain[next]);
    merged.push_back(chain[next]);
    merged.back().num_tokens =
        NumTokens(std::span(chain).subspan(choice.begin, choice.end - choice.begin));
    next = choice.end;
  }
  for (; next < chain.size(); ++next) merged.push_back(chain[next]);
  return merged;
}

TEST(MergePolicyTest, CountsAsABinaryCounterDoes) {
  const auto begins = [](const std::vector<uint64_t>& lengths) -> std::optional<size_t> {
    std::vector<MergeLink> chain;
    for (const uint64_t length : lengths) chain.push_back({length});
    const std::optional<MergeChoice> choice = ChooseMerge(chain);
    if (!choice) return std::nullopt;
    EXPECT_EQ(choice->end, chain.size());
    return choice->begin;
  };
  EXPECT_EQ(begins({}), std::nullopt);
  EXPECT_EQ(begins({1}), std::nullopt);
  EXPECT_EQ(begins({1, 1}), 0u) << "of like length";
  EXPECT_EQ(begins({2, 1}), std::nullopt);
  EXPECT_EQ(begins({4, 2, 1, 1}), 0u);
  EXPECT_EQ(begins({5, 2, 1, 1}), 1u);
  EXPECT_EQ(begins({kSmallTokens, kSmallTokens}), std::nullopt) << "is not small any more";
  EXPECT_EQ(begins({kSmallTokens - 1, kSmallTokens - 1}), 0u);
  EXPECT_EQ(begins({1, kSmallTokens}), std::nullopt) << "nor is the last";
}

TEST(MergePolicyTest, ALastSegmentThatIsShorterHidesNoRun) {
  const auto choice_of = [](const std::vector<uint64_t>& lengths) {
    std::vector<MergeLink> chain;
    for (const uint64_t length : lengths) chain.push_back({length});
    const std::optional<MergeChoice> choice = ChooseMerge(chain);
    return choice ? std::pair(choice->begin, choice->end) : std::pair(size_t{0}, size_t{0});
  };
  EXPECT_EQ(choice_of({18, 25, 10}), std::pair(size_t{0}, size_t{2}));
  EXPECT_EQ(choice_of({18, 25, 11, 12, 5}), std::pair(size_t{2}, size_t{4})) << "the last first";
  EXPECT_EQ(choice_of({18, 25, kSmallTokens, 12, 5}), std::pair(size_t{0}, size_t{0}));
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

// Merges run in the background, and a busy machine lets them wait.
TEST(MergePolicyTest, MergesThatComeLateKeepTheBounds) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    std::vector<MergeLink> chain;
    uint64_t num_tokens = 0;
    for (int turn = 0; turn < 1000; ++turn) {
      chain.push_back({1 + random() % 400});
      num_tokens += chain.back().num_tokens;
      if (random() % 4 != 0) continue;
      (void)MergeAll(&chain);
      EXPECT_LE(chain.size(), num_tokens / kSmallTokens + 12) << "seed " << seed;
    }
  }
}

TEST(MergePolicyTest, LargeSegmentsAreNeverRewritten) {
  const std::vector<MergeLink> chain = {{4096}, {4096}, {4096}};
  EXPECT_FALSE(ChooseMerge(chain).has_value());
  EXPECT_TRUE(ChooseThoroughMerges(chain, {}).empty());
}

TEST(MergePolicyTest, SharedSegmentsAreMergedOnlyInLongRuns) {
  std::vector<MergeLink> chain(kMinSharedRun - 1, {100, 2});
  EXPECT_FALSE(ChooseMerge(chain).has_value());
  chain.push_back({100, 2});
  EXPECT_TRUE(ChooseMerge(chain).has_value());
}

TEST(MergePolicyTest, OneSharedSegmentInARunIsEnoughToWait) {
  EXPECT_FALSE(ChooseMerge(std::vector<MergeLink>{{100, 2}, {100}}).has_value());
  EXPECT_FALSE(ChooseMerge(std::vector<MergeLink>{{100}, {100, 2}}).has_value());
}

TEST(MergePolicyTest, WhatLiesBesideTheChainIsNotLookedAt) {
  const std::vector<MergeLink> links(4, {100});
  const std::span<const MergeLink> chain = std::span(links).subspan(1, 2);
  const std::optional<MergeChoice> choice = ChooseMerge(chain);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->begin, 0u);
  EXPECT_EQ(choice->end, 2u);
  const std::vector<MergeChoice> choices = ChooseThoroughMerges(chain, {});
  ASSERT_EQ(choices.size(), 1u);
  EXPECT_EQ(choices[0].end, 2u);
}

TEST(MergePolicyTest, WhatIsNotMergeableCutsTheRun) {
  const std::vector<MergeLink> chain = {{10}, {10, 1, false}, {10}, {10}, {4096}, {5}};
  EXPECT_FALSE(ChooseMerge(chain).has_value());
  EXPECT_EQ(RunsOf(chain, {}), Runs({{2, 4}}));
}

TEST(MergePolicyTest, CompactingCopiesNoSharedPrefix) {
  const std::vector<MergeLink> chain = {{1500, 500}, {100}, {100}, {4096}};
  EXPECT_EQ(RunsOf(chain, {}), Runs({{1, 3}}));
  EXPECT_EQ(RunsOf({{1500, 500}, {200}}, {}), Runs());
}

TEST(MergePolicyTest, WithoutALengthARunOfSmallOnesBecomesOneOfAny) {
  EXPECT_EQ(RunsOf(std::vector<MergeLink>(5, {2047}), {}), Runs({{0, 5}}));
  EXPECT_EQ(RunsOf({{2048}, {2047}, {1}, {2048}}, {}), Runs({{1, 3}}));
}

TEST(MergePolicyTest, ALengthCutsRuns) {
  const CompactRule rule = RuleOf(8192);
  EXPECT_EQ(RunsOf(std::vector<MergeLink>(5, {4096}), rule), Runs({{0, 2}, {2, 4}}));
  // An exact fit, and one token more.
  EXPECT_EQ(RunsOf({{4096}, {4095}, {1}}, rule), Runs({{0, 3}}));
  EXPECT_EQ(RunsOf({{4096}, {4095}, {2}}, rule), Runs({{0, 2}}));
  // A segment that does not fit begins the next run.
  EXPECT_EQ(RunsOf({{5000}, {4000}, {3000}, {100}}, rule), Runs({{1, 4}}));
}

TEST(MergePolicyTest, OneOfTheLengthOrMoreStaysAsItIs) {
  const CompactRule rule = RuleOf(4096);
  EXPECT_EQ(RunsOf({{4096}}, rule), Runs());
  EXPECT_EQ(RunsOf({{10}, {4096}, {10}}, rule), Runs());
  EXPECT_EQ(RunsOf({{10}, {10}, {9000}, {10}, {10}}, rule), Runs({{0, 2}, {3, 5}}));
  EXPECT_EQ(RunsOf({{1}, {1}, {1}}, RuleOf(1)), Runs());
}

TEST(MergePolicyTest, ALengthMergesNothingAcrossAChangeOfSharing) {
  const std::vector<MergeLink> chain = {{100, 3}, {100, 3}, {100, 2}, {100, 1}, {100, 1}};
  EXPECT_EQ(RunsOf(chain, RuleOf(8192)), Runs({{0, 2}, {3, 5}}));
}

// Both rules that Compact knows, and one whose segments may not become as long as what is small.
TEST(MergePolicyTest, WhatWasMergedIsNotMergedAgain) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const uint64_t length = 1 + random() % 3000;
    for (const CompactRule& rule :
         {CompactRule(), RuleOf(length), CompactRule{length, length / 2}}) {
      std::vector<MergeLink> chain(random() % 40);
      for (MergeLink& link : chain) {
        link = {1 + random() % 2500, random() % 2 == 0 ? 1u : 2u, random() % 10 != 0};
      }
      const std::vector<MergeLink> merged = Merged(chain, rule);
      EXPECT_TRUE(ChooseThoroughMerges(merged, rule).empty()) << "seed " << seed;
      EXPECT_EQ(NumTokens(merged), NumTokens(chain)) << "seed " << seed;
      EXPECT_LE(Longest(merged), std::max(Longest(chain), rule.max_tokens)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace attndb::store
