// Goal:   plan text means what plan.h says, errors point at the column, text round-trips.
#include "planner/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/builtin_plans.h"

namespace attndb::planner {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const PlanRegistry& Registry() {
  static const PlanRegistry registry = BuiltinPlans();
  return registry;
}

Result<Plan> Parse(std::string_view text) { return Plan::Parse(text, Registry()); }

LayerPlan Parsed(std::string_view text) {
  const Result<Plan> plan = Parse(text);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ok() ? plan->ForLayer(0) : LayerPlan{};
}

TEST(PlanTest, ReadsEveryQuery) {
  EXPECT_EQ(Parsed("full").kind, QueryKind::kFull);
  const LayerPlan window = Parsed("window(sink=4,window=32)");
  EXPECT_EQ(window.kind, QueryKind::kWindow);
  EXPECT_EQ(window.sink, 4u);
  EXPECT_EQ(window.window, 32u);
  EXPECT_EQ(Parsed(" topk( k = 512 ) ").Get("k"), 512);
  EXPECT_EQ(Parsed("dipr(beta=50)").Get("beta"), 50);
  const LayerPlan sampled = Parsed("mass(p=0.99,bits=4,remainder=sample:128)");
  EXPECT_EQ(sampled.Get("p"), 0.99);
  EXPECT_EQ(sampled.bits, 4u);
  EXPECT_EQ(sampled.samples, 128u);
  EXPECT_EQ(sampled.remainder, Remainder::kSample);
  EXPECT_FALSE(sampled.ReadsMeans());
  const LayerPlan mean = Parsed("topk(k=3,remainder=mean)");
  EXPECT_EQ(mean.remainder, Remainder::kMean);
  EXPECT_EQ(mean.value_bits, 0u);
  EXPECT_TRUE(mean.ReadsMeans());
  const LayerPlan automatic = Parsed("auto(error=0.01)");
  EXPECT_EQ(automatic.kind, QueryKind::kAuto);
  EXPECT_EQ(automatic.error, 0.01);
  EXPECT_EQ(automatic.bits, 4u);
  EXPECT_EQ(automatic.value_bits, 0u);
  EXPECT_FALSE(automatic.ReadsMeans());
  EXPECT_EQ(Parsed("auto(error=0.01,value_bits=8)").value_bits, 8u);
  EXPECT_EQ(Parsed("auto(error=0.01,value_bits=exact)"), automatic);
  EXPECT_EQ(Parsed("topk(k=3,bits=8)").bits, 8u);
  EXPECT_EQ(Parsed("topk(k=3,bits=8)").Bounds(), false);
  EXPECT_EQ(Parsed("dipr(beta=3,exact_fallback=0.05)").exact_fallback, 0.05);
}

TEST(PlanTest, DefaultsMayBeWritten) {
  EXPECT_EQ(Parsed("dipr(alpha=0.012,index=flat,bits=exact,remainder=drop)"),
            Parsed("dipr(alpha=0.012)"));
  EXPECT_EQ(Parsed("auto(error=0.01,bits=4,sink=16,window=128)"), Parsed("auto(error=0.01)"));
}

TEST(PlanTest, CanonicalTextIsWhatItWas) {
  EXPECT_EQ(Parsed("full").ToString(), "full");
  EXPECT_EQ(Parsed("window").ToString(), "window(sink=16,window=128)");
  EXPECT_EQ(Parsed("topk(k=500)").ToString(), "topk(k=500,sink=16,window=128)");
  EXPECT_EQ(Parsed("alaya").ToString(), "dipr(alpha=0.012,sink=128,window=512,tail=exact)");
  EXPECT_EQ(Parsed("mass(p=0.9,bits=8,remainder=sample:7)").ToString(),
            "mass(p=0.9,bits=8,remainder=sample:7,sink=16,window=128)");
  EXPECT_EQ(Parsed("topk(k=9,remainder=mean)").ToString(),
            "topk(k=9,remainder=mean,sink=16,window=128)");
  EXPECT_EQ(Parsed("auto(error=0.01,value_bits=8)").ToString(),
            "auto(error=0.01,bits=4,value_bits=8,sink=16,window=128)");
  EXPECT_EQ(Parsed("topk(exact_fallback=0.5,k=9,bits=4)").ToString(),
            "topk(k=9,bits=4,exact_fallback=0.5,sink=16,window=128)");
  EXPECT_EQ(Parsed("auto(error=0.01)").ToString(), "auto(error=0.01,bits=4,sink=16,window=128)");
  EXPECT_EQ(Parsed("auto(error=0.01,index=clustered,effort=1.5)").ToString(),
            "auto(error=0.01,index=clustered,effort=1.5,bits=4,sink=16,window=128)");
  EXPECT_EQ(Parsed("auto(error=0.01,index=flat)").ToString(),
            "auto(error=0.01,index=flat,bits=4,sink=16,window=128)");
  EXPECT_EQ(Parsed("auto(error=0.01,bits=exact)").ToString(),
            "auto(error=0.01,bits=exact,sink=16,window=128)");
}

TEST(PlanTest, PresetsAreThePapersSettings) {
  const LayerPlan alaya = Parsed("alaya");
  EXPECT_EQ(alaya.Get("alpha"), 0.012);
  EXPECT_EQ(alaya.sink, 128u);
  EXPECT_EQ(alaya.window, 512u);
  EXPECT_EQ(Parsed("retrieval_attention").Get("k"), 100);
  EXPECT_EQ(Parsed("retrieval_attention(k=7)").Get("k"), 7);
  EXPECT_EQ(Parsed("alaya(beta=50)").ToString(), "dipr(beta=50,sink=128,window=512,tail=exact)");
  EXPECT_EQ(Parsed("retrieval_attention(tail=searched)").ToString(),
            "topk(k=100,sink=128,window=512)");
}

TEST(PlanTest, ATailThatIsExactIsNoCandidate) {
  const LayerPlan plan = Parsed("topk(k=5,sink=4,window=10,tail=exact)");
  EXPECT_EQ(plan.MiddleOf(100, 80), (TokenRange{4, 70}));
  EXPECT_EQ(plan.MiddleOf(60, 80), (TokenRange{4, 50})) << "a row within what is stored";
  EXPECT_EQ(plan.NumFixed(100, 80), 34u);
  EXPECT_EQ(plan.NumFixed(100, 0), 100u);
  EXPECT_EQ(plan.NumFixed(100, 13), 100u);
  EXPECT_EQ(plan.NumFixed(3, 3), 3u);
  const LayerPlan searched = Parsed("topk(k=5,sink=4,window=10)");
  EXPECT_EQ(searched, Parsed("topk(k=5,sink=4,window=10,tail=searched)"));
  EXPECT_EQ(searched.MiddleOf(100, 80), (TokenRange{4, 90}));
  EXPECT_EQ(searched.NumFixed(100, 0), 14u);
  EXPECT_EQ(searched.NumFixed(14, 0), 14u);
  EXPECT_EQ(searched.NumFixed(9, 0), 9u);
}

TEST(PlanTest, ProductCodesHaveSettings) {
  const LayerPlan published = Parsed("pqcache");
  EXPECT_EQ(published.ToString(), "topk(ratio=0.2,index=pq,m=2,b=6,await=1,sink=16,window=128)");
  EXPECT_EQ(published.FindsBy(), "pq_2x6");
  EXPECT_TRUE(published.Finds());
  EXPECT_EQ(Parsed("pqcache(ratio=0.1,m=4,b=8)").FindsBy(), "pq_4x8");
  EXPECT_EQ(Parsed("pqcache(k=1600)").ToString(),
            "topk(k=1600,index=pq,m=2,b=6,await=1,sink=16,window=128)");
  EXPECT_EQ(Parsed("dipr(alpha=0.1,index=pq)").FindsBy(), "pq_8x8");
  EXPECT_EQ(Parsed("topk(k=5,index=pq)").Effort(), 1.0f);
  EXPECT_EQ(Parsed("topk(k=5,index=clustered)").FindsBy(), "clusters");
}

TEST(PlanTest, BlocksHaveSettings) {
  const LayerPlan pages = Parsed("topk(k=1024,index=quest)");
  EXPECT_EQ(pages.FindsBy(), "quest_16");
  EXPECT_EQ(pages.Effort(), 1.0f);
  EXPECT_TRUE(pages.Finds());
  EXPECT_EQ(Parsed("topk(k=5,index=quest,page=64,effort=4)").ToString(),
            "topk(k=5,index=quest,page=64,effort=4,sink=16,window=128)");
  EXPECT_EQ(Parsed("infllm").ToString(), "topk(k=2048,index=infllm,sink=128,window=4096)");
  EXPECT_EQ(Parsed("infllm").FindsBy(), "infllm_128x4");
  EXPECT_EQ(Parsed("infllm(block=512,representatives=8)").FindsBy(), "infllm_512x8");
}

TEST(PlanTest, WavesEstimateWhatTheyLeaveOut) {
  const LayerPlan wave = Parsed("topk(k=1024,index=wave)");
  EXPECT_EQ(wave.FindsBy(), "wave_16");
  EXPECT_EQ(wave.EstimatesBy(), "wave_16");
  EXPECT_EQ(wave.EstimatedShare(), 0.232);
  EXPECT_TRUE(wave.Estimates());
  EXPECT_EQ(wave.ToString(), "topk(k=1024,index=wave,sink=16,window=128)");
  EXPECT_EQ(Parsed("topk(k=8,index=wave,cluster=32)").EstimatesBy(), "wave_32");
  EXPECT_EQ(Parsed("topk(remainder=clusters,k=8,index=wave)").EstimatedShare(), 1.0);
  EXPECT_EQ(Parsed("retroinfer").ToString(),
            "topk(ratio=0.018,index=wave,sink=4,window=64,tail=exact)");
  // Another index than the preset's forgets how that one estimates; what was said stays.
  EXPECT_EQ(Parsed("retroinfer(index=pq)").EstimatedShare(), 0.0);
  EXPECT_EQ(Parsed("retroinfer(remainder=clusters,index=pq)").EstimatedShare(), 1.0);
}

TEST(PlanTest, AnyIndexMayEstimateByClusters) {
  const LayerPlan graph = Parsed("dipr(beta=50,index=graph,remainder=clusters:0.5)");
  EXPECT_EQ(graph.FindsBy(), "graph");
  EXPECT_EQ(graph.EstimatesBy(), "wave_16");
  EXPECT_EQ(graph.EstimatedShare(), 0.5);
  EXPECT_TRUE(graph.ReadsDerived());
  EXPECT_FALSE(graph.ReadsMeans());
  EXPECT_EQ(Parsed("topk(k=8,index=quest,remainder=clusters)").EstimatedShare(), 1.0);
}

TEST(PlanTest, GraphsAreToldHowToWalk) {
  const LayerPlan ours = Parsed("dipr(beta=50,index=graph)");
  EXPECT_EQ(ours.Word("walk"), "group");
  EXPECT_EQ(ours.Word("expand"), "hidden");
  EXPECT_EQ(ours.Word("none"), "");
  EXPECT_FALSE(ours.Given("walk"));
  EXPECT_EQ(Parsed("full").Word("walk"), "");
  const LayerPlan published = Parsed("dipr(beta=50,index=graph,walk=diprs,l0=0,expand=all)");
  EXPECT_EQ(published.Word("walk"), "diprs");
  EXPECT_EQ(published.Get("l0"), 0);
  EXPECT_TRUE(published.Given("l0"));
  EXPECT_EQ(published.ToString(),
            "dipr(beta=50,index=graph,walk=diprs,l0=0,expand=all,sink=16,window=128)");
  EXPECT_EQ(Parsed("alaya(index=graph,walk=diprs)").Get("l0"), 256);
  EXPECT_EQ(Parsed("topk(k=9,index=graph,expand=all)").Word("expand"), "all");
}

TEST(PlanTest, GraphsAreOfAGroupOrOfEachHead) {
  EXPECT_EQ(Parsed("topk(k=9,index=graph,graphs=group)").FindsBy(), "graph");
  const LayerPlan heads = Parsed("dipr(beta=5,index=roargraph,walk=diprs,l0=64,graphs=head)");
  EXPECT_EQ(heads.FindsBy(), "roargraph_head");
  EXPECT_EQ(heads.Word("graphs"), "head");
  EXPECT_EQ(heads.ToString(),
            "dipr(beta=5,index=roargraph,walk=diprs,l0=64,graphs=head,sink=16,window=128)");
  EXPECT_EQ(Parsed("topk(k=9,index=pq,m=4,b=6)").FindsBy(), "pq_4x6");
  const PlanRegistry registry = BuiltinPlans();
  EXPECT_THAT(Plan::Parse("topk(k=9,index=graph,graphs=q)", registry).status().message(),
              HasSubstr("graphs must be group or head"));
  EXPECT_FALSE(Plan::Parse("topk(k=9,index=clustered,graphs=head)", registry).ok());
}

TEST(PlanTest, WhatBelongsToOneWalkIsRefusedOfTheOther) {
  const auto message = [](std::string_view text) {
    const Status status = Parse(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    return std::string(status.message());
  };
  EXPECT_THAT(message("dipr(beta=5,index=graph,walk=best)"),
              AllOf(HasSubstr("column 30"), HasSubstr("walk must be group or diprs")));
  EXPECT_THAT(message("dipr(beta=5,index=graph,walk=1)"), HasSubstr("walk must be group or diprs"));
  EXPECT_THAT(message("dipr(beta=5,index=graph,expand=)"), HasSubstr("hidden or all"));
  EXPECT_THAT(message("topk(k=5,index=graph,walk=diprs)"), HasSubstr("needs dipr, for example"));
  EXPECT_THAT(message("dipr(beta=5,index=graph,l0=8)"), HasSubstr("l0 is of walk=diprs"));
  EXPECT_THAT(message("dipr(beta=5,index=graph,walk=diprs,beam_width=8)"), HasSubstr("give l0"));
  EXPECT_THAT(message("dipr(beta=5,index=graph,walk=diprs,l0=-1)"),
              HasSubstr("expected a whole number from 0"));
  EXPECT_THAT(message("dipr(beta=5,walk=diprs)"), HasSubstr("unknown key 'walk'"));
  EXPECT_THAT(message("dipr(beta=5,index=clustered,expand=all)"), HasSubstr("unknown key"));
}

TEST(PlanTest, AnyPlanThatChoosesCanSayThatEnginesWait) {
  EXPECT_FALSE(Parsed("topk(k=5)").awaits);
  for (const char* text : {"topk(k=5,bits=4,await=1,sink=16,window=128)",
                           "dipr(beta=1,index=graph,await=1,sink=16,window=128)",
                           "mass(p=0.9,bits=8,remainder=mean,await=1,sink=16,window=128)",
                           "mass(p=0.9,exact_fallback=0.1,await=1,sink=16,window=128)",
                           "auto(error=0.1,bits=4,value_bits=8,await=1,sink=16,window=128)"}) {
    EXPECT_TRUE(Parsed(text).awaits) << text;
    EXPECT_TRUE(Parsed(text).ReadsDerived()) << text;
    EXPECT_EQ(Parsed(text).ToString(), text);
  }
  EXPECT_EQ(Parsed("topk(k=5,await=0)"), Parsed("topk(k=5)"));
  EXPECT_FALSE(Parsed("topk(k=5,await=1)").ReadsDerived());
  EXPECT_FALSE(Parsed("full").ReadsDerived());
  EXPECT_TRUE(Parsed("pqcache").awaits);
  EXPECT_EQ(Parsed("pqcache(await=0)").ToString(),
            "topk(ratio=0.2,index=pq,m=2,b=6,sink=16,window=128)");
}

TEST(PlanTest, WordsAreReadAndWritten) {
  const LayerPlan rules = Parsed("auto(rules=alaya)");
  EXPECT_EQ(rules.kind, QueryKind::kRules);
  EXPECT_EQ(rules.Word("rules"), "alaya");
  EXPECT_EQ(rules.ToString(), "auto(rules=alaya)");
  EXPECT_FALSE(rules.Chooses()) << "what it runs is settled later";
  EXPECT_EQ(Parsed("auto(memory=24,rules=alaya)").ToString(), "auto(rules=alaya,memory=24)");
  EXPECT_EQ(Parsed("auto(await=1,rules=alaya)").ToString(), "auto(rules=alaya,await=1)");
  EXPECT_EQ(Parsed("auto(error=0.1)").Word("rules"), "");
  EXPECT_EQ(Parsed("full").Word("rules"), "");
  EXPECT_EQ(Parsed("topk(k=5)").Word("budget"), "");
  EXPECT_EQ(Parsed("retrieval_attention(budget=pyramid)").ToString(),
            "topk(k=100,budget=pyramid,sink=128,window=512,tail=exact)");
  EXPECT_THAT(Parse("auto(rules=fig8)").status().message(), HasSubstr("rules must be alaya"));
  EXPECT_THAT(Parse("topk(k=5,budget=4)").status().message(),
              HasSubstr("budget must be even or pyramid"));
}

TEST(PlanTest, SettingsThatThereAreNotAreRefused) {
  for (const auto& [text, message] :
       {std::pair{"topk(k=5,index=pq,m=3)", "column 21: m, the number of subspaces, must be"},
        std::pair{"topk(k=5,index=pq,m=64)", "must be 2, 4, 8, 16 or 32"},
        std::pair{"topk(k=5,index=pq,b=5)", "b, the bits of a subspace, must be 4, 6 or 8"},
        std::pair{"topk(k=5,index=pq,effort=0.5)", "effort must be a number from 1 to 100"},
        std::pair{"topk(k=5,m=4)", "unknown key 'm'"},
        std::pair{"topk(ratio=0)", "ratio must be a number in (0, 1]"},
        std::pair{"topk(k=5,ratio=0.5)", "give k or ratio, not both"},
        std::pair{"topk(k=5,await=2)", "column 16: await must be 0 or 1"},
        std::pair{"topk(k=5,tail=dense)", "column 15: tail must be searched or exact"},
        std::pair{"auto(error=0.1,tail=exact)", "column 16: unknown key 'tail'"},
        std::pair{"window(tail=exact)", "column 8: unknown key 'tail'"},
        std::pair{"topk(k=5,static=prefill:0)",
                  "column 17: static must be none, or prefill:n with"},
        std::pair{"topk(k=5,static=prefill:4097)", "a whole number n from 1 to 4096"},
        std::pair{"topk(k=5,static=prefill:-1)", "a whole number n from 1 to 4096"},
        std::pair{"topk(k=5,static=prefill:1.5)", "a whole number n from 1 to 4096"},
        std::pair{"topk(k=5,static=prefill:)", "a whole number n from 1 to 4096"},
        std::pair{"topk(k=5,static=prefill)", "static must be none, or prefill:n"},
        std::pair{"topk(k=5,static=64)", "static must be none, or prefill:n"},
        std::pair{"topk(k=5,static=snapkv:64)", "static must be none, or prefill:n"},
        std::pair{"topk(k=5,static=none,static=none)", "key 'static' is given twice"},
        std::pair{"auto(error=0.1,static=prefill:64)", "column 16: unknown key 'static'"},
        std::pair{"auto(rules=alaya,static=prefill:64)", "unknown key 'static'"},
        std::pair{"window(static=prefill:64)", "column 8: unknown key 'static'"},
        std::pair{"topk(k=5,await=yes)", "column 16: await must be 0 or 1"},
        std::pair{"topk(k=5,await=)", "column 16: await must be 0 or 1"},
        std::pair{"topk(k=5,await=1,await=1)", "key 'await' is given twice"},
        std::pair{"window(await=1)", "column 8: unknown key 'await'"},
        std::pair{"full(await=0)", "column 6: unknown key 'await'"},
        std::pair{"topk(k=5,index=quest,page=12)", "page, the tokens of a page, must be 8, 16, 32"},
        std::pair{"topk(k=5,index=quest,page=0)", "column 27: expected a whole number from 1"},
        std::pair{"topk(k=5,index=quest,block=32)", "unknown key 'block'"},
        std::pair{"topk(k=5,index=quest,effort=1001)", "effort must be a number from 1 to 1000"},
        std::pair{"topk(k=5,index=infllm,block=100)", "block, the tokens of a block, must be 32"},
        std::pair{"topk(k=5,index=infllm,representatives=3)", "must be 1, 2, 4 or 8"},
        std::pair{"dipr(beta=1,index=quest)", "index=quest finds blocks of the best tokens; dipr"},
        std::pair{"mass(p=0.9,index=infllm)", "mass needs the scores of all"},
        std::pair{"mass(p=0.9,index=graph)", "mass needs the scores of all"},
        std::pair{"topk(k=5,index=wave,cluster=12)", "cluster, the mean tokens of a cluster, must"},
        std::pair{"dipr(beta=1,index=wave)", "index=wave finds blocks of the best tokens; dipr"},
        std::pair{"topk(k=5,remainder=clusters)", "stands for what an index did not look at"},
        std::pair{"topk(k=5,index=pq,remainder=clusters:0)", "a share in (0, 1]"},
        std::pair{"topk(k=5,index=pq,remainder=clusters:1.1)", "a share in (0, 1]"},
        std::pair{"topk(k=5,index=pq,remainder=clusters:)", "a share in (0, 1]"},
        std::pair{"topk(k=5,index=pq,remainder=clustersx)", "a share in (0, 1]"},
        std::pair{"topk(k=5,index=pq,remainder=mean)", "needs remainder=drop or clusters"}}) {
    const Result<Plan> plan = Parse(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_THAT(plan.status().message(), HasSubstr(message)) << text;
  }
}

TEST(PlanTest, StaticTokensOfThePrompt) {
  const LayerPlan plan = Parsed("topk(k=5,static=prefill:64)");
  EXPECT_EQ(plan.num_static, 64u);
  EXPECT_EQ(plan.ToString(), "topk(k=5,sink=16,window=128,static=prefill:64)");
  EXPECT_TRUE(plan.ReadsDerived());
  EXPECT_FALSE(plan.DerivesFromTail()) << "queries of the tail are of no prompt yet";
  EXPECT_EQ(Parsed("pqcache(static=prefill:4096)").num_static, 4096u);
  EXPECT_EQ(Parsed("retrieval_attention(static=prefill:64)").ToString(),
            "topk(k=100,sink=128,window=512,tail=exact,static=prefill:64)");
  const LayerPlan none = Parsed("topk(k=5,static=none)");
  EXPECT_EQ(none, Parsed("topk(k=5)"));
  EXPECT_FALSE(none.HasStatic());
}

TEST(PlanTest, LaterOverridesWin) {
  const Result<Plan> plan = Parse("topk(k=8); layers 0-3,7: full; layers 2: window;");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->ForLayer(0).kind, QueryKind::kFull);
  EXPECT_EQ(plan->ForLayer(2).kind, QueryKind::kWindow);
  EXPECT_EQ(plan->ForLayer(5).kind, QueryKind::kSearch);
  EXPECT_EQ(plan->ForLayer(7).kind, QueryKind::kFull);
  EXPECT_TRUE(plan->CheckLayers(8).ok());
  EXPECT_EQ(plan->CheckLayers(7).code(), StatusCode::kInvalidArgument);
}

TEST(PlanTest, TextRoundTrips) {
  for (const char* text : {"full",
                           "topk(k=3); layers 0: full; layers 1-2: dipr(beta=0.1)",
                           "dipr(alpha=0.012,sink=1,window=9)",
                           "window",
                           "alaya",
                           "mass(p=0.9)",
                           "auto(error=0.03)",
                           "auto(error=0.01,bits=exact)",
                           "auto(tpot=7.5)",
                           "mass(p=1,bits=8,remainder=sample:7,sink=0)",
                           "topk(k=8,index=wave,remainder=drop)",
                           "topk(k=8,index=wave,cluster=64,remainder=clusters:0.5)",
                           "topk(k=8,index=wave)",
                           "dipr(beta=1,index=graph,remainder=clusters)",
                           "mass(p=0.9,bits=8,exact_fallback=1e-5)",
                           "alaya(exact_fallback=1)",
                           "pqcache",
                           "mass(p=0.5,tail=exact)",
                           "topk(k=8,static=prefill:64)",
                           "retrieval_attention(index=roargraph,static=prefill:1)",
                           "auto(rules=alaya)",
                           "topk(budget=pyramid,ratio=0.1)",
                           "full; layers 1: auto(rules=alaya,await=1)",
                           "pqcache(await=0); layers 1: auto(error=0.1,await=1)"}) {
    const Result<Plan> plan = Parse(text);
    ASSERT_TRUE(plan.ok()) << plan.status();
    const Result<Plan> again = Parse(plan->ToString());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(plan->ToString(), again->ToString());
    for (LayerId layer = 0; layer < 4; ++layer) {
      EXPECT_EQ(plan->ForLayer(layer), again->ForLayer(layer)) << text;
    }
  }
}

TEST(PlanTest, ErrorsNameTheColumn) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"fulll", "column 1: unknown query 'fulll'"},
      {"", "column 1: unknown query"},
      {"quest",
       "column 1: 'quest' is an index, which a query searches by: topk(k=...,index=quest)"},
      {"graph(k=4)", "column 1: 'graph' is an index, which a query searches by: topk(k=...,index="},
      {"full; layers 3: flat", "column 17: 'flat' is an index"},
      {"topk(k=0)", "column 8: expected a whole number from 1"},
      {"topk(k=99999999999)", "column 8: expected a whole number"},
      {"topk(k=5", "column 9: expected ')'"},
      {"topk", "column 1: topk needs k"},
      {"topk(beta=1)", "column 6: unknown key 'beta'"},
      {"topk(k=1,k=2)", "column 10: key 'k' is given twice"},
      {"dipr(alpha=2)", "column 12: alpha must be"},
      {"dipr(beta=nan)", "column 11: beta must be"},
      {"dipr(beta=1,alpha=0.5)", "column 13: give beta or alpha"},
      {"full(sink=3)", "column 6: unknown key 'sink'"},
      {"auto", "column 1: auto needs error or tpot"},
      {"auto(tpot=0)", "column 11: tpot must be"},
      {"auto(error=0.1,tpot=3)", "column 16: give error or tpot, not both"},
      {"auto(rules=alaya,error=0.1)", "column 18: give error or rules, not both"},
      {"auto(rules=alaya,sink=4)", "column 18: leave out key 'sink': rules decide that"},
      {"auto(await=1,index=graph,rules=alaya)", "column 14: leave out key 'index'"},
      {"auto(error=0.1,memory=24)", "column 1: memory needs rules=alaya"},
      {"auto(rules=alaya,memory=0)", "column 25: memory must be a number of GiB"},
      {"auto(memory=24)", "column 1: memory needs rules=alaya"},
      {"auto(rules=alaya,k=4)", "column 18: unknown key 'k'"},
      {"topk(budget=pyramid)", "column 1: topk needs k or ratio"},
      {"dipr(beta=1,budget=pyramid)", "column 13: unknown key 'budget'"},
      {"topk(k=1,budget=even,budget=even)", "column 22: key 'budget' is given twice"},
      {"auto(error=0)", "column 12: error must be"},
      {"auto(error=0.01,remainder=drop)", "column 17: unknown key 'remainder'"},
      {"mass", "column 1: mass needs p"},
      {"mass(p=0)", "column 8: p must be"},
      {"mass(p=1.5)", "column 8: p must be"},
      {"mass(k=3)", "column 6: unknown key 'k'"},
      {"topk(k=1,remainder=sample:0)", "column 20: expected sample:n"},
      {"topk(k=1,remainder=sample:)", "column 20: expected sample:n"},
      {"topk(k=1,exact_fallback=0)", "column 25: exact_fallback must be a number in (0, 1]"},
      {"topk(k=1,exact_fallback=1.5)", "column 25: exact_fallback must be"},
      {"topk(k=1,exact_fallback=x)", "column 25: exact_fallback must be"},
      {"mass(p=1,remainder=sample:9,exact_fallback=0.1)",
       "column 29: exact_fallback needs remainder=drop"},
      {"auto(error=0.1,exact_fallback=0.1)", "column 16: unknown key 'exact_fallback'"},
      {"window(exact_fallback=0.1)", "column 8: unknown key 'exact_fallback'"},
      {"topk(k=3)(sink=1)", "column 10: expected ';' or the end"},
      {"auto(rules=fig8)", "column 12: rules must be alaya"},
      {"auto(rules=)", "column 12: rules must be alaya"},
      {"topk(k=1,budget=4)", "column 17: budget must be even or pyramid"},
      {"full extra", "column 6: expected ';' or the end"},
      {"full; layer 0: full", "column 7: expected 'layers'"},
      {"full; layers x: full", "column 14: expected the number of a layer"},
      {"full; layers 3-1: full", "column 17: the range of layers is empty"},
      {"full; layers 1 full", "column 16: expected ':'"},
  };
  for (const auto& c : cases) {
    const Result<Plan> plan = Parse(c.text);
    ASSERT_FALSE(plan.ok()) << c.text;
    EXPECT_EQ(plan.status().code(), StatusCode::kInvalidArgument) << c.text;
    EXPECT_THAT(plan.status().message(), HasSubstr(c.message));
  }
}

TEST(PlanTest, ValuesOfLaterVersionsAreUnsupportedNotIgnored) {
  for (const char* text :
       {"topk(k=5,index=coarse)", "dipr(beta=1,bits=2)", "dipr(beta=1,remainder=planes:3)",
        "topk(k=1,remainder=planes:)", "mass(p=0.5,bits=many)", "auto(error=0.01,value_bits=4)"}) {
    const Result<Plan> plan = Parse(text);
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.status().code(), StatusCode::kUnsupported) << plan.status();
    EXPECT_THAT(plan.status().message(), HasSubstr("column"));
  }
}

TEST(PlanTest, ValuesOfFormerVersionsNameWhatTakesTheirPlace) {
  const struct {
    const char* text;
    const char* message;
  } cases[] = {
      {"topk(k=5,bits=1)", "column 15: bits=1 is no more; bits=4 takes its place"},
      {"auto(error=0.03,bits=1)", "column 22: bits=1 is no more; bits=4 takes its place"},
      {"topk(k=5,remainder=planes:2)",
       "column 20: remainder=planes:2 is no more; remainder=sample:512 takes its place"},
      {"mass(p=0.9,bits=4,remainder=planes:8)",
       "column 29: remainder=planes:8 is no more; remainder=sample:1024 takes its place"},
  };
  for (const auto& c : cases) {
    const Result<Plan> plan = Parse(c.text);
    ASSERT_FALSE(plan.ok()) << c.text;
    EXPECT_EQ(plan.status().code(), StatusCode::kUnsupported) << c.text;
    EXPECT_THAT(plan.status().message(), HasSubstr(c.message));
  }
}

TEST(PlanTest, SaysWhatBecomesOfTheRemainder) {
  EXPECT_TRUE(Parsed("auto(error=0.01)").Draws());
  EXPECT_TRUE(Parsed("auto(error=0.01)").Estimates());
  EXPECT_FALSE(Parsed("mass(p=0.7,remainder=sample:9)").Draws());
  EXPECT_TRUE(Parsed("mass(p=0.7,remainder=sample:9)").Estimates());
  EXPECT_FALSE(Parsed("mass(p=0.7)").Estimates());
}

TEST(PlanTest, RandomTextNeverCrashes) {
  std::mt19937 random(17);
  constexpr std::string_view kPieces[] = {
      "full",  "topk",   "dipr",    "(",    ")",         "k",       "=",    ",",
      ";",     "0",      "-",       "12",   ":",         "layers",  " ",    "beta",
      "mass",  "p",      ".",       "bits", "remainder", "sample:", "auto", "rules",
      "alaya", "budget", "pyramid", "tail", "exact",     "memory"};
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (auto n = random() % 12; n > 0; --n) text += kPieces[random() % std::size(kPieces)];
    const Result<Plan> plan = Parse(text);
    if (plan.ok()) {
      EXPECT_TRUE(Parse(plan->ToString()).ok()) << text;
    }
  }
}

}  // namespace
}  // namespace attndb::planner
