// Goal:   a plan whose index ran nowhere is told from one that ran for a part.
// Method: layers with substitutes, made by hand.
#include "bench/what_ran.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace attndb::bench {
namespace {

constexpr const char* kFlat = "topk(k=5,sink=16,window=128)";
constexpr const char* kGraph = "topk(k=5,index=graph,sink=16,window=128)";
const Substitute kNotBuilt = {"index=flat", "index=graph", "not built", 1};

LayerExplain Layer(LayerId layer, const std::string& ran, std::vector<Substitute> substitutes) {
  LayerExplain explain;
  explain.layer = layer;
  explain.ran = ran;
  explain.substitutes = std::move(substitutes);
  return explain;
}

TEST(WhatRanTest, APlanThatRanMissesNothing) {
  Explain explain;
  explain.layers = {Layer(0, kGraph, {}), Layer(1, kGraph, {})};
  EXPECT_EQ(RanText(explain), kGraph);
  EXPECT_EQ(MissingText(explain), "");
  EXPECT_FALSE(IsReplaced(explain));
}

TEST(WhatRanTest, AnIndexThatRanForSomeTokensIsNotMissed) {
  Substitute half = kNotBuilt;
  half.share = 0.5;
  Explain explain;
  explain.layers = {Layer(0, kGraph, {}), Layer(1, kFlat, {kNotBuilt})};
  EXPECT_EQ(RanText(explain), std::string(kGraph) + "; layers 1: " + kFlat);
  EXPECT_EQ(MissingText(explain), "");
  explain.layers = {Layer(0, kGraph, {half}), Layer(1, kGraph, {half})};
  EXPECT_EQ(MissingText(explain), "");
  EXPECT_FALSE(IsReplaced(explain));
}

TEST(WhatRanTest, LayersOfOtherPlansAndWindowsDoNotCount) {
  Explain explain;
  LayerExplain sliding = Layer(2, "full", {{"full", "topk", "sliding-window layer", 1}});
  sliding.reason = "sliding-window layer: exact over its window";
  explain.layers = {Layer(0, "full", {}), Layer(1, kFlat, {kNotBuilt}), sliding};
  EXPECT_EQ(MissingText(explain), "index=flat instead of index=graph: not built");
  EXPECT_TRUE(IsReplaced(explain));
}

TEST(WhatRanTest, SeveralCausesAddUp) {
  Substitute few = {"index=flat", "index=graph", "too few tokens: one segment needs 2,048", 0.25};
  Substitute rest = kNotBuilt;
  rest.share = 0.75;
  Explain explain;
  explain.layers = {Layer(0, kFlat, {rest, few})};
  EXPECT_THAT(MissingText(explain), ::testing::StartsWith("index=flat instead of index=graph: "));
}

// The optimizer's choice is the plan's own, and a rule's is what the plan says for such a context.
TEST(WhatRanTest, ARuleReplacesAPlanThatMissesNothing) {
  Explain explain;
  explain.layers = {Layer(0, "full", {{"full", "auto", "short context", 1}})};
  EXPECT_EQ(MissingText(explain), "");
  EXPECT_TRUE(IsReplaced(explain));
}

}  // namespace
}  // namespace attndb::bench
