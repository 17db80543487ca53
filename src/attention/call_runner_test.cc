// Goal:   attention of a layer equals a float64 reference for every plan, cut and shape, and is
//         bit-identical for equal number of parts, whatever the order in which parts run.
// Method: random K and V cut into random runs; the reference chooses tokens by its own float64
//         scores, so a plan's selection is tested as well as the sum.
// Replay: a test's seeds are its parameter, or follow from it.
#include "attention/call_runner.h"

#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "attention/layer_test_util.h"
#include "testing/test_size.h"

namespace attndb::attention {
namespace {

constexpr std::string_view kPlans[] = {"full",
                                       "window(sink=4,window=30)",
                                       "topk(k=20,sink=4,window=16)",
                                       "topk(k=5000)",
                                       "dipr(alpha=0.05,sink=3,window=9)",
                                       "dipr(beta=0,sink=0,window=1)",
                                       "mass(p=0.8,sink=2,window=5)"};
constexpr std::string_view kDraw = "auto(error=0.05,sink=2,window=5)";

// The parameter is the number of rows.
class RowsCallRunnerTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RowsCallRunnerTest, EveryPlanMatchesFloat64OverAnyCut) {
  const Shape shapes[] = {{},
                          {.q_heads = 3, .kv_heads = 3, .head_dim = 64, .v_head_dim = 48},
                          {.q_heads = 8, .kv_heads = 1, .soft_cap = 5.0f},
                          {.layout = RopeLayout::kInterleaved},
                          {.sliding_window = 37},
                          {.denominators = true},
                          {.q_heads = 8, .sliding_window = 37, .denominators = true},
                          {.q_heads = 4, .kv_heads = 1, .soft_cap = 5.0f, .denominators = true}};
  const auto num_rows = GetParam();
  for (uint32_t number = 0; number < std::size(shapes); ++number) {
    // A short run takes one seed for each shape and number of rows, a long one three, which are the
    // three types. A case is the same in both.
    for (uint32_t seed = 0; seed < test::Sized(1, 3); ++seed) {
      const auto dtype = static_cast<DType>((number + num_rows + seed) % 3);
      SCOPED_TRACE("shape " + std::to_string(number) + ", seed " + std::to_string(seed));
      std::seed_seq seeds = {number, num_rows, seed};
      std::mt19937 random(seeds);
      std::vector<uint64_t> runs = {num_rows + random() % 70};
      for (auto n = random() % 3; n > 0; --n) runs.push_back(1 + random() % 700);
      Layer layer(shapes[number], dtype, runs, num_rows, static_cast<uint32_t>(random()));
      for (const std::string_view text : kPlans) {
        const auto num_parts = static_cast<uint32_t>(1 + random() % 4);
        layer.Run(PlanOf(text), num_parts);
        layer.ExpectExact(PlanOf(text), 1e-4);
        if (HasFatalFailure()) return;
      }
      // So small an error that all is drawn, or read.
      layer.Run(PlanOf("auto(error=1e-6,sink=2,window=5)"), /*num_parts=*/3);
      layer.ExpectExact(PlanOf("full"), 1e-4);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, RowsCallRunnerTest, ::testing::Values(1u, 3u, 64u, 65u, 200u));

class CallRunnerTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CallRunnerTest, ResultsAreBitIdenticalForEqualParts) {
  std::vector<std::string_view> texts(std::begin(kPlans), std::end(kPlans));
  texts.push_back(kDraw);
  for (const bool denominators : {false, true}) {
    Layer layer({.denominators = denominators}, DType::kFloat16, {900, 64, 333}, 2, GetParam());
    for (const std::string_view text : texts) {
      for (const uint32_t parts : {1u, 2u, 3u}) {
        layer.Run(PlanOf(text), parts);
        const std::vector<float> first = layer.out();
        layer.Run(PlanOf(text), parts, /*threads=*/true);
        EXPECT_EQ(first, layer.out()) << text << " " << parts;
      }
    }
  }
}

TEST_P(CallRunnerTest, HeadsWithNonFiniteValuesRunFull) {
  Layer layer({}, DType::kFloat32, {400}, 1, GetParam());
  layer.non_finite()[0] = 1;
  layer.Run(PlanOf("full"), 1);
  const std::vector<float> full = layer.out();
  const CallCost cost = layer.Run(PlanOf("topk(k=1,sink=0,window=1)"), 2);
  const size_t head_0 = full.size() / 2;
  for (size_t i = 0; i < head_0; ++i) EXPECT_NEAR(layer.out()[i], full[i], 1e-6);
  EXPECT_EQ(cost.num_queries, 3u);  // The q heads of the other kv head.
  EXPECT_EQ(cost.num_selected, 3u);
}

TEST_P(CallRunnerTest, CostCountsWhatWasRead) {
  Layer layer({}, DType::kFloat16, {1000}, 1, GetParam());
  const uint64_t row_bytes = 32 * 2;
  EXPECT_EQ(layer.Run(PlanOf("full"), 2).bytes_touched, 2 * 1000 * 2 * row_bytes);
  const CallCost top = layer.Run(PlanOf("topk(k=10,sink=4,window=6)"), 2);
  EXPECT_EQ(top.bytes_touched, 2 * 1000 * row_bytes + 6 * 20 * row_bytes);
  EXPECT_EQ(top.num_selected, 60u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CallRunnerTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
