// Goal:   a search by estimates holds the mass within the stated error for any keys; heads whose
//         keys are about equally long run by estimates; a head that may miss its mass is searched
//         by exact scores.
// Method: random layers whose keys have log-normal sizes, or one of which is 3,000 times as long,
//         in runs with planes or product codes and one without; the mass of all tokens in float64.
// Replay: a test's seed is its parameter.
#include "attention/mass_audit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "attention/layer_test_util.h"
#include "attention/sparse_head.h"
#include "index/mass_cut.h"

namespace attndb::attention {
namespace {

constexpr float kTails[] = {0, 0.3f, 0.6f, 0.9f, 1.2f, 2.0f};
constexpr double kShares[] = {0.5, 0.9, 0.95, 0.99};

std::string MassPlan(double p, const std::string& how) {
  return "mass(p=" + std::to_string(p) + ",sink=4,window=16," + how + ")";
}

class MassAuditTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  static constexpr uint64_t kRows = 2;

  static Shape ShapeWith(float tail, bool has_long_key = false) {
    return {.q_heads = 6,
            .kv_heads = 2,
            .head_dim = 64,
            .v_head_dim = 32,
            .key_tail = tail,
            .has_long_key = has_long_key};
  }

  // Expects that all rows and heads hold the mass, except for the errors of estimates. Returns the
  // smallest held share.
  static double ExpectHeld(const Layer& layer, double p, const std::string& text) {
    double least = 1;
    for (uint64_t row = 0; row < kRows; ++row) {
      for (uint32_t head = 0; head < 6; ++head) {
        const double held = layer.HeldShare(row, head);
        EXPECT_GE(held, index::LeastHeld(p) - 1e-4) << text << " row " << row << " head " << head;
        least = std::min(least, held);
      }
    }
    return least;
  }
};

TEST_P(MassAuditTest, KeysOfAllSizesHoldTheMass) {
  for (const float tail : kTails) {
    Layer layer(ShapeWith(tail), DType::kFloat16, {2500, 1500, 40}, kRows, GetParam());
    layer.BuildPlanes();
    layer.BuildCodes();
    for (const double p : kShares) {
      for (const char* how : {"bits=4", "bits=8", "index=pq"}) {
        const std::string text = MassPlan(p, how) + ", tail " + std::to_string(tail);
        const CallCost cost = layer.Run(PlanOf(MassPlan(p, how)), 1);
        const double least = ExpectHeld(layer, p, text);
        std::printf("%s: holds %.4f or more; %u heads by exact scores, %u scans of a group\n",
                    text.c_str(), least, static_cast<unsigned>(cost.num_fallbacks),
                    static_cast<unsigned>(cost.num_full_scans));
      }
    }
  }
}

TEST_P(MassAuditTest, OneLongKeyHidesNothing) {
  Layer layer(ShapeWith(0, true), DType::kFloat16, {2500, 1500, 40}, kRows, GetParam());
  layer.BuildPlanes();
  layer.BuildCodes();
  for (const double p : kShares) {
    for (const char* how : {"bits=4", "bits=8", "index=pq"}) {
      layer.Run(PlanOf(MassPlan(p, how)), 1);
      ExpectHeld(layer, p, MassPlan(p, how));
    }
  }
}

TEST_P(MassAuditTest, KeysOfOneSizeGoByEstimates) {
  Layer layer(ShapeWith(0), DType::kFloat16, {2500, 1500, 40}, kRows, GetParam());
  layer.BuildPlanes();
  layer.BuildCodes();
  for (const double p : kShares) {
    for (const char* how : {"bits=4", "bits=8"}) {
      EXPECT_EQ(layer.Run(PlanOf(MassPlan(p, how)), 1).num_fallbacks, 0u) << p << how;
    }
  }
}

// A head that holds too little mass by estimates attends to the tokens that the exact plan finds.
TEST_P(MassAuditTest, WhatIsNotHeldIsSearchedByExactScores) {
  Layer layer(ShapeWith(0.9f), DType::kFloat16, {2500, 1500, 40}, 1, GetParam());
  layer.BuildPlanes();
  layer.BuildRankings();
  for (const char* rest : {"", ",static=prefill:30", ",remainder=sample:64"}) {
    const planner::LayerPlan by_planes = PlanOf(MassPlan(0.99, std::string("bits=4") + rest));
    const planner::LayerPlan exact = PlanOf(MassPlan(0.99, std::string("bits=exact") + rest));
    const CallCost cost = layer.Run(by_planes, 1);
    const std::vector<float> out = layer.out();
    const std::vector<CriticalTokens> found = layer.Search(by_planes, 1);
    layer.Run(exact, 1);
    const std::vector<float> exact_out = layer.out();
    const std::vector<CriticalTokens> expected = layer.Search(exact, 1);
    size_t num_equal = 0;
    for (size_t head = 0; head < found.size(); ++head) {
      const size_t width = out.size() / found.size();
      bool same_out = true;
      for (size_t i = head * width; i < (head + 1) * width; ++i) {
        same_out = same_out && std::abs(out[i] - exact_out[i]) < 1e-4f;
      }
      num_equal += found[head].tokens == expected[head].tokens && same_out ? 1u : 0u;
    }
    EXPECT_GT(cost.num_fallbacks, 0u) << rest;
    EXPECT_GE(num_equal, cost.num_fallbacks) << rest;
  }
}

// Once all scores are exact, a bound is the share that is left out, and reads no more keys.
TEST_P(MassAuditTest, AHeadThatRanByExactScoresHasATightBound) {
  Layer layer(ShapeWith(0.9f), DType::kFloat16, {2500, 1500, 40}, 1, GetParam());
  layer.BuildPlanes();
  const std::string plan = MassPlan(0.99, "bits=4");
  const uint64_t num_exact = layer.Run(PlanOf(plan), 1).num_fallbacks;
  ASSERT_GT(num_exact, 0u);
  layer.Run(PlanOf(MassPlan(0.99, "bits=4,exact_fallback=0.02")), 1);
  const auto is_tight = [](const HeadBound& bound) {
    return bound.mass > 0 && bound.mass <= 0.02f;
  };
  EXPECT_GE(std::ranges::count_if(layer.bounds(), is_tight), static_cast<int64_t>(num_exact));
  layer.ExpectBoundsHold(plan.c_str());
}

TEST_P(MassAuditTest, AHeadThatFallsBackTwiceCountsOnce) {
  Layer layer(ShapeWith(0.9f), DType::kFloat16, {2500, 1500, 40}, 1, GetParam());
  layer.BuildPlanes();
  const CallCost cost = layer.Run(PlanOf(MassPlan(0.99, "bits=4,exact_fallback=1e-9")), 1);
  EXPECT_EQ(cost.num_fallbacks, cost.num_queries);
}

// The audit's arrays are those that the bounds and the remainder write afterwards.
TEST(HeadScratchTest, AnAuditTakesLittleMoreMemory) {
  constexpr uint64_t kTokens = 4096;
  const LayerSpec spec = {.num_q_heads = 1, .num_kv_heads = 1, .head_dim = 64, .v_head_dim = 64};
  const auto bytes_of = [&](const std::string& how) {
    const planner::LayerPlan plan = PlanOf(MassPlan(0.9, how));
    const auto search = Registry().MakeSearch(plan, spec);
    Arena arena;
    HeadScratch::Take({&plan, search.get(), kTokens, 64}, &arena);
    return arena.used();
  };
  const size_t of_lifts = kTokens / kernels::kWeightBlock * sizeof(float);
  const size_t of_query = 64 * sizeof(float) + index::QueryCodeBytes(64);
  EXPECT_EQ(bytes_of("bits=4,exact_fallback=0.1") - bytes_of("bits=exact,exact_fallback=0.1"),
            kTokens * sizeof(float) + 2 * of_lifts);
  EXPECT_LE(bytes_of("bits=4,remainder=sample:64") - bytes_of("bits=exact,remainder=sample:64"),
            of_lifts + of_query + 64);
}

INSTANTIATE_TEST_SUITE_P(Seeds, MassAuditTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
