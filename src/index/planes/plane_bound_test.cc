// Goal:   no score is further from q.k than its block's bound, for any q and k, and the bound is
//         small.
// Method: against float64, for every transform, over distributions that quantization, rotation or
//         float32 do badly on: some 500,000 scores.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "common/random.h"
#include "index/planes/planes_test_util.h"
#include "index/planes/transform_choice.h"
#include "kernels/weights.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::Rows;

constexpr size_t kNumKeys = 150;
constexpr size_t kNumQueries = 14;

struct Distribution {
  const char* name;
  float (*next)(Random* random, size_t channel);
};

float Gaussian(Random* random) { return static_cast<float>(random->NextGaussian()); }

constexpr Distribution kDistributions[] = {
    {"normal", [](Random* random, size_t) { return Gaussian(random); }},
    {"far from 0", [](Random* random, size_t) { return 1e4f + Gaussian(random); }},
    {"heavy tails", [](Random* random, size_t) { return std::exp(4 * Gaussian(random)); }},
    {"one large channel",
     [](Random* random, size_t channel) {
       return (channel == 5 ? 1e5f : 1e-3f) * Gaussian(random);
     }},
    {"signs", [](Random* random, size_t) { return random->OneIn(2) ? -1.0f : 1.0f; }},
    {"sparse",
     [](Random* random, size_t) { return random->OneIn(20) ? 100 * Gaussian(random) : 0.0f; }},
    {"huge", [](Random* random, size_t) { return 1e15f * Gaussian(random); }},
    {"tiny", [](Random* random, size_t) { return 1e-30f * Gaussian(random); }},
    {"all sizes",
     [](Random* random, size_t) {
       return std::ldexp(Gaussian(random), static_cast<int>(random->Uniform(60)) - 40);
     }},
    {"zeros and ones", [](Random* random, size_t) { return random->OneIn(2) ? 0.0f : 1.0f; }},
};

class PlaneBoundTest : public ::testing::Test {
 protected:
  Rows Draw(const Distribution& distribution, size_t num_rows, size_t dim) {
    Rows rows(num_rows, dim);
    size_t channel = 0;
    rows.Fill([&] { return distribution.next(&random_, channel++ % dim); });
    return rows;
  }

  // Checks every score of planes with this transform.
  void Check(const Rows& keys, const Rows& queries, const TransformKind& kind) {
    const size_t dim = keys.dim();
    std::vector<double> frequencies(dim / 2);
    for (size_t i = 0; i < dim / 2; ++i) {
      frequencies[i] = std::pow(1e5, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
    }
    std::vector<uint32_t> tokens(kNumQueries, kNumKeys), q_heads(kNumQueries);
    const PlaneSource source = {
        .keys = keys.view(),
        .num_keys = kNumKeys,
        .first_position = 777777,
        .frequencies = frequencies,
        .queries = {reinterpret_cast<const std::byte*>(queries.row(0)), tokens, q_heads}};
    const TransformChoice choice = *TryTransform(source, kind.id);
    const KeyPlanes planes =
        *PlaneBuilder(source, choice.kind, choice.vectors).Build(0, kNumKeys, choice.errors);
    ASSERT_EQ(planes.num_keys(), kNumKeys);
    for (const uint32_t bits : {4u, 8u}) {
      for (size_t r = 0; r < kNumQueries; ++r) CheckQuery(planes, keys, queries.row(r), bits);
    }
  }

  void CheckQuery(const KeyPlanes& planes, const Rows& keys, const float* q, uint32_t bits) {
    const test::Estimated estimated = test::Estimate(planes, q, keys.dim(), bits);
    for (size_t i = 0; i < kNumKeys; ++i) {
      const double exact = test::Score(q, keys.row(i), keys.dim());
      const double error = std::abs(double{estimated.scores[i]} - exact);
      const auto bound = double{estimated.bounds[i / kernels::kWeightBlock]};
      ASSERT_LE(error, bound) << "key " << i << ", " << bits << " bits";
      ++num_checked_;
      const double product = test::Norm(q, keys.dim()) * test::Norm(keys.row(i), keys.dim());
      largest_share_ = std::max(largest_share_, bits == 8 ? bound / product : 0.0);
    }
  }

  Random random_{attndb::test::SeedOr(72)};
  size_t num_checked_ = 0;
  double largest_share_ = 0;  // Bound at 8 bits over |q||k|.
};

TEST_F(PlaneBoundTest, NoScoreIsFurtherOffThanItsBound) {
  for (const Distribution& of_keys : kDistributions) {
    for (const size_t dim : {16u, 48u, 64u, 128u}) {
      const Rows keys = Draw(of_keys, kNumKeys, dim);
      const Distribution& of_queries = kDistributions[random_.Uniform(std::size(kDistributions))];
      const Rows queries = Draw(of_queries, kNumQueries, dim);
      for (const TransformKind& kind : Transforms()) {
        SCOPED_TRACE(std::string(of_keys.name) + " keys, " + of_queries.name + " queries, dim " +
                     std::to_string(dim) + ", " + std::string(kind.name));
        Check(keys, queries, kind);
      }
    }
  }
  EXPECT_GT(num_checked_, 500000u);
}

TEST_F(PlaneBoundTest, TheBoundIsSmall) {
  const Rows keys = Draw(kDistributions[0], kNumKeys, 64);
  const Rows queries = Draw(kDistributions[0], kNumQueries, 64);
  Check(keys, queries, TransformOf(TransformId::kLocal));
  EXPECT_LT(largest_share_, 0.05);  // 2 / 255 for q and for k, and keys differ in length.
}

// Nothing can be said of them, so they have no planes.
TEST_F(PlaneBoundTest, KeysWhoseSquaresOverflowGetNoPlanes) {
  for (const float huge : {1e25f, 3e38f}) {
    Rows keys(100, 32);
    keys.Fill([&] { return huge * (random_.OneIn(2) ? 1.0f : -1.0f); });
    const Result<KeyPlanes> planes = KeyPlanes::Build(keys.view(), 100);
    ASSERT_TRUE(planes.ok());
    EXPECT_EQ(planes->num_keys(), 0u);
  }
}

}  // namespace
}  // namespace attndb::index
