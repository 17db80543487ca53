// Goal:   the bench measures what it says: full has no error, a plan reads less and errs as a
//         reference says, layers keep their plans.
// Method: tiny heads in a temporary store; errors and masses against float64 brute force. No figure
//         of speed is judged.
#include "bench/attention/attention_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>

#include "bench/heads/heads_test_util.h"
#include "bench/heads/synthetic_heads.h"
#include "cli/common/temp_dir.h"

namespace attndb::bench {
namespace {

using ::testing::HasSubstr;

AttentionBenchOptions Small(std::vector<std::string> plans) {
  AttentionBenchOptions options;
  options.plans = std::move(plans);
  options.num_rows = 3;
  options.temp_dir = testing::TempDir();
  options.bandwidth_bytes = 1 << 20;
  return options;
}

std::unique_ptr<HeadSource> SmallHeads() {
  return *SyntheticHeads(*ParseGeometry("2x2x32"), 700, DType::kFloat16);
}

TEST(AttentionBenchTest, FullHasNoErrorAndReadsAllKeysAndValues) {
  const auto heads = SmallHeads();
  const auto result = RunAttentionBench(heads.get(), Small({"full"}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_steps, 3U);
  EXPECT_EQ(result->kv_bytes, 700U * 2 * 2 * 32 * 2);
  EXPECT_GT(result->bandwidth, 0);
  ASSERT_EQ(result->plans.size(), 2U);
  for (const PlanResult& plan : result->plans) {
    EXPECT_EQ(plan.error_worst_head, 0);
    EXPECT_DOUBLE_EQ(plan.mass.value(), 1);
    EXPECT_GT(plan.ms_median, 0);
    EXPECT_GE(plan.bytes_touched, 698U * 2 * 2 * 32 * 2);  // Rows may be padded.
  }
}

TEST(AttentionBenchTest, ASparsePlanSelectsErrsAndIsOnTheFrontier) {
  const auto heads = SmallHeads();
  AttentionBenchOptions options = Small({"topk(k=20,sink=4,window=16)"});
  options.repeat = 2;
  const auto result = RunAttentionBench(heads.get(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->num_steps, 6U);
  const PlanResult& plan = result->plans[1];
  EXPECT_NEAR(plan.selected_mean, 20, 0.01);
  EXPECT_GT(plan.error_mean, 0);
  EXPECT_LT(plan.error_mean, plan.error_worst_head);
  EXPECT_LT(plan.bytes_touched, result->plans[0].bytes_touched);
  EXPECT_TRUE(plan.best_by_bytes);
  EXPECT_TRUE(result->plans[0].best_by_bytes);
}

// Softmax attention of `q` over chosen tokens, in float64; gives the sum of weights.
double Attend(const std::vector<float>& k, const std::vector<float>& v, const float* q,
              const std::vector<size_t>& tokens, std::vector<double>* out) {
  out->assign(8, 0);
  double sum = 0;
  for (const size_t token : tokens) {
    double dot = 0;
    for (size_t d = 0; d < 8; ++d) dot += static_cast<double>(q[d]) * k[8 * token + d];
    const double weight = std::exp(dot / std::sqrt(8.0));
    sum += weight;
    for (size_t d = 0; d < 8; ++d) (*out)[d] += weight * v[8 * token + d];
  }
  for (double& value : *out) value /= sum;
  return sum;
}

TEST(AttentionBenchTest, ErrorAndMassOfLayersOfACaptureAreThoseOfBruteForce) {
  constexpr size_t kTokens = 60;
  const std::string path = WriteCapture("attention_bench_test.safetensors", kTokens, {});
  const auto heads = HeadsFromCapture(path, "");
  ASSERT_TRUE(heads.ok()) << heads.status();
  AttentionBenchOptions options = Small({"full; layers 2: window(sink=2,window=10)"});
  options.num_rows = 1;
  const auto result = RunAttentionBench(heads->get(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  const std::vector<float> k = Normals(8 * kTokens, 12), v = Normals(8 * kTokens, 22);
  const std::vector<float> q = Normals(size_t{20} * 16, 32);
  std::vector<size_t> all(kTokens), some = {0, 1};
  std::iota(all.begin(), all.end(), 0);
  some.insert(some.end(), all.end() - 10, all.end());
  double error = 0, mass = 2;  // Layer 0 has all, with both its heads.
  for (size_t head = 0; head < 2; ++head) {
    std::vector<double> full, part;
    const float* const row = q.data() + 16 * 19 + 8 * head;
    const double whole = Attend(k, v, row, all, &full);
    mass += Attend(k, v, row, some, &part) / whole;
    double difference = 0, norm = 0;
    for (size_t d = 0; d < 8; ++d) {
      difference += std::pow(part[d] - full[d], 2);
      norm += std::pow(full[d], 2);
    }
    error += std::sqrt(difference / norm);
  }
  EXPECT_NEAR(result->plans[1].error_mean, error / 4, 1e-5);
  EXPECT_NEAR(result->plans[1].mass.value(), mass / 4, 1e-5);
  EXPECT_THAT(result->plans[1].canonical, HasSubstr("full; layers 1: window"));
  std::filesystem::remove(path);
}

TEST(AttentionBenchTest, TheMassOfAnEstimatedRemainderIsThatOfWhatWasSelected) {
  const auto heads = SmallHeads();
  const auto result = RunAttentionBench(
      heads.get(), Small({"topk(k=20)", "topk(k=20,remainder=sample:50)", "auto(error=0.1)"}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->plans[2].error_mean, result->plans[1].error_mean);
  EXPECT_NEAR(result->plans[2].mass.value(), result->plans[1].mass.value(), 1e-6);
  EXPECT_FALSE(result->plans[3].mass.has_value());
  // Exact scores: what is left out is known exactly, for each of 4 heads in 3 steps.
  EXPECT_EQ(result->plans[2].num_estimates, 12U);
  EXPECT_EQ(result->plans[2].num_within_2, 12U);
  EXPECT_EQ(result->plans[1].num_estimates, 0U);
}

TEST(AttentionBenchTest, BoundsAreCheckedByQuery) {
  const auto heads = SmallHeads();
  const auto result = RunAttentionBench(
      heads.get(), Small({"topk(k=20)", "topk(k=20,exact_fallback=1)",
                          "topk(k=20,bits=8,exact_fallback=1)", "topk(k=20,exact_fallback=1e-9)"}));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->plans[1].num_bounds, 0U);
  for (size_t i = 2; i < 5; ++i) {
    EXPECT_EQ(result->plans[i].num_bounds, 12U);  // 4 heads in 3 steps.
    EXPECT_EQ(result->plans[i].num_held, 12U);
    EXPECT_EQ(result->plans[i].num_out_held, 12U);
  }
  EXPECT_EQ(result->plans[2].error_mean, result->plans[1].error_mean);
  EXPECT_NEAR(result->plans[2].bound_looseness, 1, 1e-2);  // Exact scores give tight bounds.
  EXPECT_GT(result->plans[2].out_bound_looseness, 1);
  EXPECT_LT(result->plans[4].error_mean, 1e-5);
}

TEST(AttentionBenchTest, OptionalPlansThatAreNotThereAreListed) {
  const auto heads = SmallHeads();
  AttentionBenchOptions options = Small({});
  options.optional_plans = {"topk(k=5)", "topk(k=5,index=coarse)"};
  const auto result = RunAttentionBench(heads.get(), options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->plans.size(), 2U);
  ASSERT_EQ(result->left_out.size(), 1U);
  EXPECT_EQ(result->left_out[0].plan, "topk(k=5,index=coarse)");
  EXPECT_THAT(result->left_out[0].because, HasSubstr("coarse"));
}

// 697 tokens are too few for any index: what would run is a scan.
TEST(AttentionBenchTest, AnIndexThatCannotRunIsRefusedOrLeftOutWithTheReason) {
  const auto heads = SmallHeads();
  for (const char* index : {"quest", "graph", "clustered", "pq", "infllm", "wave", "roargraph"}) {
    const std::string plan = "topk(k=64,index=" + std::string(index) + ")";
    const std::string reason = "index=flat instead of index=" + std::string(index) +
                               ": too few tokens: one segment needs 2,048";
    const auto refused = RunAttentionBench(heads.get(), Small({plan}));
    EXPECT_EQ(refused.status().code(), StatusCode::kUnsupported) << refused.status();
    EXPECT_THAT(refused.status().message(), HasSubstr("plan '" + plan + "' can't be measured"));
    EXPECT_THAT(refused.status().message(), HasSubstr(reason));
    AttentionBenchOptions options = Small({});
    options.optional_plans = {plan, "topk(k=64)"};
    const auto result = RunAttentionBench(heads.get(), options);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->plans.size(), 2U);
    EXPECT_EQ(result->plans[1].plan, "topk(k=64)");
    ASSERT_EQ(result->left_out.size(), 1U);
    EXPECT_EQ(result->left_out[0].plan, plan);
    EXPECT_EQ(result->left_out[0].because, reason);
  }
}

// Built and waited for before the first step, so that their figures are no scan's.
TEST(AttentionBenchTest, IndexesRunAndSayThatTheyRan) {
  const auto heads = *SyntheticHeads(*ParseGeometry("1x2x32"), 3000, DType::kFloat16);
  const auto result = RunAttentionBench(
      heads.get(), Small({"topk(k=20)", "topk(k=20,index=quest)",
                          "topk(k=20,index=graph,beam_width=20)", "topk(k=20,bits=8)"}));
  ASSERT_TRUE(result.ok()) << result.status();
  const PlanResult& flat = result->plans[1];
  for (const PlanResult& plan : result->plans) {
    EXPECT_EQ(plan.ran, plan.canonical);
    EXPECT_TRUE(plan.substitutes.empty()) << plan.substitutes[0].ToText();
  }
  for (const size_t i : {2u, 3u}) {
    EXPECT_LT(result->plans[i].bytes_touched, 0.9 * flat.bytes_touched) << result->plans[i].plan;
  }
}

TEST(AttentionBenchTest, WhatARuleReplacedIsNamedAndNeverTheBest) {
  const auto heads = SmallHeads();
  const auto result = RunAttentionBench(heads.get(), Small({"auto(error=0.1)", "topk(k=1000)"}));
  ASSERT_TRUE(result.ok()) << result.status();
  const PlanResult& replaced = result->plans[1];
  EXPECT_EQ(replaced.error_mean, 0);
  EXPECT_EQ(replaced.ran, "full");
  ASSERT_EQ(replaced.substitutes.size(), 1U);
  EXPECT_EQ(replaced.substitutes[0].ToText(), "full instead of auto: short context");
  EXPECT_FALSE(replaced.best_by_bytes || replaced.best_by_time);
  EXPECT_TRUE(result->plans[0].best_by_bytes);
}

TEST(AttentionBenchTest, ABadPlanABadFolderAndACancelAreErrorsAndNothingIsLeft) {
  const cli::TempDir dir = *cli::TempDir::Create("");
  const std::string& folder = dir.path();
  const auto heads = SmallHeads();
  AttentionBenchOptions options = Small({"topk(k="});
  options.temp_dir = folder;
  EXPECT_EQ(RunAttentionBench(heads.get(), options).status().code(), StatusCode::kInvalidArgument);
  options.plans.clear();
  options.progress = [](const std::string& phase, uint64_t, uint64_t) { return phase == "store"; };
  EXPECT_EQ(RunAttentionBench(heads.get(), options).status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  EXPECT_EQ(RunAttentionBench(heads.get(), options).status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace attndb::bench
