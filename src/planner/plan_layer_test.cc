// Goal:   the rules of AlayaDB's Fig. 8 hold in their order. Beyond them a head takes the cheaper
//         plan: on any machine it ends with the faster plan there, and loses almost no time on the
//         way.
// Method: pure functions over made-up facts and prices, and a simulated machine whose real costs
//         differ from the predicted ones; no disk.
#include "planner/plan_layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "planner/builtin_plans.h"

namespace attndb::planner {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kHeads = 3;

class PlanLayerTest : public ::testing::Test {
 protected:
  PlanLayerTest()
      : registry_(BuiltinPlans()),
        spec_(ModelSpec::Uniform(2,
                                 {.num_q_heads = 9,
                                  .num_kv_heads = kHeads,
                                  .head_dim = 64,
                                  .v_head_dim = 64,
                                  .scale = 0.125f},
                                 DType::kFloat16, "test")),
        learned_(spec_, /*learns=*/true) {}

  // A question about a stored chain of one segment, whose planes and clusters are ready.
  LayerQuestion Ask(std::string_view text, uint64_t num_tokens) {
    plan_ = Plan::Parse(text, registry_)->ForLayer(0);
    runs_ = {{.num_tokens = num_tokens, .may_have_planes = true, .has_planes = true}};
    LayerQuestion question;
    question.layer = 1;
    question.spec = &spec_.layers[1];
    question.plan = &plan_;
    question.registry = &registry_;
    question.chain.num_tokens = num_tokens;
    question.chain.num_stored = question.chain.num_stored_seen = num_tokens;
    question.chain.runs = runs_;
    return question;
  }
  LayerExecution Answer(const LayerQuestion& question) const {
    LayerExecution execution;
    PlanLayer(question, learned_, machine_, &execution);
    return execution;
  }
  HeadExecution First(const LayerQuestion& question) const { return Answer(question).heads[0]; }

  // A head's statistics before the next question.
  void Learn(uint32_t kv_head, const std::function<void(HeadStatistics*)>& change) {
    LearnedState::Layers layers = learned_.layers();
    change(&layers[1][kv_head]);
    learned_ = LearnedState(spec_, /*learns=*/true);
    learned_.Restore(layers);
  }
  // Both methods of all heads are known well enough: nobody tries them first.
  void KnowAll() {
    for (uint32_t i = 0; i < kHeads; ++i) {
      Learn(i, [](HeadStatistics* head) { head->time.fill(MeanRatio(1, 8)); });
    }
  }

  // Decodes `num_calls` tokens on a machine on which a method takes so many times what is
  // predicted. Returns the time of all heads, and counts what they did.
  double Run(std::string_view text, uint64_t num_tokens, int num_calls,
             const std::function<HeadObservation(uint32_t kv_head, const HeadExecution&)>& take) {
    double total = 0;
    LayerQuestion question = Ask(text, num_tokens);
    counts_.assign(kHeads, {});
    for (int call = 0; call < num_calls; ++call) {
      const LayerExecution did = Answer(question);
      std::vector<HeadObservation> seen;
      for (uint32_t i = 0; i < kHeads; ++i) {
        seen.push_back(take(i, did.heads[i]));
        total += seen.back().ns;
        ++counts_[i][static_cast<size_t>(did.heads[i].method)];
      }
      learned_.Observe(1, 1, did, seen);
    }
    return total;
  }
  static auto Factors(double full, double scan, double index) {
    return [=](uint32_t, const HeadExecution& head) {
      const std::array<double, kNumMethods> factors = {full, scan, index};
      const auto method = static_cast<size_t>(head.method);
      return HeadObservation{.selected = 200, .ns = head.cost[method].ns * factors[method]};
    };
  }

  PlanRegistry registry_;
  ModelSpec spec_;
  LayerPlan plan_;
  std::vector<RunFacts> runs_;
  MachineConstants machine_;
  LearnedState learned_;
  std::vector<std::array<int, kNumMethods>> counts_;  // [kv head][method]
};

TEST_F(PlanLayerTest, RulesComeFirst) {
  EXPECT_EQ(RuleFor(Ask("full", 100)), "");
  EXPECT_EQ(RuleFor(Ask("auto(error=0.01)", kShortContextTokens)), "short context: full");
  EXPECT_EQ(RuleFor(Ask("auto(error=0.01)", kShortContextTokens + 1)), "");
  EXPECT_EQ(RuleFor(Ask("topk(k=3)", 500)), "");
  EXPECT_THAT(std::string(RuleFor(Ask("topk(k=3)", 144))), HasSubstr("sink and window"));
  LayerQuestion many = Ask("auto(error=0.01)", 9000);
  many.num_rows = 65;
  EXPECT_THAT(std::string(RuleFor(many)), HasSubstr("dense_query_tokens"));
  EXPECT_TRUE(Answer(many).all_full);
  EXPECT_EQ(Answer(many).full_reason, RuleFor(many));
  spec_.layers[1].sliding_window = 100;
  EXPECT_THAT(std::string(RuleFor(Ask("auto(error=0.01)", 9000))), HasSubstr("sliding-window"));
}

TEST_F(PlanLayerTest, LongContextsAreSearchedAndShortOnesRead) {
  KnowAll();
  EXPECT_EQ(First(Ask("auto(error=0.01)", 1200)).method, Method::kFull);
  const HeadExecution far = First(Ask("auto(error=0.01,index=flat)", 131072));
  EXPECT_EQ(far.method, Method::kScan);
  EXPECT_EQ(far.reason, Reason::kScanCheaper);
  EXPECT_LT(far.cost_of(Method::kScan).bytes, 0.3 * far.cost_of(Method::kFull).bytes);
  EXPECT_LT(far.ns_of(Method::kScan), far.ns_of(Method::kFull));
}

TEST_F(PlanLayerTest, SmallerErrorsNeedMoreRows) {
  double last = 0;
  for (const char* plan : {"auto(error=0.1)", "auto(error=0.01)", "auto(error=0.005)"}) {
    const HeadExecution head = First(Ask(plan, 65536));
    EXPECT_GT(head.rows, last);
    EXPECT_GT(head.budget.tolerated_error, head.aimed_error);
    last = head.rows;
  }
  EXPECT_LE(First(Ask("auto(error=0.000001)", 65536)).rows, 65536);
}

TEST_F(PlanLayerTest, CodesOfValuesCostLessThanRowsOfV) {
  const Cost exact = First(Ask("auto(error=0.01)", 131072)).cost_of(Method::kScan);
  const Cost coded = First(Ask("auto(error=0.01,value_bits=8)", 131072)).cost_of(Method::kScan);
  EXPECT_LT(coded.bytes, exact.bytes);
  EXPECT_LT(coded.ns, exact.ns);
}

TEST_F(PlanLayerTest, MeansOfTheRemainderArePriced) {
  const HeadExecution dropped = First(Ask("topk(k=1000,sink=4,window=6)", 1100));
  const HeadExecution by_means = First(Ask("topk(k=1000,sink=4,window=6,remainder=mean)", 1100));
  // The remainder is 1,090 tokens of 64 channels: a 64th of the mean's two bytes each.
  EXPECT_EQ(by_means.predicted().bytes, dropped.predicted().bytes + 3 * 1090 * 64 * 2.0 / 64);
}

TEST_F(PlanLayerTest, AHeadThatNeedsManyRowsRunsFull) {
  KnowAll();
  Learn(0, [](HeadStatistics* head) { head->rows = MeanRatio(64, 8); });
  const HeadExecution head = First(Ask("auto(error=0.01)", 131072));
  EXPECT_EQ(head.method, Method::kFull);
  EXPECT_EQ(head.reason, Reason::kFullCheaper);
}

TEST_F(PlanLayerTest, WhatIsAskedIsPricedAndNotReplaced) {
  const HeadExecution head = First(Ask("topk(k=1000,sink=4,window=6)", 1100));
  EXPECT_EQ(head.method, Method::kScan);
  EXPECT_EQ(head.reason, Reason::kAsAsked);
  EXPECT_EQ(head.selected, 1000);
  EXPECT_EQ(head.predicted().bytes, 1100 * 128 + 3 * 1010 * 128);
}

TEST_F(PlanLayerTest, WithoutPlanesKeysAreScored) {
  LayerQuestion question = Ask("auto(error=0.01)", 131072);
  EXPECT_LT(First(question).cost_of(Method::kScan).bytes, 131072 * 128);
  EXPECT_EQ(NotesOf(question), "");
  runs_[0].has_planes = false;
  EXPECT_GT(First(question).cost_of(Method::kScan).bytes, 131072 * 128);
  EXPECT_THAT(NotesOf(question), HasSubstr("no key planes"));
}

TEST_F(PlanLayerTest, NotesSayWhatTheRulesFound) {
  LayerQuestion question = Ask("auto(error=0.01)", 5001);
  question.chain.num_stored = 5000;
  question.chain.num_hidden = 3000;
  EXPECT_THAT(NotesOf(question), HasSubstr("the first 5000 of 8000 stored tokens"));
  const LayerPlan rules = Plan::Parse("auto(rules=alaya)", registry_)->ForLayer(0);
  question.plan = &rules;
  EXPECT_EQ(NotesOf(question), "partial reuse: filtered to the first 5000 of 8000 stored tokens");
}

TEST_F(PlanLayerTest, RuleSetsSayWhichRuleTookWhat) {
  LayerQuestion question = Ask("auto(rules=alaya)", 5000);
  EXPECT_EQ(Answer(question).plan.ToString(),
            "dipr(alpha=0.012,index=roargraph,walk=diprs,l0=1024,expand=all,sink=128,window=512,"
            "tail=exact)");
  EXPECT_EQ(Answer(question).ReasonOf(0), "Fig. 8: long context: DIPRS by a graph");
  EXPECT_EQ(Answer(question).full_reason, "");
  EXPECT_EQ(Answer(question).heads[0].method, Method::kIndex);
  const std::vector<uint8_t> non_finite = {0, 1, 0};
  question.chain.non_finite = non_finite;
  EXPECT_EQ(Answer(question).ReasonOf(1), "NaN or Inf: full");
  question.layer = 0;
  EXPECT_EQ(Answer(question).heads[0].method, Method::kScan);
  EXPECT_EQ(Answer(question).ReasonOf(0), "Fig. 8: long context, layer 0: DIPR, flat");
  question.num_rows = 65;
  EXPECT_THAT(std::string(Answer(question).full_reason), HasSubstr("dense_query_tokens"));
  EXPECT_EQ(Answer(question).ReasonOf(0), Answer(question).full_reason);
  const LayerExecution read_whole = Answer(Ask("auto(rules=alaya)", kShortContextTokens));
  EXPECT_TRUE(read_whole.all_full);
  EXPECT_EQ(read_whole.ReasonOf(0), "Fig. 8: short context: full");
  EXPECT_EQ(Answer(Ask("topk(k=3)", 5000)).ReasonOf(0), "");
}

TEST_F(PlanLayerTest, ALayersShareOfAPyramidIsPriced) {
  LayerQuestion question = Ask("topk(k=100,budget=pyramid)", 5000);
  question.num_layers = 2;
  EXPECT_EQ(First(question).selected, 5);
  question.layer = 0;
  EXPECT_EQ(First(question).selected, 195);
}

TEST_F(PlanLayerTest, LongContextsMayBeDrawnFromByAnIndex) {
  const auto offers = [&](std::string_view text, uint64_t num_tokens) {
    return Answer(Ask(text, num_tokens)).offers_index;
  };
  EXPECT_TRUE(offers("auto(error=0.01)", 131072));
  for (const auto& [group_size, least] :
       {std::pair{1u, 24576u}, {2u, 36864u}, {3u, 49152u}, {8u, 49152u}}) {
    spec_.layers[1].num_q_heads = kHeads * group_size;
    EXPECT_FALSE(offers("auto(error=0.01)", least - 1)) << group_size;
    EXPECT_TRUE(offers("auto(error=0.01)", least)) << group_size;
  }
  EXPECT_FALSE(offers("auto(error=0.01,bits=8)", 131072));
  EXPECT_FALSE(offers("auto(error=0.01,index=flat)", 131072));
  EXPECT_FALSE(offers("topk(k=8)", 131072));
}

TEST_F(PlanLayerTest, AnIndexIsTakenWhereItIsCheaperAndMissesLittle) {
  KnowAll();
  const auto method = [&](double time, double missed) {
    Learn(0, [&](HeadStatistics* head) {
      head->time_of(Method::kIndex) = MeanRatio(time, 8);
      head->missed = missed;
    });
    return First(Ask("auto(error=0.01)", 131072)).method;
  };
  EXPECT_EQ(method(0.5, 0), Method::kIndex);
  EXPECT_EQ(method(0.5, 0.004), Method::kIndex);
  EXPECT_EQ(method(0.5, 0.006), Method::kScan) << "over half of the error";
  EXPECT_EQ(method(64, 0), Method::kScan);
}

TEST_F(PlanLayerTest, SettledLayersArePricedToo) {
  EXPECT_EQ(First(Ask("full", 1000)).predicted().bytes, 1000 * 256);
  EXPECT_EQ(First(Ask("window(sink=4,window=6)", 1000)).predicted().bytes, 10 * 256);
  spec_.layers[1].sliding_window = 100;
  EXPECT_EQ(First(Ask("topk(k=3)", 1000)).predicted().bytes, 100 * 256);
}

TEST_F(PlanLayerTest, AnExecutionSaysHowEachHeadRuns) {
  KnowAll();
  Learn(0, [](HeadStatistics* head) { head->time_of(Method::kIndex) = MeanRatio(0.5, 8); });
  Learn(1, [](HeadStatistics* head) { head->time_of(Method::kIndex) = MeanRatio(64, 8); });
  LayerQuestion question = Ask("auto(error=0.01)", 200000);
  runs_ = {{.num_tokens = 100000, .may_have_planes = true, .has_planes = true},
           {.num_tokens = 99000, .may_have_planes = true, .has_planes = true},
           {.num_tokens = 1000}};
  question.chain.runs = runs_;
  const std::vector<uint8_t> non_finite = {0, 0, 1};
  question.chain.non_finite = non_finite;
  const LayerExecution execution = Answer(question);
  EXPECT_EQ(execution.heads[2].method, Method::kFull);
  EXPECT_EQ(execution.heads[2].reason, Reason::kNonFinite);
  EXPECT_EQ(execution.heads[0].method, Method::kIndex);
  EXPECT_EQ(execution.heads[1].method, Method::kScan);
  EXPECT_THAT(execution.PlanOf(0).ToString(), HasSubstr("index=clustered"));
  EXPECT_THAT(execution.PlanOf(1).ToString(), HasSubstr("index=flat"));
  EXPECT_EQ(execution.plan.index->name, "clustered");
}

// A head that may draw by codes ends up with whatever is fastest for it: codes, planes or full.
TEST_F(PlanLayerTest, HeadsDrawByCodesByPlanesOrNotAtAll) {
  const LayerQuestion question = Ask("auto(error=0.01,index=pq)", 100000);
  EXPECT_TRUE(question.plan->ReadsPlanes());
  const std::array<std::array<double, 3>, kHeads> factors = {{{1, 1, 3}, {1, 4, 1}, {1, 5, 5}}};
  (void)Run("auto(error=0.01,index=pq)", 100000, 200, [&](uint32_t i, const HeadExecution& head) {
    const auto method = static_cast<size_t>(head.method);
    return HeadObservation{.selected = 200, .ns = head.cost[method].ns * factors[i][method]};
  });
  EXPECT_GT(counts_[0][static_cast<size_t>(Method::kScan)], 180);
  EXPECT_GT(counts_[1][static_cast<size_t>(Method::kIndex)], 180);
  EXPECT_GT(counts_[2][static_cast<size_t>(Method::kFull)], 180);
  const LayerExecution execution = Answer(question);
  EXPECT_TRUE(execution.plan.DrawsByCodes());
  EXPECT_EQ(execution.heads[0].method, Method::kScan);
  EXPECT_EQ(execution.heads[1].method, Method::kIndex);
  EXPECT_EQ(execution.heads[2].method, Method::kFull);
  EXPECT_EQ(execution.PlanOf(0).index->name, "flat");
  EXPECT_EQ(execution.PlanOf(1).index->name, "pq");
  learned_ = LearnedState(spec_, /*learns=*/false);
  for (const HeadExecution& head : Answer(question).heads) EXPECT_NE(head.method, Method::kScan);
}

TEST_F(PlanLayerTest, IsNeverMuchSlowerThanFull) {
  for (const uint64_t num_tokens : {2000u, 8192u, 32768u}) {
    for (const double scan : {0.5, 1.0, 3.0, 8.0}) {
      for (const double full : {0.5, 1.0, 2.0}) {
        learned_ = LearnedState(spec_, /*learns=*/true);
        constexpr int kCalls = 600;
        const double total = Run("auto(error=0.01)", num_tokens, kCalls, Factors(full, scan, 1));
        const double full_ns = kCalls * kHeads * full *
                               First(Ask("auto(error=0.01)", num_tokens)).cost_of(Method::kFull).ns;
        EXPECT_LE(total, 1.05 * full_ns)
            << num_tokens << " tokens, scan " << scan << ", full " << full;
      }
    }
  }
}

TEST_F(PlanLayerTest, FindsOutWhenASearchPaysAfterAll) {
  Run("auto(error=0.01)", 16384, 20, Factors(1, 4, 1));
  LayerQuestion question = Ask("auto(error=0.01)", 16384);
  question.explores = false;
  EXPECT_TRUE(Answer(question).all_full);
  EXPECT_EQ(Answer(question).full_reason, "reading everything is cheaper: full");
  Run("auto(error=0.01)", 16384, 300, Factors(1, 0.5, 1));
  EXPECT_FALSE(Answer(question).all_full);
}

TEST_F(PlanLayerTest, ANewHeadIsTriedTwiceAndTheFirstTimeIsForgotten) {
  machine_.head *= 20;  // A search seems slower than it is, but not by much.
  LayerQuestion question = Ask("auto(error=0.01)", 8192);
  question.explores = false;
  ASSERT_TRUE(Answer(question).all_full);
  Run("auto(error=0.01)", 8192, 1, Factors(1, 4, 1));
  Run("auto(error=0.01)", 8192, 3, Factors(1, 0.3, 1));
  EXPECT_FALSE(Answer(question).all_full);
}

TEST_F(PlanLayerTest, HeadsEndUpWithAnIndexWhereItIsFasterAndFindsEnough) {
  // Head 0 scans half as fast as by the index, 1 twice as fast; what is missed by 2's is too much,
  // though it would be fast.
  const auto take = [](uint32_t head, const HeadExecution& did) {
    const double index_ns = head == 1 ? 4e5 : 1e5;
    HeadObservation seen;
    seen.ns = did.method == Method::kFull ? 2e6 : did.method == Method::kIndex ? index_ns : 2e5;
    seen.error = 0.009;
    if (did.method == Method::kIndex) seen.missed = head == 2 ? 0.1 : 0.0;
    return seen;
  };
  Run("auto(error=0.01)", 131072, 40, take);
  constexpr int kCalls = 1000;
  Run("auto(error=0.01)", 131072, kCalls, take);
  const auto share = [&](uint32_t head, Method method) {
    return counts_[head][static_cast<size_t>(method)] / double{kCalls};
  };
  EXPECT_GT(share(0, Method::kIndex), 0.98);
  EXPECT_GT(share(1, Method::kScan), 0.98);
  EXPECT_GT(share(2, Method::kScan), 0.98);
  const LearnedState::Layers layers = learned_.layers();
  learned_ = LearnedState(spec_, /*learns=*/true);
  learned_.Restore(layers);
  EXPECT_EQ(First(Ask("auto(error=0.01)", 131072)).method, Method::kIndex) << "the next session";
}

TEST_F(PlanLayerTest, WhatAnIndexThatIsNotThereTakesIsNotLearned) {
  const auto take = [](uint32_t, const HeadExecution& did) {
    const double ns = did.method == Method::kFull ? 2e6 : 2e5;
    return HeadObservation{.ns = did.method == Method::kIndex ? 0 : ns};
  };
  Run("auto(error=0.01)", 131072, 50, take);
  EXPECT_EQ(learned_.layers()[1][0].time_of(Method::kIndex).count(), 0u);
  LayerQuestion question = Ask("auto(error=0.01)", 131072);
  question.explores = false;
  EXPECT_EQ(First(question).method, Method::kScan);
}

TEST_F(PlanLayerTest, WithoutLearningTheChoiceStays) {
  learned_ = LearnedState(spec_, /*learns=*/false);
  const LayerQuestion question = Ask("auto(error=0.01)", 65536);
  const LayerExecution before = Answer(question);
  EXPECT_EQ(before.heads[0].method, Method::kScan) << "no index without proof";
  Run("auto(error=0.01)", 65536, 300, Factors(1, 50, 1));
  EXPECT_EQ(Answer(question).heads[0].method, Method::kScan);
  EXPECT_FALSE(learned_.has_learned());
}

TEST_F(PlanLayerTest, EqualQuestionsHaveEqualAnswers) {
  Run("auto(error=0.01)", 131072, 100, Factors(1, 1, 0.5));
  const LayerQuestion question = Ask("auto(error=0.01)", 131072);
  const LayerExecution one = Answer(question);
  const LayerExecution two = Answer(question);
  for (uint32_t i = 0; i < kHeads; ++i) {
    EXPECT_EQ(one.heads[i].method, two.heads[i].method);
    EXPECT_EQ(one.heads[i].ns, two.heads[i].ns);
    EXPECT_EQ(one.heads[i].budget.first_rows, two.heads[i].budget.first_rows);
  }
}

}  // namespace
}  // namespace attndb::planner
