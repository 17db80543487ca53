// Goal:   a plan that draws keeps its error, and reads less for it where value planes are there.
// Method: random layers against a float64 reference (layer_test_util.h).
// Replay: a test's seed is its parameter.
#include "attention/draw_operator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

class DrawOperatorTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(DrawOperatorTest, LightRowsOfADrawMayBeCodes) {
  Layer layer({.v_is_k = true}, DType::kFloat16, {3000, 3000, 40}, 4, GetParam());
  layer.BuildPlanes();
  layer.BuildValues();
  const CallCost exact = layer.Run(PlanOf("auto(error=0.02,value_bits=exact)"), 1);
  const double error = layer.MeanErrorOfFull();
  const CallCost coded = layer.Run(PlanOf("auto(error=0.02,value_bits=8)"), 1);
  EXPECT_LT(coded.bytes_touched, exact.bytes_touched);
  EXPECT_NEAR(layer.MeanErrorOfFull(), error, 0.05 * error);
}

TEST_P(DrawOperatorTest, AutoKeepsItsError) {
  for (const bool denominators : {false, true}) {
    Layer layer({.v_is_k = true, .denominators = denominators}, DType::kFloat16, {3000, 3000, 40},
                4, GetParam());
    layer.BuildPlanes();
    double last = 1;
    for (const char* error : {"0.1", "0.03", "0.01"}) {
      layer.Run(PlanOf(std::string("auto(error=") + error + ")"), 1);
      EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * std::strtod(error, nullptr)) << error;
      EXPECT_LE(layer.MeanErrorOfFull(), last) << error;
      last = layer.MeanErrorOfFull();
    }
  }
}

TEST_P(DrawOperatorTest, RangesOfAUnitDrawWhatOneRangeDraws) {
  Layer layer({.v_is_k = true}, DType::kFloat16, {3000, 3000, 40}, 1, GetParam());
  for (const bool planes : {false, true}) {
    if (planes) layer.BuildPlanes();
    const CallCost one = layer.Run(PlanOf("auto(error=0.05)"), 1);
    const std::vector<float> out = layer.out();
    const CallCost ranges = layer.Run(PlanOf("auto(error=0.05)"), 3);
    EXPECT_EQ(ranges.bytes_touched, one.bytes_touched);
    EXPECT_EQ(ranges.num_selected, one.num_selected);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(layer.out()[i], out[i], 1e-5) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, DrawOperatorTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
