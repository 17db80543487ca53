// Goal:   a session's optimizer learns what its heads cost: on any machine it ends up with what is
//         faster there, loses next to nothing on the way, and meets a TPOT objective or says so.
// Method: a simulated machine whose real costs differ from the predicted ones.
#include "planner/plan_advisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "db/builtin_plans.h"

namespace attndb::planner {
namespace {

constexpr uint32_t kLayers = 4;
constexpr uint32_t kHeads = 3;

ModelSpec Spec() {
  return ModelSpec::Uniform(
      kLayers,
      {.num_q_heads = 9, .num_kv_heads = kHeads, .head_dim = 64, .v_head_dim = 64, .scale = 0.125f},
      DType::kFloat16, "test");
}

ChainFacts Chain(uint64_t num_tokens) {
  return {.num_tokens = num_tokens, .num_stored = num_tokens, .num_plane_tokens = num_tokens};
}

class PlanAdvisorTest : public ::testing::Test {
 protected:
  PlanAdvisorTest() : registry_(internal::BuiltinPlans()), spec_(Spec()) {}

  PlanAdvisor Advise(std::string_view text, bool learns = true) {
    plan_ = *Plan::Parse(text, registry_);
    PlanAdvisor advisor(&spec_,
                        {.learns = learns,
                         .machine = [this](bool) -> const MachineConstants& { return machine_; },
                         .registry = &registry_});
    advisor.SetPlan(&plan_);
    return advisor;
  }

  // Decodes one token; what takes how long over the prediction. Returns the time of all heads.
  double Step(PlanAdvisor* advisor, uint64_t num_tokens, double sparse_factor,
              double full_factor) const {
    double total = 0;
    for (LayerId layer = 0; layer < kLayers; ++layer) {
      const LayerChoice& choice = advisor->Choose(layer, Chain(num_tokens), 1);
      std::vector<HeadObservation> seen;
      for (const HeadChoice& head : choice.heads) {
        const Cost& cost = head.full ? head.full_cost : head.sparse_cost;
        seen.push_back({.selected = 200,
                        .bytes = cost.bytes,
                        .ns = cost.ns * (head.full ? full_factor : sparse_factor)});
        total += seen.back().ns;
      }
      advisor->Observe(layer, 1, seen);
    }
    return total;
  }
  // The same where heads may draw by an index: 0 scans half as fast as by it, 1 twice as fast; what
  // is missed by 2's is too much, though it would be fast. Returns what each head did.
  std::vector<std::string> StepByIndex(PlanAdvisor* advisor, bool index_is_there) const {
    std::vector<std::string> did;
    for (LayerId layer = 0; layer < kLayers; ++layer) {
      const LayerChoice& choice = advisor->Choose(layer, Chain(131072), 1);
      std::vector<HeadObservation> seen;
      for (size_t i = 0; i < choice.heads.size(); ++i) {
        const HeadChoice& head = choice.heads[i];
        const bool by_index = !head.full && head.index->draws;
        const double scan_ns = 2e5;
        const double index_ns = i == 1 ? 2 * scan_ns : scan_ns / 2;
        HeadObservation& of_head = seen.emplace_back();
        of_head.ns = head.full ? 2e6 : by_index ? index_ns : scan_ns;
        if (by_index && !index_is_there) of_head.ns = 0;
        of_head.error = 0.009;
        if (by_index) of_head.missed = i == 2 ? 0.1 : 0.0;
        did.push_back(head.full ? "full" : head.index->name);
      }
      advisor->Observe(layer, 1, seen);
    }
    return did;
  }
  double FullTime(uint64_t num_tokens, double full_factor) const {
    const HeadShape shape = {.group_size = 3, .k_bytes = 128, .v_bytes = 128, .channels = 64};
    return kLayers * kHeads * full_factor *
           FullCost(shape, static_cast<double>(num_tokens), 1, machine_).ns;
  }

  PlanRegistry registry_;
  ModelSpec spec_;
  Plan plan_;
  MachineConstants machine_;
};

TEST_F(PlanAdvisorTest, IsNeverMuchSlowerThanFull) {
  for (const uint64_t num_tokens : {2000u, 8192u, 65536u}) {
    for (const double sparse_factor : {0.5, 1.0, 3.0, 8.0}) {
      for (const double full_factor : {0.5, 1.0, 2.0}) {
        PlanAdvisor advisor = Advise("auto(error=0.01)");
        double total = 0;
        constexpr int kSteps = 600;
        for (int i = 0; i < kSteps; ++i) {
          total += Step(&advisor, num_tokens, sparse_factor, full_factor);
        }
        EXPECT_LE(total, 1.05 * kSteps * FullTime(num_tokens, full_factor))
            << num_tokens << " tokens, sparse " << sparse_factor << ", full " << full_factor;
      }
    }
  }
}

TEST_F(PlanAdvisorTest, FindsOutWhenASearchPaysAfterAll) {
  PlanAdvisor advisor = Advise("auto(error=0.01)");
  for (int i = 0; i < 20; ++i) Step(&advisor, 16384, 4.0, 1.0);
  EXPECT_TRUE(advisor.Choose(1, Chain(16384), 1).all_full);
  EXPECT_EQ(advisor.Choose(1, Chain(16384), 1).full_reason, "reading everything is cheaper: full");
  for (uint32_t i = 0; i < 9 * PlanAdvisor::kRetryCalls; ++i) Step(&advisor, 16384, 0.5, 1.0);
  EXPECT_FALSE(advisor.Choose(1, Chain(16384), 1).all_full);
}

TEST_F(PlanAdvisorTest, ANewHeadIsTriedTwiceAndTheFirstTimeIsForgotten) {
  machine_.head *= 20;  // A search seems slower than it is, but not by much.
  PlanAdvisor advisor = Advise("auto(error=0.01)");
  ASSERT_TRUE(advisor.Preview(1, Chain(8192)).all_full);
  Step(&advisor, 8192, 4.0, 1.0);
  for (int i = 0; i < 3; ++i) Step(&advisor, 8192, 0.3, 1.0);
  EXPECT_FALSE(advisor.Preview(1, Chain(8192)).all_full);
}

TEST_F(PlanAdvisorTest, RowsFollowTheDifficultyOfHeads) {
  PlanAdvisor advisor = Advise("auto(error=0.01)");
  std::vector<DrawBudget> first;
  for (int i = 0; i < 20; ++i) {
    const LayerChoice& choice = advisor.Choose(1, Chain(131072), 1);
    if (i == 0) first = choice.draws;
    std::vector<HeadObservation> seen;
    const double base = choice.heads[0].rows_expected * choice.aimed_error;
    for (const double times : {0.25, 1.0, 4.0}) {
      seen.push_back({.selected = 100, .ns = 1e5, .error = 0.009, .difficulty = times * base});
    }
    advisor.Observe(1, 1, seen);
  }
  const LayerChoice& choice = advisor.Choose(1, Chain(131072), 1);
  ASSERT_EQ(choice.draws.size(), kHeads);
  EXPECT_NEAR(choice.draws[0].first_rows / choice.draws[1].first_rows, 0.5, 0.02);
  EXPECT_NEAR(choice.draws[2].first_rows / choice.draws[1].first_rows, 2.0, 0.05);
  for (const DrawBudget& budget : first) {
    EXPECT_EQ(budget.first_rows, first[0].first_rows);
    EXPECT_GT(budget.tolerated_error, 0.01);
  }
}

TEST_F(PlanAdvisorTest, HeadsEndUpWithAnIndexWhereItIsFasterAndFindsEnough) {
  PlanAdvisor advisor = Advise("auto(error=0.01)");
  constexpr int kSteps = 1000;
  int num_others = 0;
  std::vector<std::string> did;
  for (int i = 0; i < kSteps; ++i) {
    did = StepByIndex(&advisor, true);
    for (size_t head = 0; head < did.size(); ++head) {
      num_others += i >= 20 && did[head] != (head % kHeads == 0 ? "clustered" : "flat") ? 1 : 0;
    }
  }
  EXPECT_LT(num_others, kSteps * static_cast<int>(did.size()) / 50);
  const LayerChoice choice = advisor.Preview(1, Chain(131072));
  EXPECT_EQ(choice.plan.index->name, "clustered");
  EXPECT_THAT(choice.PlanOf(0).ToString(), ::testing::HasSubstr("index=clustered"));
  EXPECT_THAT(choice.PlanOf(1).ToString(), ::testing::HasSubstr("index=flat"));
  EXPECT_EQ(TextOf(choice.heads[0].reason), "an index is cheaper than a scan");
  PlanAdvisor next = Advise("auto(error=0.01)");
  next.Restore(advisor.statistics());
  EXPECT_EQ(next.Preview(1, Chain(131072)).heads[0].index->name, "clustered");
}

TEST_F(PlanAdvisorTest, WhatAnIndexThatIsNotThereTakesIsNotLearned) {
  PlanAdvisor advisor = Advise("auto(error=0.01)");
  for (int i = 0; i < 50; ++i) StepByIndex(&advisor, false);
  EXPECT_EQ(advisor.statistics()[1][0].index_time.count(), 0u);
  EXPECT_EQ(advisor.Preview(1, Chain(131072)).heads[0].index->name, "flat");
  for (int i = 0; i < 20; ++i) StepByIndex(&advisor, true);
  EXPECT_EQ(advisor.Preview(1, Chain(131072)).heads[0].index->name, "clustered");
}

TEST_F(PlanAdvisorTest, WithoutLearningNoIndexIsChosen) {
  PlanAdvisor advisor = Advise("auto(error=0.01)", /*learns=*/false);
  for (int i = 0; i < 5; ++i) {
    for (const std::string& did : StepByIndex(&advisor, true)) EXPECT_NE(did, "clustered");
  }
}

TEST_F(PlanAdvisorTest, WithoutLearningTheChoiceStays) {
  PlanAdvisor advisor = Advise("auto(error=0.01)", /*learns=*/false);
  const bool before = advisor.Choose(0, Chain(65536), 1).all_full;
  for (int i = 0; i < 300; ++i) Step(&advisor, 65536, 50.0, 1.0);
  EXPECT_EQ(advisor.Choose(0, Chain(65536), 1).all_full, before);
  EXPECT_FALSE(advisor.has_learned());
}

TEST_F(PlanAdvisorTest, WhatOneSessionLearnedTheNextBeginsWith) {
  PlanAdvisor first = Advise("auto(error=0.01)");
  for (int i = 0; i < 20; ++i) Step(&first, 16384, 4.0, 1.0);
  ASSERT_TRUE(first.has_learned());
  PlanAdvisor second = Advise("auto(error=0.01)");
  second.Restore(first.statistics());
  EXPECT_TRUE(second.Choose(1, Chain(16384), 1).all_full);
  PlanAdvisor third = Advise("auto(error=0.01)");
  third.Restore({{}});  // Of another model: ignored.
  EXPECT_FALSE(third.Choose(1, Chain(16384), 1).all_full);
}

TEST_F(PlanAdvisorTest, ATpotObjectiveTakesTheSmallestErrorThatFits) {
  PlanAdvisor cheap = Advise("auto(tpot=1000)");
  EXPECT_EQ(cheap.ErrorOf(1, Chain(65536))->error, 0.005);
  const double least = Advise("auto(error=0.5)").PredictMicros(Chain(65536));
  const double at_3 = Advise("auto(error=0.03)").PredictMicros(Chain(65536));
  const double at_2 = Advise("auto(error=0.02)").PredictMicros(Chain(65536));
  ASSERT_LT(least, at_3);
  ASSERT_LT(at_3, at_2);
  const std::string tpot = std::to_string((at_3 + at_2) / 2e3);
  PlanAdvisor tight = Advise("auto(tpot=" + tpot + ")");
  const ErrorChoice found = *tight.ErrorOf(1, Chain(65536));
  EXPECT_EQ(found.error, 0.03);
  EXPECT_TRUE(found.reachable);
  EXPECT_EQ(tight.Choose(1, Chain(65536), 1).plan.error, 0.03);
  EXPECT_EQ(tight.Preview(1, Chain(65536)).plan.ToString(),
            "auto(error=0.03,bits=4,sink=16,window=128)");
  PlanAdvisor impossible = Advise("auto(tpot=0.001)");
  EXPECT_FALSE(impossible.ErrorOf(1, Chain(65536))->reachable);
  EXPECT_EQ(impossible.ErrorOf(1, Chain(65536))->error, 0.5);
  EXPECT_FALSE(Advise("auto(error=0.1)").ErrorOf(1, Chain(65536)).has_value());
}

}  // namespace
}  // namespace attndb::planner
