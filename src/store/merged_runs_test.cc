// Goal:   a merged segment takes the place of its run in a chain, all or nothing, and no token of
//         the chain is lost, doubled or moved.
// Method: random chains and runs of real segments, against a plain list of tokens.
#include "store/merged_runs.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

#include "common/random.h"
#include "testing/seed.h"
#include "testing/small_segments.h"

namespace attndb::store {
namespace {

using storage::ChainEntry;

constexpr uint64_t kTokens = test::SmallSegments::kTokens;

class MergedRunsTest : public ::testing::Test {
 protected:
  std::shared_ptr<storage::Segment> Open(SegmentId id) {
    return segments_.Get(static_cast<uint64_t>(id));
  }
  std::vector<ChainEntry> Chain(const std::vector<ChainLink>& links) {
    std::vector<ChainEntry> chain;
    for (const ChainLink& link : links) {
      chain.push_back({Open(link.segment), link.num_tokens_used});
    }
    return chain;
  }
  static std::vector<ChainLink> Links(const std::optional<std::vector<ChainEntry>>& chain) {
    std::vector<ChainLink> links;
    if (!chain) return links;
    for (const ChainEntry& entry : *chain) {
      links.push_back({static_cast<SegmentId>(entry.segment->id()), entry.num_tokens_used});
    }
    return links;
  }

  Random random_{test::SeedOr(3)};
  test::SmallSegments segments_{test::SeedOr(3)};
};

TEST_F(MergedRunsTest, TheRunIsReplacedAllOrNothing) {
  const MergedRun merged = {.run = {{2, 20}, {3, 20}, {4, 12}}, .merged = Open(9)};
  using Chain = std::vector<ChainLink>;
  const auto replaced = [&](const Chain& chain) {
    return Links(ReplaceRun(MergedRunsTest::Chain(chain), merged));
  };
  EXPECT_EQ(replaced({{1, 20}, {2, 20}, {3, 20}, {4, 12}, {5, 7}}),
            (Chain{{1, 20}, {9, 52}, {5, 7}}));
  EXPECT_EQ(replaced({{2, 20}, {3, 20}, {4, 12}}), (Chain{{9, 52}}));
  EXPECT_EQ(replaced({{2, 20}, {3, 20}, {4, 5}}), (Chain{{9, 45}})) << "the last, cropped";
  EXPECT_EQ(replaced({{2, 20}, {3, 20}, {4, 13}}), Chain()) << "more than was merged";
  EXPECT_EQ(replaced({{2, 20}, {3, 19}, {4, 12}}), Chain()) << "another use in the middle";
  EXPECT_EQ(replaced({{2, 20}, {3, 20}}), Chain()) << "a part of the run";
  EXPECT_EQ(replaced({{3, 20}, {2, 20}, {4, 12}}), Chain()) << "another order";
  EXPECT_EQ(replaced({}), Chain());
  std::vector<ChainEntry> shared = MergedRunsTest::Chain({{2, 10}, {3, 20}, {4, 12}});
  shared.front().first_token = 10;  // A session over several contexts skips what is shared.
  EXPECT_FALSE(ReplaceRun(shared, merged).has_value());
}

TEST_F(MergedRunsTest, WhatWasMergedAgainIsFoundThroughTheFirstMerge) {
  bool only_first = false;
  const auto is_first = [](const MergedRun& run) { return run.merged->id() == 5; };
  MergedRuns runs([&](const MergedRun& run) { return !only_first || is_first(run); });
  EXPECT_EQ(runs.num_added(), 0u);
  runs.Add({.run = {{1, 20}, {2, 20}}, .merged = Open(5)});
  runs.Add({.run = {{5, 40}, {3, 20}}, .merged = Open(6)});
  EXPECT_EQ(runs.num_added(), 2u);
  const std::vector<ChainEntry> chain = Chain({{1, 20}, {2, 20}, {3, 20}});
  EXPECT_EQ(Links(runs.Renew(chain)), (std::vector<ChainLink>{{6, 60}}));
  only_first = true;
  EXPECT_EQ(Links(runs.Renew(chain)), (std::vector<ChainLink>{{5, 40}, {3, 20}}));
  only_first = false;
  EXPECT_FALSE(runs.Renew(Chain({{7, 20}})).has_value());
  EXPECT_EQ(runs.Forget(is_first), 1u);
  EXPECT_FALSE(runs.Renew(chain).has_value());
  EXPECT_EQ(runs.num_added(), 2u);
}

TEST_F(MergedRunsTest, WhoAsksIsToldOnceThereIsARun) {
  int num_told = 0;
  MergedRuns runs([](const MergedRun&) { return true; }, [&] { ++num_told; });
  runs.Announce();
  EXPECT_EQ(num_told, 0);
  runs.Add({.run = {{1, 20}, {2, 20}}, .merged = Open(5)});
  EXPECT_EQ(num_told, 1);
  runs.Announce();
  EXPECT_EQ(num_told, 2);
}

TEST_F(MergedRunsTest, NoTokenIsLostDoubledOrMoved) {
  for (int round = 0; round < 200; ++round) {
    std::vector<ChainLink> links;
    for (SegmentId id = 1; id <= 12; ++id) links.push_back({id, 1 + random_.Uniform(kTokens)});
    const size_t begin = random_.Uniform(11);
    const size_t end = begin + 1 + random_.Uniform(12 - begin);
    MergedRun merged = {.run = {links.begin() + static_cast<ptrdiff_t>(begin),
                                links.begin() + static_cast<ptrdiff_t>(end)},
                        .merged = Open(100)};
    // Tokens by segment and index; those of the merged segment are its run's.
    const auto tokens_of = [](std::span<const ChainLink> chain) {
      std::vector<std::pair<SegmentId, uint64_t>> tokens;
      for (const ChainLink& link : chain) {
        for (uint64_t i = 0; i < link.num_tokens_used; ++i) tokens.emplace_back(link.segment, i);
      }
      return tokens;
    };
    const std::vector<std::pair<SegmentId, uint64_t>> of_run = tokens_of(merged.run);
    const std::vector<ChainLink> renewed = Links(ReplaceRun(Chain(links), merged));
    ASSERT_EQ(renewed.size(), links.size() - (end - begin) + 1);
    std::vector<std::pair<SegmentId, uint64_t>> found = tokens_of(renewed);
    for (auto& [segment, i] : found) {
      if (segment == 100) std::tie(segment, i) = std::pair(of_run[i]);
    }
    ASSERT_EQ(found, tokens_of(links));
  }
}

}  // namespace
}  // namespace attndb::store
