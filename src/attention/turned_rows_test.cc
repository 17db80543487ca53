// Goal:   tokens that stand elsewhere than their keys say are attended to as if their keys had been
//         turned, by every plan.
// Method: float64 over keys that are turned in float64; runs in front, in the middle and several of
//         them moved, beside runs with planes and indexes.
// Replay: a test's seed is its parameter.
#include <gtest/gtest.h>

#include <string_view>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

constexpr std::string_view kExactPlans[] = {
    "full", "window(sink=40,window=30)", "topk(k=20,sink=4,window=16)",
    "topk(k=20,bits=8,sink=4,window=16)", "dipr(alpha=0.05,sink=3,window=9)",
    "mass(p=0.8,sink=2,window=5)", "topk(k=1200,index=clustered,sink=4,window=16)",
    // So small an error that all is drawn, or read.
    "auto(error=1e-6,sink=2,window=5)", "auto(error=1e-6,index=pq,sink=2,window=5)"};

class TurnedRowsTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(TurnedRowsTest, EveryPlanTurnsQForThem) {
  for (const uint64_t num_rows : {uint64_t{1}, uint64_t{3}, uint64_t{65}}) {
    Layer layer({.q_heads = 6, .head_dim = 64, .v_head_dim = 64}, DType::kFloat32,
                {30, 700, 5, 400, 100}, num_rows, GetParam());
    layer.BuildPlanes();
    layer.BuildIndexes();
    layer.BuildCodes();
    layer.MoveRun(0, 5000);
    layer.MoveRun(2, 900);
    for (const std::string_view text : kExactPlans) {
      const planner::LayerPlan plan = PlanOf(text);
      for (const uint32_t num_parts : {1u, 3u}) {
        layer.Run(plan, num_parts);
        layer.ExpectExact(plan.kind == planner::QueryKind::kAuto ? PlanOf("full") : plan, 1e-4);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Controls that the test above can fail.
TEST_P(TurnedRowsTest, WithoutTheTurnTheOutputIsAnother) {
  Layer layer({.head_dim = 64, .v_head_dim = 64}, DType::kFloat32, {30, 70}, 1, GetParam());
  layer.MoveRun(0, 5000);
  LayerCall call = layer.Call(PlanOf("full"), 1);
  std::vector<RunPart> parts(call.parts.begin(), call.parts.end());
  for (RunPart& part : parts) part.turn = 0;
  call.parts = parts;
  layer.RunCall(call, /*threads=*/false);
  EXPECT_GT(layer.MeanErrorOfFull(), 0.05);
}

INSTANTIATE_TEST_SUITE_P(Seeds, TurnedRowsTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
