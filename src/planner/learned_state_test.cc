// Goal:   ratios follow the measurements, and one bad call does not upset them. Values from a file
//         can't break them, and each head has its own.
#include "planner/learned_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "planner/builtin_plans.h"

namespace attndb::planner {
namespace {

ModelSpec Spec() {
  return ModelSpec::Uniform(
      1, {.num_q_heads = 6, .num_kv_heads = 2, .head_dim = 64, .v_head_dim = 64, .scale = 0.125f},
      DType::kFloat16, "test");
}

class LearnedStateTest : public ::testing::Test {
 protected:
  LearnedStateTest() : registry_(BuiltinPlans()), learned_(Spec(), /*learns=*/true) {}

  // The calls of two heads that were predicted to take 100 ns and to read 400 rows.
  LayerExecution Did(Method method, Reason reason = Reason::kScanCheaper) const {
    LayerExecution execution;
    execution.plan = Plan::Parse("auto(error=0.01)", registry_)->ForLayer(0);
    execution.priced = true;
    HeadExecution head;
    head.method = head.preferred = method;
    head.reason = reason;
    head.rows_expected = 400;
    head.aimed_error = 0.01;
    head.cost.fill({.bytes = 1, .ns = 100});
    execution.heads.assign(2, head);
    return execution;
  }
  void Observe(const LayerExecution& did, const HeadObservation& first,
               const HeadObservation& second) {
    learned_.Observe(0, 1, did, std::array{first, second});
  }
  const HeadStatistics& head(size_t i) const { return learned_.layers()[0][i]; }

  PlanRegistry registry_;
  LearnedState learned_;
};

TEST(MeanRatioTest, ARatioFollowsWhatIsSeen) {
  MeanRatio ratio;
  EXPECT_EQ(ratio.value(), 1);
  ratio.Add(3);
  EXPECT_EQ(ratio.value(), 3);
  for (int i = 0; i < 50; ++i) ratio.Add(2);
  EXPECT_NEAR(ratio.value(), 2, 0.01);
}

TEST(MeanRatioTest, OneInterruptedCallCountsLittle) {
  MeanRatio ratio;
  for (int i = 0; i < 20; ++i) ratio.Add(1);
  ratio.Add(1e6);
  EXPECT_LT(ratio.value(), 1.5);
}

TEST(MeanRatioTest, ValuesFromAFileAreBroughtIntoRange) {
  EXPECT_EQ(MeanRatio(std::nan(""), 3).value(), 1);
  EXPECT_LE(MeanRatio(1e300, 3).value(), 64);
  EXPECT_GT(MeanRatio(-5, 3).value(), 0);
  EXPECT_LE(MeanRatio(2, 4000000000u).count(), 8u);
  MeanRatio ratio(2, 8);
  ratio.Add(std::numeric_limits<double>::infinity());
  EXPECT_EQ(ratio.value(), 2);
}

TEST_F(LearnedStateTest, RowsGrowAsTheRootOfTheDifficulty) {
  Observe(Did(Method::kScan), {.ns = 100, .difficulty = 400 * 0.01},  // Like any head.
          {.ns = 100, .difficulty = 100 * 400 * 0.01});
  EXPECT_DOUBLE_EQ(head(0).rows.value(), 1);
  EXPECT_DOUBLE_EQ(head(1).rows.value(), 10);
  Observe(Did(Method::kScan), {.ns = 100}, {.ns = 100});  // Unknown.
  EXPECT_DOUBLE_EQ(head(1).rows.value(), 10);
}

TEST_F(LearnedStateTest, TimesAreLearnedByMethod) {
  Observe(Did(Method::kScan), {.selected = 100, .ns = 150}, {.ns = 0});
  EXPECT_EQ(head(0).time_of(Method::kScan).value(), 1.5);
  EXPECT_EQ(head(0).time_of(Method::kFull).count(), 0u);
  EXPECT_EQ(head(0).selected, 100);
  EXPECT_EQ(head(0).last, Method::kScan);
  EXPECT_EQ(head(1).time_of(Method::kScan).count(), 0u) << "0 ns teach nothing";
  EXPECT_EQ(learned_.Informed(0, 1).time_of(Method::kScan).value(), 1.5) << "from the other head";
  EXPECT_EQ(learned_.Informed(0, 1).time_of(Method::kScan).count(), 0u);
}

TEST_F(LearnedStateTest, WhatIsExploredCountsAlone) {
  for (int i = 0; i < 20; ++i) Observe(Did(Method::kIndex), {.ns = 400}, {.ns = 400});
  Observe(Did(Method::kIndex, Reason::kExplores), {.ns = 50}, {.ns = 50});
  EXPECT_EQ(head(0).time_of(Method::kIndex).value(), 0.5);
}

TEST_F(LearnedStateTest, CallsOfSeveralRowsTeachNothing) {
  learned_.Observe(0, 2, Did(Method::kScan),
                   std::array<HeadObservation, 2>{{{.ns = 1}, {.ns = 1}}});
  EXPECT_EQ(head(0), HeadStatistics());
}

TEST_F(LearnedStateTest, TheAimFollowsTheErrorsThatAreFound) {
  const double before = learned_.aim();
  for (int i = 0; i < 200; ++i) {
    Observe(Did(Method::kScan), {.ns = 100, .error = 0.02}, {.ns = 100, .error = 0.02});
  }
  EXPECT_LT(learned_.aim(), before / 2);
  for (int i = 0; i < 2000; ++i) {
    Observe(Did(Method::kScan), {.ns = 100, .error = 0.001}, {.ns = 100, .error = 0.001});
  }
  EXPECT_EQ(learned_.aim(), 2.0) << "a limit";
}

TEST_F(LearnedStateTest, WhatAnIndexMissesIsAMeanOfManyCalls) {
  for (int i = 0; i < 100; ++i) {
    Observe(Did(Method::kIndex), {.ns = 100, .missed = 0.04}, {.ns = 100, .missed = 0});
  }
  EXPECT_NEAR(head(0).missed, 0.04 * (1 - std::pow(1 - 1.0 / 256, 100)), 1e-9);
  EXPECT_EQ(head(1).missed, 0);
}

TEST_F(LearnedStateTest, StatisticsOfAnotherModelAreIgnored) {
  learned_.Restore({{}});
  EXPECT_EQ(head(0), HeadStatistics());
  LearnedState::Layers layers(1, std::vector<HeadStatistics>(2));
  layers[0][1].time_of(Method::kFull) = MeanRatio(3, 8);
  learned_.Restore(layers);
  EXPECT_EQ(learned_.Informed(0, 0).time_of(Method::kFull).value(), 3);
}

}  // namespace
}  // namespace attndb::planner
