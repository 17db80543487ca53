// Goal:   static tokens are those of the rankings, shared among runs, visible and in the middle.
//         Plans with static tokens attend to exactly sinks, static tokens, window and their
//         selection of the others, each once, with any scores and indexes.
// Method: rankings that are written down, and layers of random rows against float64 attention over
//         the set that plain loops choose.
#include "attention/static_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint32_t kRows[] = {9, 0, 4, 7, 2, 1, 3, 5, 6, 8};

std::vector<uint32_t> List(std::span<const HeadRun> runs, TokenRange middle, size_t n) {
  std::vector<uint32_t> tokens(n);
  std::vector<uint64_t> bits(NumStaticWords(runs.back().tokens.end), ~uint64_t{0});
  tokens.resize(ListStatic(runs, middle, n, {tokens.data(), bits.data()}));
  return tokens;
}

HeadRun RunOf(uint32_t number, TokenRange tokens, uint64_t first_row,
              const index::TokenRanking* ranking) {
  return {
      .tokens = tokens, .origin = tokens.begin - first_row, .number = number, .ranking = ranking};
}

TEST(StaticTokensTest, AreTheHeaviestOfTheMiddle) {
  const index::TokenRanking ranked = {kRows};
  const HeadRun runs[] = {RunOf(0, {0, 10}, 0, &ranked)};
  EXPECT_THAT(List(runs, {0, 10}, 3), ElementsAre(0, 4, 9));
  EXPECT_THAT(List(runs, {1, 9}, 3), ElementsAre(2, 4, 7)) << "sinks and window are passed over";
  EXPECT_THAT(List(runs, {1, 4}, 8), ElementsAre(1, 2, 3)) << "no more than there are";
  EXPECT_THAT(List(runs, {5, 5}, 3), IsEmpty());
}

TEST(StaticTokensTest, WhatAPrefixOrAFilterHidesIsPassedOver) {
  const index::TokenRanking ranked = {kRows};
  const HeadRun prefix[] = {RunOf(0, {0, 6}, 0, &ranked)};
  EXPECT_THAT(List(prefix, {0, 6}, 3), ElementsAre(0, 2, 4));
  // Rows [1, 3) and [4, 10) of the run, behind 100 tokens of another.
  const HeadRun filtered[] = {RunOf(0, {0, 100}, 0, nullptr), RunOf(1, {100, 102}, 1, &ranked),
                              RunOf(1, {102, 108}, 4, &ranked)};
  EXPECT_THAT(List(filtered, {0, 108}, 4), ElementsAre(101, 102, 105, 107));
  // From row 5 on.
  const HeadRun rest[] = {RunOf(0, {0, 5}, 5, &ranked)};
  EXPECT_THAT(List(rest, {0, 5}, 2), ElementsAre(2, 4));
}

TEST(StaticTokensTest, RunsWithARankingShareThemByTheirTokens) {
  const index::TokenRanking ranked = {kRows};
  const HeadRun runs[] = {RunOf(0, {0, 10}, 0, &ranked), RunOf(1, {10, 30}, 0, nullptr),
                          RunOf(2, {30, 35}, 0, &ranked)};
  EXPECT_THAT(List(runs, {0, 35}, 3), ElementsAre(0, 9, 30));
  EXPECT_THAT(List(runs, {0, 35}, 6), ElementsAre(0, 4, 7, 9, 30, 34));
  EXPECT_THAT(List(runs, {5, 35}, 4), ElementsAre(7, 9, 30, 34));
}

TEST(StaticTokensTest, AreDroppedFromLists) {
  std::vector<uint32_t> tokens = {1, 3, 4, 8, 9};
  const std::vector<uint32_t> statics = {0, 3, 5, 9};
  tokens.resize(DropStatic(statics, tokens.data(), tokens.size()));
  EXPECT_THAT(tokens, ElementsAre(1, 4, 8));
  EXPECT_EQ(DropStatic({}, tokens.data(), 3), 3u);
}

class StaticPlanTest : public ::testing::TestWithParam<const char*> {};

// By scores that are exact, of several segments and a tail, of one row and of some.
TEST_P(StaticPlanTest, AttendsToExactlyItsTokens) {
  for (const bool denominators : {false, true}) {
    for (const uint64_t num_rows : {1u, 3u}) {
      Layer layer({.denominators = denominators}, DType::kFloat32, {700, 400, 150}, num_rows, 3);
      layer.BuildRankings();
      const planner::LayerPlan plan = PlanOf(GetParam());
      for (const uint32_t num_parts : {1u, 3u}) {
        layer.Run(plan, num_parts);
        layer.ExpectExact(plan, 1e-5);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Plans, StaticPlanTest,
    ::testing::Values("topk(k=20,sink=4,window=30,static=prefill:50)",
                      "topk(k=2000,sink=4,window=30,static=prefill:50)",
                      "topk(k=1,sink=0,window=1,static=prefill:1)",
                      "topk(k=30,sink=4,window=30,static=prefill:4096)",
                      "dipr(beta=12,sink=4,window=30,static=prefill:50)",
                      "dipr(alpha=0.05,sink=4,window=30,static=prefill:200)",
                      "mass(p=0.6,sink=4,window=30,static=prefill:20)",
                      "mass(p=0.3,sink=4,window=30,static=prefill:400)",
                      "mass(p=1,sink=4,window=30,static=prefill:50)",
                      "topk(k=20,sink=4,window=30,static=prefill:50,exact_fallback=1)"),
    [](const auto& test) { return std::to_string(test.index); });

// All tokens are attended to exactly once, by any search: as static, as selected or as left-out
// ones.
TEST(StaticLayerTest, NoTokenIsAttendedToTwice) {
  Layer layer({}, DType::kFloat16, {2500, 2100, 90}, 2, 5);
  layer.BuildRankings();
  layer.BuildPlanes();
  layer.BuildIndexes();
  layer.BuildCodes();
  layer.BuildValues();
  const planner::LayerPlan full = PlanOf("full");
  for (const std::string text :
       {"topk(k=5000,", "topk(k=5000,bits=4,", "topk(k=5000,bits=8,",
        "topk(k=4600,index=clustered,", "topk(k=4600,index=graph,", "topk(k=4600,index=pq,",
        "dipr(beta=10000,", "dipr(beta=10000,bits=4,", "dipr(beta=10000,index=clustered,",
        "dipr(beta=10000,index=graph,", "dipr(beta=10000,index=pq,", "mass(p=1,",
        "mass(p=1,index=pq,", "topk(k=100,remainder=sample:5000,",
        "topk(k=100,bits=8,remainder=sample:5000,", "topk(k=100,exact_fallback=0.0001,"}) {
    const planner::LayerPlan plan = PlanOf(text + "sink=4,window=30,static=prefill:300)");
    layer.Run(plan, 2);
    layer.ExpectExact(full, text.find("bits") == text.npos ? 1e-3 : 2e-3);
  }
}

// An index that finds the same tokens as a scan still does so with static tokens: it chooses k
// others.
TEST(StaticLayerTest, IndexesChooseAmongTheOthers) {
  Layer layer({.topics = true}, DType::kFloat32, {2500, 2100, 90}, 1, 6);
  layer.BuildRankings();
  layer.BuildIndexes();
  layer.BuildCodes();
  for (const std::string text :
       {"topk(k=40,index=clustered,effort=100,", "topk(k=40,index=graph,beam_width=4000,",
        "topk(k=40,index=pq,effort=100,", "dipr(beta=20,index=clustered,effort=100,",
        "dipr(beta=20,index=graph,beam_width=4000,",
        "dipr(beta=20,index=graph,walk=diprs,l0=4000,"}) {
    const std::string keys = "sink=4,window=30,static=prefill:300)";
    layer.Run(PlanOf(text + keys), 1);
    layer.ExpectExact(PlanOf(text.substr(0, text.find("index")) + keys), 1e-2);
  }
}

TEST(StaticLayerTest, AreNotAmongWhatASearchSelects) {
  Layer layer({.q_heads = 2, .kv_heads = 2}, DType::kFloat32, {900, 60}, 1, 7);
  layer.BuildRankings();
  layer.BuildIndexes();
  for (const std::string text : {"topk(k=2000,", "topk(k=2000,index=graph,"}) {
    const auto found = layer.Search(PlanOf(text + "sink=4,window=30,static=prefill:100)"), 1);
    for (const CriticalTokens& head : found) {
      EXPECT_EQ(head.tokens.size(), 960u - 34 - 100) << text;
    }
  }
}

}  // namespace
}  // namespace attndb::attention
