// Goal:   the bench measures what it says: full has no error, a plan reads less, files are checked.
// Method: tiny geometries in a temporary store; no figure of speed is judged.
#include "cli/common/attention_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <optional>
#include <random>
#include <string>

namespace attndb::cli {
namespace {

using testing::HasSubstr;

BenchOptions Small() {
  BenchOptions options;
  options.num_tokens = 700;
  options.head_dim = 32;
  options.num_q_heads = 4;
  options.num_kv_heads = 2;
  options.repeat = 3;
  options.temp_dir = testing::TempDir();
  return options;
}

NpyArray Array(std::vector<int64_t> shape, uint32_t seed) {
  NpyArray array;
  size_t count = 1;
  for (const int64_t size : shape) count *= static_cast<size_t>(size);
  array.header.shape = std::move(shape);
  std::vector<float> values(count);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  array.words.resize((count + 1) / 2);
  std::memcpy(array.words.data(), values.data(), count * sizeof(float));
  return array;
}

TEST(AttentionBenchTest, FullHasNoErrorAndReadsAllKeysAndValues) {
  const auto result = RunAttentionBench(Small(), std::nullopt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(result->synthetic);
  EXPECT_EQ(result->error_max, 0);
  EXPECT_GT(result->ms_median, 0);
  EXPECT_GT(result->bandwidth, 0);
  // K and V, f16, 2 heads of 32; rows may be padded.
  EXPECT_GE(result->bytes_touched, 700U * 2 * 2 * 32 * 2);
}

TEST(AttentionBenchTest, ASparsePlanSelectsAndErrs) {
  BenchOptions options = Small();
  options.plan = "topk(k=20,sink=4,window=16)";
  const auto result = RunAttentionBench(options, std::nullopt);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR(result->selected_mean, 20, 0.01);
  EXPECT_GT(result->error_mean, 0);
  EXPECT_LE(result->error_mean, result->error_max);
}

TEST(AttentionBenchTest, VectorsFromFilesKeepTheirShape) {
  BenchVectors vectors = {Array({300, 2, 16}, 1), Array({300, 2, 8}, 2), Array({3, 4, 16}, 3)};
  ASSERT_TRUE(CheckVectors(vectors).ok());
  const auto result = RunAttentionBench(Small(), vectors);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_FALSE(result->synthetic);
  EXPECT_EQ(result->num_tokens, 300U);
  EXPECT_EQ(result->num_q_heads, 4U);
  EXPECT_EQ(result->head_dim, 16U);
}

TEST(AttentionBenchTest, ArraysThatDoNotFitAreRefusedWithTheirShapes) {
  const Status unequal =
      CheckVectors({Array({3, 2, 4}, 1), Array({4, 2, 4}, 2), Array({1, 2, 4}, 3)});
  EXPECT_EQ(unequal.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(unequal.message(), HasSubstr("[3, 2, 4], values [4, 2, 4]"));
  const Status groups =
      CheckVectors({Array({3, 2, 4}, 1), Array({3, 2, 4}, 2), Array({1, 3, 4}, 3)});
  EXPECT_THAT(groups.message(), HasSubstr("multiple of kv heads"));
}

TEST(AttentionBenchTest, ABadPlanAndABadFolderAreErrorsAndNothingIsLeft) {
  const std::string folder = testing::TempDir() + "attention_bench_test";
  std::filesystem::create_directories(folder);
  BenchOptions options = Small();
  options.temp_dir = folder;
  options.plan = "topk(k=";
  EXPECT_EQ(RunAttentionBench(options, std::nullopt).status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
  EXPECT_EQ(RunAttentionBench(options, std::nullopt).status().code(), StatusCode::kIoError);
}

}  // namespace
}  // namespace attndb::cli
