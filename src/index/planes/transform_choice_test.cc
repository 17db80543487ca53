// Goal:   planes are built with the transform that scores best for its cost, they know their error,
//         and a bias of keys that the rotary embedding turned costs them nothing.
// Method: synthetic keys of which it is known what suits them; errors against float64.
#include "index/planes/transform_choice.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/random.h"
#include "index/planes/planes_test_util.h"

namespace attndb::index {
namespace {

using test::MeasuredError;
using test::Rows;

constexpr size_t kNumKeys = 1500;
constexpr size_t kNumQueries = 40;

// A head: keys with a row of random numbers for each token, and queries of the same kind.
struct Head {
  Head(size_t dim, uint64_t seed) : random(seed), keys(kNumKeys, dim), queries(kNumQueries, dim) {
    keys.Fill([this] { return static_cast<float>(random.NextGaussian()); });
    queries.Fill([this] { return static_cast<float>(random.NextGaussian()); });
    frequencies =
        RotaryFrequencies({.layout = RopeLayout::kHalf, .base = 1e6}, static_cast<uint32_t>(dim));
    for (size_t i = 0; i < kNumQueries; ++i) tokens.push_back(kNumKeys - 1);
    q_heads.resize(kNumQueries);
  }

  // A bias before the rotary embedding: of any size, in fast and slow channels.
  void AddBias(float size) {
    std::vector<float> bias(keys.dim());
    for (float& x : bias) {
      const double log_size = random.NextGaussian();
      x = size * static_cast<float>(std::exp(log_size) * random.NextGaussian());
    }
    const RotaryTurns turns(frequencies);
    for (size_t i = 0; i < kNumKeys; ++i) {
      turns.Subtract(bias.data(), kFirstPosition + static_cast<int64_t>(i), 1, keys.row(i), 0);
    }
  }

  PlaneSource source() const {
    return {.keys = keys.view(),
            .num_keys = kNumKeys,
            .first_position = kFirstPosition,
            .frequencies = frequencies,
            .queries = {reinterpret_cast<const std::byte*>(queries.row(0)), tokens, q_heads}};
  }

  static constexpr int64_t kFirstPosition = 4321;
  Random random;
  Rows keys, queries;
  std::vector<double> frequencies;
  std::vector<uint32_t> tokens, q_heads;
};

TEST(TransformChoiceTest, ABiasThatWasRotatedCostsNothing) {
  for (const size_t dim : {64u, 128u}) {
    Head head(dim, dim);
    const KeyPlanes plain = *KeyPlanes::Build(head.source());
    const double unbiased = MeasuredError(plain, head.keys, head.queries, 4);
    head.AddBias(5.0f);
    const KeyPlanes planes = *KeyPlanes::Build(head.source());
    EXPECT_EQ(planes.transform(), TransformId::kUnbias);
    EXPECT_LT(MeasuredError(planes, head.keys, head.queries, 4), 1.5 * unbiased);
    // Unknown angles cost much accuracy, and the planes report it.
    PlaneSource source = head.source();
    source.frequencies = {};
    const KeyPlanes without = *KeyPlanes::Build(source);
    const double biased = MeasuredError(without, head.keys, head.queries, 4);
    EXPECT_GT(biased, 2 * unbiased);
    EXPECT_NEAR(double{without.ScoreError(4, 1.0f)}, biased, 0.25 * biased);
  }
}

TEST(TransformChoiceTest, PlanesReadBackAddTheBiasToo) {
  Head head(64, 1);
  head.AddBias(5.0f);
  const KeyPlanes planes = *KeyPlanes::Build(head.source());
  ASSERT_EQ(planes.transform(), TransformId::kUnbias);
  const KeyPlanes parsed = *KeyPlanes::Parse(planes.parts(), {kNumKeys, 64}, "planes");
  const float* const q = head.queries.row(0);
  EXPECT_EQ(test::Estimate(parsed, q, 64, 4).scores, test::Estimate(planes, q, 64, 4).scores);
}

TEST(TransformChoiceTest, ErrorsAreWhatTheySay) {
  Head head(64, 2);
  for (size_t i = 0; i < kNumKeys; ++i) {
    for (size_t d = 0; d < 64; ++d) head.keys.row(i)[d] *= 1.0f + static_cast<float>(d % 7);
  }
  for (const TransformKind& kind : Transforms()) {
    const TransformChoice choice = *TryTransform(head.source(), kind.id);
    const PlaneSource source = head.source();
    const KeyPlanes planes =
        *PlaneBuilder(source, choice.kind, choice.vectors).Build(0, kNumKeys, choice.errors);
    for (const uint32_t bits : {4u, 8u}) {
      const double error = MeasuredError(planes, head.keys, head.queries, bits);
      EXPECT_NEAR(double{planes.ScoreError(bits, 1.0f)}, error, 0.15 * error) << kind.name;
    }
  }
}

TEST(TransformChoiceTest, ChannelsThatQueriesDoNotReadGetFewCodes) {
  Head head(64, 3);
  for (size_t i = 0; i < kNumKeys; ++i) {
    for (size_t d = 0; d < 16; ++d) head.keys.row(i)[d] *= 30.0f;
  }
  for (size_t i = 0; i < kNumQueries; ++i) {
    for (size_t d = 0; d < 16; ++d) head.queries.row(i)[d] *= 0.03f;
  }
  const KeyPlanes planes = *KeyPlanes::Build(head.source());
  EXPECT_TRUE(TransformOf(planes.transform()).scales);
  const float unscaled = TryTransform(head.source(), TransformId::kTurnBlocks)->errors->bits4;
  EXPECT_LT(planes.ScoreError(4, 1.0f), 0.3f * unscaled);
}

TEST(TransformChoiceTest, NeighboursThatAreAlikeShareTheirMean) {
  Head head(64, 4);
  for (size_t i = 0; i < kNumKeys; ++i) {  // A topic for every 64 tokens.
    for (size_t d = 0; d < 64; ++d) {
      head.keys.row(i)[d] += 10.0f * std::sin(static_cast<float>((i / 64 * 64 + 1) * (d + 1)));
    }
  }
  EXPECT_EQ(KeyPlanes::Build(head.source())->transform(), TransformId::kLocal);
}

TEST(TransformChoiceTest, WithoutQueriesThatSeeKeysTheDefaultIsTaken) {
  Head head(64, 5);
  head.tokens.assign(kNumQueries, 0);
  const TransformChoice choice = *ChooseTransform(head.source());
  EXPECT_EQ(choice.kind.id, kDefaultTransform);
  EXPECT_FALSE(choice.errors.has_value());
  EXPECT_EQ(choice.vectors.channel_scale, std::vector<float>(64, 1.0f));
}

}  // namespace
}  // namespace attndb::index
