// Goal:   tokens weigh what the softmax of the queries gives them, keys standing where they are
//         moved to; the heaviest blocks are chosen.
// Method: float64 over the same rows.
#include "session/attention_mass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "common/rope_frequencies.h"
#include "kernels/layout.h"
#include "storage/kv/chain_rows.h"
#include "testing/matchers.h"

namespace attndb::internal {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kDim = 16;

LayerSpec Spec() {
  LayerSpec spec;
  spec.num_q_heads = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = spec.v_head_dim = kDim;
  spec.rope.layout = RopeLayout::kHalf;
  return spec;
}

TEST(AttentionMassTest, IsTheSoftmaxOfTheNewestQueries) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const auto rows = [&](size_t n) {
    std::vector<float> made(n * kDim);
    for (float& x : made) x = normal(random);
    return made;
  };
  const std::vector<float> front = rows(3);
  const std::vector<float> rest = rows(40);
  const std::vector<float> q = rows(20);
  LayerSpec spec = Spec();
  spec.soft_cap = 3.0f;
  storage::ChainRows source;
  source.Reset({1, kDim, kDim}, DType::kFloat32);
  const auto bytes = [](const std::vector<float>& r) {
    return reinterpret_cast<const std::byte*>(r.data());
  };
  source.AddRun(std::vector<storage::KvRows>{{bytes(front), bytes(front), 3}});
  source.AddRun(std::vector<storage::KvRows>{{bytes(rest), bytes(rest), 40}});
  std::vector<attention::HeadRun> runs(2);
  runs[0] = {
      .tokens = {0, 3}, .origin = 0, .number = 0, .k_elements = kDim, .dtype = DType::kFloat32};
  runs[1] = {
      .tokens = {3, 43}, .origin = 3, .number = 1, .k_elements = kDim, .dtype = DType::kFloat32};
  const std::vector<double> frequencies = *RopeFrequencies(spec.rope, kDim);
  const std::vector<Turn> turns = {Turn(frequencies, -500)};
  const std::vector<uint32_t> turn_of_run = {1, 0};
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> seen;
  for (uint32_t i = 0; i < 20; ++i) {
    tokens.push_back(20 + i);
    seen.push_back(24 + i);
  }
  const std::vector<uint32_t> heads(20, 0);
  AttentionMass mass(43);
  EXPECT_FALSE(mass.has_queries());
  ATTNDB_ASSERT_OK(mass.Add({&spec, DType::kFloat32, runs, turn_of_run, turns, &source},
                            {bytes(q), tokens, heads}, seen));
  EXPECT_TRUE(mass.has_queries());
  std::vector<double> expected(43);
  for (size_t row = 4; row < 20; ++row) {  // The newest sixteen.
    std::vector<double> logits;
    for (size_t i = 0; i < seen[row]; ++i) {
      std::vector<double> key(kDim);
      for (size_t d = 0; d < kDim; ++d) {
        key[d] = double{i < 3 ? front[i * kDim + d] : rest[(i - 3) * kDim + d]};
      }
      for (size_t p = 0; i < 3 && p < kDim / 2; ++p) {
        const double angle = frequencies[p] * 500;
        const double a = key[p];
        const double b = key[p + kDim / 2];
        key[p] = a * std::cos(angle) - b * std::sin(angle);
        key[p + kDim / 2] = a * std::sin(angle) + b * std::cos(angle);
      }
      double score = 0;
      for (size_t d = 0; d < kDim; ++d) score += key[d] * double{q[row * kDim + d]};
      logits.push_back(3 * std::tanh(score / 4 / 3));
    }
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit);
    for (size_t i = 0; i < logits.size(); ++i) expected[i] += std::exp(logits[i]) / sum;
  }
  for (size_t i = 0; i < 43; ++i) EXPECT_NEAR(mass.mass()[i], expected[i], 1e-5) << i;
}

TEST(AttentionMassTest, TheHeaviestBlocksAreChosen) {
  std::vector<double> mass(64, 0.1);
  mass[5] = 3;
  mass[20] = 2;
  mass[26] = 4;
  mass[63] = 9;
  EXPECT_THAT(HeaviestBlocks(mass, {0, 60}, 8, 8), ElementsAre(TokenRange{24, 32}));
  EXPECT_THAT(HeaviestBlocks(mass, {0, 60}, 17, 8),
              ElementsAre(TokenRange{0, 8}, TokenRange{24, 32}));
  EXPECT_THAT(HeaviestBlocks(mass, {0, 60}, 24, 8),
              ElementsAre(TokenRange{0, 8}, TokenRange{16, 32}));
  EXPECT_THAT(HeaviestBlocks(mass, {0, 60}, 1000, 8), ElementsAre(TokenRange{0, 60}));
  EXPECT_TRUE(HeaviestBlocks(mass, {0, 60}, 7, 8).empty());
  EXPECT_TRUE(HeaviestBlocks(mass, {60, 60}, 100, 8).empty());
}

}  // namespace
}  // namespace attndb::internal
