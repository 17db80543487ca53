// Goal:   a token's weight is its share of the softmax of the queries, with each key at the
//         position to which it was moved; the heaviest blocks are chosen.
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

// All rows of a run of the source. How q is turned for it, turn_of_run alone says.
attention::HeadRun RunOf(uint32_t number, TokenRange tokens) {
  return {.tokens = tokens,
          .origin = tokens.begin,
          .number = number,
          .k_elements = kDim,
          .dtype = DType::kFloat32,
          .q_shift = kDim};
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
  // Entries beyond the lists are no run, and no query.
  const std::vector<attention::HeadRun> runs = {RunOf(0, {0, 3}), RunOf(1, {3, 43}),
                                                RunOf(0, {5, 8})};
  const std::vector<double> frequencies = *RopeFrequencies(spec.rope, kDim);
  const std::vector<Turn> turns = {Turn(frequencies, -500)};
  const std::vector<uint32_t> turn_of_run = {1, 0, 0};
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> seen;
  for (uint32_t i = 0; i < 20; ++i) {
    tokens.push_back(20 + i);
    seen.push_back(24 + i);
  }
  seen.push_back(43);
  const std::vector<uint32_t> heads(20, 0);
  AttentionMass mass(43);
  EXPECT_FALSE(mass.has_queries());
  ATTNDB_ASSERT_OK(mass.Add({&spec, DType::kFloat32, std::span(runs).first(2),
                             std::span(turn_of_run).first(2), turns, &source},
                            {bytes(q), tokens, heads}, std::span(seen).first(20)));
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

// The mass of tokens with these keys by rows of ones. Each row saw the given number of tokens.
std::vector<double> MassOf(const LayerSpec& spec, const std::vector<float>& keys,
                           const std::vector<uint64_t>& seen) {
  storage::ChainRows source;
  source.Reset({1, kDim, kDim}, DType::kFloat32);
  const uint64_t num_keys = keys.size() / kDim;
  const auto* const rows = reinterpret_cast<const std::byte*>(keys.data());
  source.AddRun(std::vector<storage::KvRows>{{rows, rows, num_keys}});
  std::vector<attention::HeadRun> runs(1);
  runs[0] = {.tokens = {0, num_keys}, .k_elements = kDim, .dtype = DType::kFloat32};
  const std::vector<uint32_t> turn_of_run = {0};
  const std::vector<float> q(seen.size() * kDim, 1.0f);
  const std::vector<uint32_t> tokens(seen.size(), 0);
  AttentionMass mass(num_keys);
  ATTNDB_EXPECT_OK(mass.Add({&spec, DType::kFloat32, runs, turn_of_run, {}, &source},
                            {reinterpret_cast<const std::byte*>(q.data()), tokens, tokens}, seen));
  return {mass.mass().begin(), mass.mass().end()};
}

TEST(AttentionMassTest, AKeyThatIsNotFiniteSpoilsNoQueryBeforeIt) {
  std::vector<float> keys(3 * kDim);
  keys[2 * kDim] = INFINITY;
  EXPECT_THAT(MassOf(Spec(), keys, {2, 3}), ElementsAre(0.5, 0.5, 0));
}

TEST(AttentionMassTest, ASlidingWindowHoldsTheNewestTokensThatAQuerySaw) {
  LayerSpec spec = Spec();
  spec.sliding_window = 2;
  EXPECT_THAT(MassOf(spec, std::vector<float>(4 * kDim), {1, 2, 4}),
              ElementsAre(1.5, 0.5, 0.5, 0.5));
}

TEST(AttentionMassTest, WhereNothingIsSeenNoQueryIsCounted) {
  const LayerSpec spec = Spec();
  const storage::ChainRows source;
  const std::vector<float> q(kDim, 1.0f);
  const std::vector<uint32_t> zero = {0};
  const std::vector<uint64_t> seen = {0};
  AttentionMass mass(0);
  ATTNDB_ASSERT_OK(mass.Add({&spec, DType::kFloat32, {}, {}, {}, &source},
                            {reinterpret_cast<const std::byte*>(q.data()), zero, zero}, seen));
  EXPECT_FALSE(mass.has_queries());
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
