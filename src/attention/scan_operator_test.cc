// Goal:   tokens that a selecting plan leaves out are dropped, estimated or bounded by the plan,
//         with exact scores and with planes.
// Method: random layers against a float64 reference (layer_test_util.h).
// Replay: a test's seed is its parameter.
#include "attention/scan_operator.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "attention/layer_test_util.h"

namespace attndb::attention {
namespace {

class ScanOperatorTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ScanOperatorTest, ARemainderNoLargerThanItsSampleIsAttendedToWhole) {
  const Shape shapes[] = {{}, {.soft_cap = 4.0f}, {.denominators = true}};
  for (const Shape& shape : shapes) {
    Layer layer(shape, DType::kBFloat16, {500, 200, 30}, 2, GetParam());
    layer.BuildPlanes();
    for (const char* bits : {"exact", "4", "8"}) {
      for (const char* query : {"topk(k=9", "dipr(alpha=0.3", "mass(p=0.5"}) {
        const std::string text =
            std::string(query) + ",bits=" + bits + ",remainder=sample:730,sink=2,window=3)";
        layer.Run(PlanOf(text), 2);
        layer.ExpectExact(PlanOf("full"), 1e-4);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ScanOperatorTest, SamplingTheRemainderIsBetterThanDroppingIt) {
  for (const bool denominators : {false, true}) {
    Layer layer({.v_is_k = true, .denominators = denominators}, DType::kFloat16, {3000, 1000, 40},
                4, GetParam());
    layer.BuildPlanes();
    for (const char* bits : {"exact", "8", "4"}) {
      const std::string query = std::string("topk(k=200,bits=") + bits;
      layer.Run(PlanOf(query + ")"), 1);
      const double dropped = layer.MeanErrorOfFull();
      layer.Run(PlanOf(query + ",remainder=sample:200)"), 1);
      EXPECT_LT(layer.MeanErrorOfFull(), 0.5 * dropped) << bits;
    }
  }
}

TEST_P(ScanOperatorTest, MeansStandForTheRemainder) {
  for (const bool denominators : {false, true}) {
    Layer layer({.v_is_k = true, .denominators = denominators}, DType::kFloat16, {3000, 1000, 40},
                4, GetParam());
    layer.BuildPlanes();
    layer.BuildValues();
    for (const char* bits : {"exact", "8", "4"}) {
      const std::string query = std::string("topk(k=200,bits=") + bits;
      layer.Run(PlanOf(query + ")"), 1);
      const double dropped = layer.MeanErrorOfFull();
      layer.Run(PlanOf(query + ",remainder=mean)"), 2);
      EXPECT_LT(layer.MeanErrorOfFull(), dropped) << bits;
      const std::vector<float> first = layer.out();
      layer.Run(PlanOf(query + ",remainder=mean)"), 2, /*threads=*/true);
      EXPECT_EQ(first, layer.out());
    }
  }
}

// Nothing beyond the end of a list is read: the remains of another call are far from any token of
// this one, with a score that is NaN or larger than all others.
TEST_P(ScanOperatorTest, WhatScratchHeldBeforeChangesNothing) {
  Layer layer({}, DType::kFloat16, {500, 200, 30}, 2, GetParam());
  layer.BuildPlanes();
  layer.BuildValues();
  layer.BuildRankings();
  for (const char* rest :
       {"", ",static=prefill:20", ",remainder=sample:32", ",remainder=mean",
        ",static=prefill:20,remainder=sample:32", ",exact_fallback=0.9", ",exact_fallback=0.001"}) {
    for (const char* query : {"topk(k=9", "topk(k=700", "dipr(alpha=0.3", "mass(p=0.5"}) {
      for (const char* bits : {"exact", "4"}) {
        for (const char* ends : {",sink=2,window=3)", ",sink=2)"}) {
          const std::string text = std::string(query) + ",bits=" + bits + rest + ends;
          const planner::LayerPlan plan = PlanOf(text);
          layer.Run(plan, 2);
          const std::vector<float> out = layer.out();
          const std::vector<HeadBound> bounds = layer.bounds();
          const std::vector<CriticalTokens> found = layer.Search(plan, 1);
          for (const std::byte byte : {std::byte{0xff}, std::byte{0x7f}}) {
            layer.FillScratch(byte);
            layer.Run(plan, 2);
            EXPECT_EQ(layer.out(), out) << text;
            for (size_t i = 0; i < bounds.size(); ++i) {
              EXPECT_EQ(layer.bounds()[i].mass, bounds[i].mass) << text;
            }
            layer.FillScratch(byte);
            const std::vector<CriticalTokens> again = layer.Search(plan, 1);
            for (size_t head = 0; head < found.size(); ++head) {
              EXPECT_EQ(again[head].tokens, found[head].tokens) << text;
              EXPECT_EQ(again[head].scores, found[head].scores) << text;
            }
          }
        }
      }
    }
  }
}

TEST_P(ScanOperatorTest, WithoutValuePlanesTheRemainderIsReadFromV) {
  Layer layer({}, DType::kBFloat16, {500, 200, 30}, 2, GetParam());
  layer.Run(PlanOf("topk(k=9,sink=2,window=3,remainder=mean)"), 2);
  layer.ExpectExact(PlanOf("full"), 1e-4);
}

TEST_P(ScanOperatorTest, PlanesFindWhatExactScoresFind) {
  Layer layer({.head_dim = 64, .v_head_dim = 64}, DType::kFloat16, {900, 700, 100}, 2, GetParam());
  layer.BuildPlanes();
  const std::string_view plans[] = {"topk(k=100)", "dipr(alpha=0.05)", "mass(p=0.9)"};
  for (const std::string_view text : plans) {
    const double exact = (layer.Run(PlanOf(text), 1), layer.MeanErrorOfFull());
    for (const uint32_t bits : {8u, 4u}) {
      planner::LayerPlan plan = PlanOf(text);
      plan.bits = bits;
      const CallCost cost = layer.Run(plan, 2);
      EXPECT_NEAR(layer.MeanErrorOfFull(), exact, bits == 8 ? 0.01 : 0.05) << plan.ToString();
      EXPECT_GE(cost.num_candidates, cost.num_selected / 2);
      const std::vector<float> first = layer.out();
      layer.Run(plan, 2, /*threads=*/true);
      EXPECT_EQ(first, layer.out()) << plan.ToString();
    }
  }
}

TEST_P(ScanOperatorTest, BoundsHoldAndChangeNothingUnlessTheyAreExceeded) {
  const Shape shapes[] = {{}, {.soft_cap = 4.0f}, {.denominators = true}};
  for (const Shape& shape : shapes) {
    Layer layer(shape, DType::kFloat16, {700, 333, 50}, 3, GetParam());
    layer.BuildPlanes();
    for (const char* query : {"topk(k=50", "dipr(alpha=0.05", "mass(p=0.8"}) {
      for (const char* bits : {"exact", "8", "4"}) {
        const std::string text = std::string(query) + ",bits=" + bits;
        layer.Run(PlanOf(text + ")"), 2);
        const std::vector<float> without = layer.out();
        EXPECT_TRUE(layer.bounds().empty());
        CallCost cost = layer.Run(PlanOf(text + ",exact_fallback=1)"), 2);
        layer.ExpectBoundsHold(text.c_str());
        layer.BuildValues();
        cost = layer.Run(PlanOf(text + ",exact_fallback=1)"), 2);
        EXPECT_EQ(layer.out(), without) << text;
        EXPECT_EQ(cost.num_fallbacks, 0u);
        EXPECT_EQ(cost.num_bounds, 18u);
        layer.ExpectBoundsHold(text.c_str());
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ScanOperatorTest, ADenominatorMakesBoundsSmaller) {
  const char* const plan = "topk(k=50,bits=8,exact_fallback=1)";
  Layer without({}, DType::kFloat16, {700, 333, 50}, 1, GetParam());
  Layer with({.denominators = true}, DType::kFloat16, {700, 333, 50}, 1, GetParam());
  without.BuildPlanes();
  with.BuildPlanes();
  without.Run(PlanOf(plan), 1);
  with.Run(PlanOf(plan), 1);
  for (uint32_t head = 0; head < 6; ++head) {
    EXPECT_LT(with.bounds()[head].mass, without.bounds()[head].mass) << head;
    EXPECT_LT(with.bounds()[head].out, without.bounds()[head].out) << head;
  }
  // Head 5's denominator holds nearly all of the mass.
  EXPECT_LT(with.bounds()[5].mass, 0.5f * without.bounds()[5].mass);
}

TEST_P(ScanOperatorTest, RowsWhoseBoundIsExceededAttendToAllTokens) {
  Layer layer({}, DType::kBFloat16, {400, 65, 30}, 2, GetParam());
  layer.BuildPlanes();
  for (const char* query : {"topk(k=9", "dipr(alpha=0.3", "mass(p=0.5,bits=8", "topk(k=9,bits=4"}) {
    const std::string text = query;
    const CallCost cost = layer.Run(PlanOf(text + ",exact_fallback=1e-6)"), 2);
    EXPECT_EQ(cost.num_fallbacks, 12u) << text;
    EXPECT_EQ(cost.mass_bound_sum, 0) << text;
    layer.ExpectExact(PlanOf("full"), 1e-4);
    if (HasFatalFailure()) return;
    // Some rows do, some don't, and no bound exceeds the tolerated one.
    layer.Run(PlanOf(text + ",exact_fallback=1)"), 2);
    std::vector<float> bounds;
    for (const HeadBound& bound : layer.bounds()) bounds.push_back(bound.mass);
    std::nth_element(bounds.begin(), bounds.begin() + 6, bounds.end());
    planner::LayerPlan plan = PlanOf(text + ")");
    plan.exact_fallback = bounds[6];
    EXPECT_EQ(layer.Run(plan, 1).num_fallbacks, 5u) << plan.ToString();
    layer.ExpectBoundsHold(text.c_str());
    if (HasFatalFailure()) return;
  }
}

TEST_P(ScanOperatorTest, NothingLeftOutIsABoundOfNothing) {
  Layer layer({}, DType::kFloat16, {300, 20}, 1, GetParam());
  layer.BuildPlanes();
  const CallCost cost = layer.Run(PlanOf("topk(k=5000,bits=4,exact_fallback=1e-9)"), 1);
  EXPECT_EQ(cost.num_fallbacks, 0u);
  EXPECT_EQ(cost.mass_bound_sum, 0);
  EXPECT_EQ(cost.out_bound_sum, 0);
}

TEST_P(ScanOperatorTest, CostOfPlanesIsWhatTheyHold) {
  Layer layer({}, DType::kFloat16, {5000, 100}, 1, GetParam());
  layer.BuildPlanes();
  const CallCost cost = layer.Run(PlanOf("topk(k=10,bits=4,sink=4,window=6)"), 2);
  const uint64_t row_bytes = 32 * 2;
  const uint64_t planes = 2 * (5000 - 4) * (32 / 2 + 2 + 32 * 2 / 64);  // Codes, scale, means.
  const uint64_t exact_keys = 2 * (4 + 100) * row_bytes + cost.num_candidates * row_bytes;
  EXPECT_EQ(cost.bytes_touched, planes + exact_keys + 6 * 20 * row_bytes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ScanOperatorTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
