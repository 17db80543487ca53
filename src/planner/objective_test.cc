// Goal:   a TPOT objective takes the smallest error that fits the time, and says so if none does.
//         It chooses again when the context has grown.
#include "planner/objective.h"

#include <gtest/gtest.h>

#include <string>

#include "planner/builtin_plans.h"

namespace attndb::planner {
namespace {

class ObjectiveTest : public ::testing::Test {
 protected:
  ObjectiveTest()
      : registry_(BuiltinPlans()),
        spec_(ModelSpec::Uniform(4,
                                 {.num_q_heads = 9,
                                  .num_kv_heads = 3,
                                  .head_dim = 64,
                                  .v_head_dim = 64,
                                  .scale = 0.125f},
                                 DType::kFloat16, "test")),
        learned_(spec_, /*learns=*/true) {}

  Outlook Look(std::string_view text, uint64_t num_tokens = 65536) {
    plan_ = *Plan::Parse(text, registry_);
    run_ = {.num_tokens = num_tokens, .may_have_planes = true, .has_planes = true};
    Outlook outlook;
    outlook.spec = &spec_;
    outlook.plan = &plan_;
    outlook.learned = &learned_;
    outlook.machine = &machine_;
    outlook.question.registry = &registry_;
    outlook.question.explores = false;
    outlook.question.chain.num_tokens = num_tokens;
    outlook.question.chain.num_stored = num_tokens;
    outlook.question.chain.runs = {&run_, 1};
    return outlook;
  }
  std::optional<ErrorChoice> Find(std::string_view text) {
    const Outlook outlook = Look(text);
    return ErrorOf(plan_.ForLayer(1), outlook);
  }

  PlanRegistry registry_;
  ModelSpec spec_;
  Plan plan_;
  RunFacts run_;
  MachineConstants machine_;
  LearnedState learned_;
};

TEST_F(ObjectiveTest, TakesTheSmallestErrorThatFits) {
  EXPECT_EQ(Find("auto(tpot=1000)")->error, 0.005);
  const double at_3 = PredictMicros(Look("auto(error=0.03)"), 0);
  const double at_2 = PredictMicros(Look("auto(error=0.02)"), 0);
  ASSERT_LT(PredictMicros(Look("auto(error=0.5)"), 0), at_3);
  ASSERT_LT(at_3, at_2);
  const std::string tpot = "auto(tpot=" + std::to_string((at_3 + at_2) / 2e3) + ")";
  const ErrorChoice found = *Find(tpot);
  EXPECT_EQ(found.error, 0.03);
  EXPECT_TRUE(found.reachable);
  Objectives objectives;
  const Outlook outlook = Look(tpot);
  EXPECT_EQ(objectives.Settle(1, outlook).ToString(), "auto(error=0.03,bits=4,sink=16,window=128)");
  EXPECT_FALSE(Find("auto(tpot=0.001)")->reachable);
  EXPECT_EQ(Find("auto(tpot=0.001)")->error, 0.5);
  EXPECT_FALSE(Find("auto(error=0.1)").has_value());
}

TEST_F(ObjectiveTest, IsLookedForAgainWhenTheContextHasGrown) {
  const double long_us = PredictMicros(Look("auto(error=0.1)", 131072), 0);
  const std::string text = "auto(tpot=" + std::to_string(long_us * 1.0001e-3) + ")";
  Objectives objectives;
  EXPECT_LT(objectives.Settle(0, Look(text, 32768)).error, 0.1);
  EXPECT_LT(objectives.Settle(0, Look(text, 32800)).error, 0.1);
  EXPECT_EQ(objectives.Settle(0, Look(text, 131072)).error, 0.1);
  EXPECT_EQ(objectives.Settle(0, Look("full", 131072)).ToString(), "full");
}

}  // namespace
}  // namespace attndb::planner
