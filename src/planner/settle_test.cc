// Goal:   each arm of AlayaDB's Fig. 8 is taken in the same cases as in the paper, and the reason
//         names it. The layers of a pyramid have their shares, whose mean is the budget.
// Method: pure functions over made-up facts.
#include "planner/settle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/builtin_plans.h"

namespace attndb::planner {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kDipr = "dipr(alpha=0.012,sink=128,window=512,tail=exact)";
constexpr const char* kGraphDipr =
    "dipr(alpha=0.012,index=roargraph,walk=diprs,l0=1024,expand=all,sink=128,window=512,tail="
    "exact)";

// A context that is long, reused as a whole, and larger than the memory.
ChainFacts LongContext() {
  ChainFacts chain;
  chain.num_tokens = 100'000;
  chain.num_stored = 99'000;
  chain.kv_bytes = 1000;
  chain.memory_bytes = 999;
  return chain;
}

class SettleTest : public ::testing::Test {
 protected:
  SettleTest() : registry_(BuiltinPlans()) {}

  SettledPlan Settled(std::string_view text, LayerId layer, const ChainFacts& chain,
                      uint32_t num_layers = 32) const {
    const Result<Plan> plan = Plan::Parse(text, registry_);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return Settle(plan->ForLayer(layer), {layer, num_layers, &chain}, registry_);
  }
  SettledPlan Alaya(LayerId layer, const ChainFacts& chain) const {
    return Settled("auto(rules=alaya)", layer, chain);
  }

  PlanRegistry registry_;
};

TEST_F(SettleTest, AShortContextIsReadWhole) {
  ChainFacts chain = LongContext();
  chain.num_tokens = kShortContextTokens;
  chain.num_hidden = 5;  // Whatever comes later in Fig. 8.
  chain.memory_bytes = 1000;
  for (const LayerId layer : {0u, 7u}) {
    EXPECT_EQ(Alaya(layer, chain).plan.ToString(), "full");
    EXPECT_EQ(Alaya(layer, chain).rule, "Fig. 8: short context: full");
  }
  ++chain.num_tokens;
  EXPECT_NE(Alaya(0, chain).plan.ToString(), "full");
}

TEST_F(SettleTest, AContextThatMemoryCannotHoldIsSearchedByDiprFlatInLayer0) {
  const ChainFacts chain = LongContext();
  EXPECT_EQ(Alaya(0, chain).plan.ToString(), kDipr);
  EXPECT_EQ(Alaya(0, chain).rule, "Fig. 8: long context, layer 0: DIPR, flat");
  EXPECT_EQ(Alaya(1, chain).plan.ToString(), kGraphDipr);
  EXPECT_EQ(Alaya(31, chain).rule, "Fig. 8: long context: DIPRS by a graph");
  EXPECT_TRUE(Alaya(1, chain).plan.Finds());
}

TEST_F(SettleTest, MemoryThatIsNotKnownHoldsNothing) {
  ChainFacts chain = LongContext();
  chain.memory_bytes = chain.kv_bytes = 0;
  EXPECT_EQ(Alaya(1, chain).plan.ToString(), kGraphDipr);
}

TEST_F(SettleTest, PartialReuseIsFiltered) {
  ChainFacts chain = LongContext();
  chain.num_hidden = 1;
  EXPECT_EQ(Alaya(0, chain).plan.ToString(), kDipr);
  EXPECT_EQ(Alaya(0, chain).rule, "Fig. 8: partial reuse, layer 0: filtered DIPR, flat");
  EXPECT_EQ(Alaya(9, chain).plan.ToString(), kGraphDipr);
  EXPECT_EQ(Alaya(9, chain).rule, "Fig. 8: partial reuse: filtered DIPRS by a graph");
}

// 6.2: the predicate is applied "to the query", and "then" memory is looked at.
TEST_F(SettleTest, PartialReuseIsFilteredWhereMemoryHoldsAllToo) {
  ChainFacts chain = LongContext();
  chain.memory_bytes = chain.kv_bytes;
  chain.num_hidden = 1;
  EXPECT_TRUE(Alaya(3, chain).plan.Is("topk"));
  EXPECT_THAT(std::string(Alaya(3, chain).rule), HasSubstr("filtered top-k"));
}

TEST_F(SettleTest, MemoryThatHoldsAllIsSearchedByBlocksWhereThereAreSome) {
  ChainFacts chain = LongContext();
  chain.memory_bytes = chain.kv_bytes;
  for (const LayerId layer : {0u, 7u}) {
    const SettledPlan settled = Alaya(layer, chain);
    EXPECT_EQ(settled.plan.ToString(), "topk(k=4096,index=infllm,sink=128,window=4096,tail=exact)");
    EXPECT_EQ(settled.plan.FindsBy(), "infllm_128x4");
    EXPECT_EQ(settled.rule, "Fig. 8: memory holds all keys and values: top-k over blocks");
  }
}

TEST_F(SettleTest, ThePlanMaySayHowMuchMemoryThereIs) {
  ChainFacts chain = LongContext();
  chain.kv_bytes = uint64_t{3} << 30;
  EXPECT_TRUE(Settled("auto(rules=alaya,memory=3)", 1, chain).plan.Is("topk"));
  EXPECT_TRUE(Settled("auto(rules=alaya,memory=2.9)", 1, chain).plan.Is("dipr"));
  chain.memory_bytes = chain.kv_bytes;
  EXPECT_TRUE(Settled("auto(rules=alaya,memory=2.9)", 1, chain).plan.Is("dipr"));
}

TEST_F(SettleTest, WithoutBlocksTopKScoresAllKeysAndSaysSo) {
  PlanRegistry registry;
  const PlanRegistry all = BuiltinPlans();
  for (const char* query : {"auto", "topk", "dipr"}) registry.AddQuery(*all.FindQuery(query));
  registry.AddIndex(*all.FindIndex("flat"));
  ChainFacts chain = LongContext();
  chain.memory_bytes = chain.kv_bytes;
  const LayerPlan asked = Plan::Parse("auto(rules=alaya)", registry)->ForLayer(0);
  const SettledPlan flat = Settle(asked, {1, 32, &chain}, registry);
  EXPECT_EQ(flat.plan.ToString(), "topk(k=4096,sink=128,window=4096,tail=exact)");
  EXPECT_THAT(std::string(flat.rule), HasSubstr("this version has no coarse index"));
  registry.AddIndex({.name = "infllm", .bits = {0}, .finds_by = "blocks"});
  const SettledPlan by_blocks = Settle(asked, {1, 32, &chain}, registry);
  EXPECT_EQ(by_blocks.plan.ToString(), "topk(k=4096,index=infllm,sink=128,window=4096,tail=exact)");
  EXPECT_THAT(std::string(by_blocks.rule), HasSubstr("top-k over blocks"));
}

TEST_F(SettleTest, WhoAwaitsDoesSoWhereSomethingIsSearched) {
  ChainFacts chain = LongContext();
  EXPECT_FALSE(Alaya(1, chain).plan.awaits);
  EXPECT_TRUE(Settled("auto(rules=alaya,await=1)", 1, chain).plan.awaits);
  chain.num_tokens = 10;
  EXPECT_FALSE(Settled("auto(rules=alaya,await=1)", 1, chain).plan.awaits);
}

TEST_F(SettleTest, LayersThatRulesAreNotAskedForStayAsTheyAre) {
  const ChainFacts chain = LongContext();
  const std::string text = "auto(rules=alaya); layers 3: topk(k=7); layers 4: auto(error=0.1)";
  EXPECT_EQ(Settled(text, 3, chain).plan.ToString(), "topk(k=7,sink=16,window=128)");
  EXPECT_EQ(Settled(text, 4, chain).plan.error, 0.1);
  EXPECT_EQ(Settled(text, 4, chain).rule, "");
  EXPECT_EQ(Settled(text, 5, chain).plan.ToString(), kGraphDipr);
}

TEST_F(SettleTest, APyramidFallsLinearlyAndKeepsTheMean) {
  EXPECT_DOUBLE_EQ(PyramidShare(0, 32), 1.95);
  EXPECT_NEAR(PyramidShare(31, 32), 0.05, 1e-12);
  EXPECT_DOUBLE_EQ(PyramidShare(0, 1), 1);
  for (const uint32_t num_layers : {1u, 2u, 3u, 30u, 32u, 80u}) {
    double sum = 0;
    for (LayerId layer = 0; layer < num_layers; ++layer) sum += PyramidShare(layer, num_layers);
    EXPECT_NEAR(sum / num_layers, 1, 1e-12) << num_layers;
  }
  const double step = PyramidShare(0, 30) - PyramidShare(1, 30);
  for (LayerId layer = 1; layer < 30; ++layer) {
    EXPECT_NEAR(PyramidShare(layer - 1, 30) - PyramidShare(layer, 30), step, 1e-12) << layer;
  }
}

TEST_F(SettleTest, AnyTopKMayBeAPyramid) {
  const ChainFacts chain = LongContext();
  const auto text = [&](std::string_view asked, LayerId layer) {
    return Settled(asked, layer, chain, 3).plan.ToString();
  };
  EXPECT_EQ(text("topk(k=100,budget=pyramid)", 0), "topk(k=195,sink=16,window=128)");
  EXPECT_EQ(text("topk(k=100,budget=pyramid)", 1), "topk(k=100,sink=16,window=128)");
  EXPECT_EQ(text("topk(k=100,budget=pyramid)", 2), "topk(k=5,sink=16,window=128)");
  EXPECT_EQ(text("topk(k=1,budget=pyramid)", 2), "topk(k=1,sink=16,window=128)") << "not 0";
  EXPECT_THAT(text("retrieval_attention(k=2000,index=graph,budget=pyramid)", 0),
              HasSubstr("topk(k=3900,index=graph"));
  EXPECT_THAT(text("pqcache(budget=pyramid)", 1), HasSubstr("topk(ratio=0.2,index=pq"));
  EXPECT_NEAR(Settled("pqcache(budget=pyramid)", 2, chain, 3).plan.Get("ratio"), 0.01, 1e-12);
  EXPECT_EQ(Settled("topk(ratio=0.9,budget=pyramid)", 0, chain, 3).plan.Get("ratio"), 1.0);
  EXPECT_EQ(text("topk(k=100,budget=even)", 0), "topk(k=100,budget=even,sink=16,window=128)");
  EXPECT_THAT(text("topk(k=100); layers 1: topk(k=10,budget=pyramid)", 0), Not(HasSubstr("195")));
}

}  // namespace
}  // namespace attndb::planner
