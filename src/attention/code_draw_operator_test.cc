// Goal:   a plan that draws by product codes keeps its error, over runs with and without codes, and
//         reads less for it.
// Method: random layers against a float64 reference (layer_test_util.h).
// Replay: a test's seed is its parameter.
#include "attention/code_draw_operator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

planner::LayerPlan ByCodes(const std::string& error) {
  return PlanOf("auto(error=" + error + ",index=pq,m=8,b=8)");
}

class CodeDrawOperatorTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(CodeDrawOperatorTest, AutoKeepsItsError) {
  for (const Shape& shape : {Shape{.v_is_k = true, .topics = true},
                             Shape{.v_is_k = true, .topics = true, .denominators = true},
                             Shape{.soft_cap = 20.0f, .v_is_k = true, .topics = true}}) {
    Layer layer(shape, DType::kFloat16, {3000, 3000, 40}, 4, GetParam());
    layer.BuildCodes();
    double last = 1;
    for (const char* error : {"0.1", "0.03", "0.01"}) {
      layer.Run(ByCodes(error), 1);
      EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * std::strtod(error, nullptr)) << error;
      EXPECT_LT(layer.MeanErrorOfFull(), last + 1e-5) << error;  // Both may have read all.
      last = layer.MeanErrorOfFull();
    }
  }
}

TEST_P(CodeDrawOperatorTest, CodesSaveReading) {
  Layer layer({.v_is_k = true, .topics = true}, DType::kFloat16, {3000, 3000, 40}, 1, GetParam());
  const uint64_t full = layer.Run(PlanOf("full"), 1).bytes_touched;
  layer.BuildCodes();
  EXPECT_LT(layer.Run(ByCodes("0.35"), 1).bytes_touched, full / 2);
}

TEST_P(CodeDrawOperatorTest, RunsWithoutCodesAreScoredExactly) {
  Layer layer({.v_is_k = true, .topics = true}, DType::kFloat16, {500, 3000, 700}, 2, GetParam());
  layer.BuildCodes();
  layer.ForgetCodesOfRun(0);
  layer.Run(ByCodes("0.03"), 1);
  EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * 0.03);
  for (size_t run = 1; run < 3; ++run) layer.ForgetCodesOfRun(run);
  layer.Run(ByCodes("0.03"), 1);
  EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * 0.03);
}

// A head none of whose runs has codes draws by planes, bit by bit as a plan without codes does;
// heads that have codes are not changed by that.
TEST_P(CodeDrawOperatorTest, HeadsWithoutCodesDrawByPlanes) {
  const auto outputs_of = [&](const std::vector<float>& out, bool of_first) {
    const auto middle = out.begin() + static_cast<std::ptrdiff_t>(out.size() / 2);
    return of_first ? std::vector<float>(out.begin(), middle)
                    : std::vector<float>(middle, out.end());
  };
  Layer layer({.v_is_k = true, .topics = true}, DType::kFloat16, {3000, 40}, 1, GetParam());
  layer.BuildPlanes();
  layer.BuildCodes();
  layer.Run(ByCodes("0.1"), 1);
  const std::vector<float> by_codes = layer.out();
  layer.Run(PlanOf("auto(error=0.1)"), 1);
  const std::vector<float> by_planes = layer.out();
  EXPECT_NE(by_codes, by_planes);
  layer.ForgetCodesOfHead(0);
  for (const uint32_t parts : {1u, 3u}) {
    layer.Run(ByCodes("0.1"), parts);
    EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * 0.1);
    if (parts != 1) continue;
    EXPECT_EQ(outputs_of(layer.out(), true), outputs_of(by_planes, true));
    EXPECT_EQ(outputs_of(layer.out(), false), outputs_of(by_codes, false));
  }
}

TEST_P(CodeDrawOperatorTest, RangesOfAUnitDrawWhatOneRangeDraws) {
  Layer layer({.v_is_k = true, .topics = true}, DType::kFloat16, {3001, 2990, 40}, 1, GetParam());
  layer.BuildCodes();
  const CallCost one = layer.Run(ByCodes("0.05"), 1);
  const std::vector<float> out = layer.out();
  for (const uint32_t parts : {2u, 3u, 5u}) {
    const CallCost ranges = layer.Run(ByCodes("0.05"), parts);
    // Pieces have thresholds of their own references, rounded to words.
    EXPECT_NEAR(static_cast<double>(ranges.bytes_touched), static_cast<double>(one.bytes_touched),
                0.02 * static_cast<double>(one.bytes_touched));
    EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * 0.05);
  }
  layer.Run(ByCodes("0.05"), 3, /*threads=*/true);
  const std::vector<float> by_threads = layer.out();
  layer.Run(ByCodes("0.05"), 3);
  EXPECT_EQ(layer.out(), by_threads);
}

TEST_P(CodeDrawOperatorTest, AQueryThatIsNoNumberReadsAll) {
  Layer layer({.v_is_k = true, .topics = true}, DType::kFloat16, {3000, 40}, 1, GetParam());
  layer.BuildCodes();
  layer.PoisonQuery();
  layer.Run(ByCodes("0.05"), 1);
  for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isnan(layer.out()[i])) << i;
  for (size_t i = 5 * 32; i < 6 * 32; ++i) EXPECT_TRUE(std::isfinite(layer.out()[i])) << i;
}

INSTANTIATE_TEST_SUITE_P(Seeds, CodeDrawOperatorTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
