// Goal:   estimates differ from the exact scores by as much as the planes say. Zero, equal and
//         single keys and odd dims are no special case.
// Method: against float64 inner products.
#include "index/planes/key_planes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "index/planes/plane_builder.h"
#include "index/planes/transform_choice.h"
#include "kernels/test_kept.h"

namespace attndb::index {
namespace {

class Keys {
 public:
  Keys(size_t num_keys, size_t dim, float mean, uint32_t seed) : dim_(dim), random_(seed) {
    buffer_ = *AlignedBuffer::Allocate(num_keys * dim * sizeof(float) + 64);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < num_keys * dim; ++i) {
      // Channels differ, and have a mean.
      rows()[i] = (1.0f + static_cast<float>(i % dim % 7)) * (normal(random_) + mean);
    }
  }
  float* rows() { return reinterpret_cast<float*>(buffer_.data()); }
  kernels::RowsView view() { return {rows(), dim_, dim_, DType::kFloat32}; }

  AlignedBuffer Query() {
    AlignedBuffer q = *AlignedBuffer::Allocate(dim_ * sizeof(float));
    std::normal_distribution<float> normal;
    for (size_t d = 0; d < dim_; ++d) reinterpret_cast<float*>(q.data())[d] = normal(random_);
    return q;
  }

 private:
  const size_t dim_;
  std::mt19937 random_;
  AlignedBuffer buffer_;
};

// Root mean square of the errors of all scores of one q, divided by the planes' own estimate.
double ErrorRatio(Keys* keys, const KeyPlanes& planes, uint32_t bits, size_t num_keys, size_t dim) {
  const AlignedBuffer query = keys->Query();
  const auto* const q = reinterpret_cast<const float*>(query.data());
  AlignedBuffer spare = *AlignedBuffer::Allocate(dim * sizeof(float));
  AlignedBuffer codes = *AlignedBuffer::Allocate(QueryCodeBytes(dim));
  const EstimateQuery prepared =
      planes.Prepare(q, reinterpret_cast<float*>(spare.data()), codes.data());
  std::vector<float> scores(num_keys);
  planes.Scan(bits, 0, num_keys, &prepared, 1, scores.data(), num_keys);
  double square = 0;
  double norm = 0;
  for (size_t d = 0; d < dim; ++d) norm += double{q[d]} * double{q[d]};
  for (size_t i = 0; i < num_keys; ++i) {
    double exact = 0;
    for (size_t d = 0; d < dim; ++d) exact += double{q[d]} * double{keys->rows()[i * dim + d]};
    square += std::pow(double{scores[i]} - exact, 2);
  }
  return std::sqrt(square / static_cast<double>(num_keys)) /
         double{planes.ScoreError(bits, static_cast<float>(std::sqrt(norm)))};
}

// Keep against Scan and a second pass, for planes with one transform.
class KeepTest : public ::testing::TestWithParam<TransformKind> {
 protected:
  static constexpr size_t kKeys = 9000;
  static constexpr size_t kDim = 32;
  static constexpr size_t kMostRows = 20;

  void SetUp() override {
    std::vector<double> frequencies(kDim / 2);
    for (size_t i = 0; i < kDim / 2; ++i) {
      frequencies[i] = std::pow(1e4, -2.0 * static_cast<double>(i) / kDim);
    }
    const PlaneSource source = {
        .keys = keys_.view(), .num_keys = kKeys, .first_position = 0, .frequencies = frequencies};
    const TransformChoice choice = *TryTransform(source, GetParam().id);
    planes_ = *PlaneBuilder(source, choice.kind, choice.vectors).Build(0, kKeys, choice.errors);
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < kMostRows * kDim; ++i) q()[i] = normal(random);
    for (float& x : noise_) x = 3 * normal(random);
  }

  float* q() { return reinterpret_cast<float*>(q_.data()); }

  std::vector<EstimateQuery> Prepare() {
    std::vector<EstimateQuery> queries;
    for (size_t r = 0; r < kMostRows; ++r) {
      queries.push_back(planes_.Prepare(q() + r * kDim,
                                        reinterpret_cast<float*>(spare_.data()) + r * kDim,
                                        codes_.data() + r * QueryCodeBytes(kDim)));
    }
    return queries;
  }

  // The first keys of a scan may be those of another one's tile, where a bias is added: by the same
  // table at other places, and rounded otherwise.
  void Check(uint32_t bits, std::span<const EstimateQuery> queries, const kernels::LogitSpec& logit,
             size_t first, size_t n) {
    const size_t num_rows = queries.size();
    const std::vector<float> thresholds(num_rows, 4.0f);
    const kernels::DrawRule rule = {logit, thresholds.data()};
    std::vector<float> scores(num_rows * n), work(num_rows * KeepCall::kWork);
    planes_.Scan(bits, first, n, queries.data(), num_rows, scores.data(), n);
    kernels::TestKept expected(num_rows, n), kept(num_rows, n);
    kernels::KeepTokens(rule, scores.data(), n, num_rows, n, noise_.data(), 7, &expected.kept);
    planes_.Keep({bits, first, n, queries, rule, noise_.data(), 7, work.data()}, &kept.kept);
    const float tolerance = GetParam().removes_bias ? 1e-3f : 0.0f;
    ASSERT_TRUE(kept.IsCloseTo(expected, tolerance))
        << bits << " bits, " << num_rows << " rows, " << first << " + " << n;
    ASSERT_TRUE(n < 4000 || (kept.kept.count > 0 && kept.kept.count < n));
  }

 private:
  Keys keys_{kKeys, kDim, 2.0f, 3};
  KeyPlanes planes_;
  AlignedBuffer q_ = *AlignedBuffer::Allocate(kMostRows * kDim * sizeof(float));
  AlignedBuffer spare_ = *AlignedBuffer::Allocate(kMostRows * kDim * sizeof(float));
  AlignedBuffer codes_ = *AlignedBuffer::Allocate(kMostRows * QueryCodeBytes(kDim));
  std::vector<float> noise_ = std::vector<float>(kKeys);
};

TEST_P(KeepTest, KeepsWhatAScanAndASecondPassDo) {
  const std::vector<EstimateQuery> queries = Prepare();
  for (const uint32_t bits : {4u, 8u}) {
    for (const float soft_cap : {0.0f, 9.0f}) {
      for (const size_t num_rows : {1u, 3u, 4u, 5u, 20u}) {
        for (const size_t first : {0u, 5u, 64u, 4090u}) {
          for (const size_t n : {1u, 40u, 4910u}) {
            Check(bits, std::span(queries).first(num_rows), {.scale = 0.1f, .soft_cap = soft_cap},
                  first, n);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transforms, KeepTest, ::testing::ValuesIn(Transforms()),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(KeyPlanesTest, ErrorsAreWhatTheySay) {
  for (const size_t dim : {16u, 48u, 64u, 80u, 128u}) {
    Keys keys(3001, dim, 2.0f, 1);
    const KeyPlanes planes = *KeyPlanes::Build(keys.view(), 3001);
    for (const uint32_t bits : {4u, 8u}) {
      double mean = 0;
      for (int i = 0; i < 20; ++i) mean += ErrorRatio(&keys, planes, bits, 3001, dim) / 20;
      EXPECT_NEAR(mean, 1.0, 0.15) << bits << " bits, " << dim;
    }
    EXPECT_LT(planes.ScoreError(8, 1.0f), 0.11f * planes.ScoreError(4, 1.0f));
  }
}

TEST(KeyPlanesTest, WhatKeysHaveInCommonCostsNothing) {
  Keys near(1000, 64, 0.0f, 1), far(1000, 64, 50.0f, 1);
  const KeyPlanes a = *KeyPlanes::Build(near.view(), 1000);
  const KeyPlanes b = *KeyPlanes::Build(far.view(), 1000);
  EXPECT_NEAR(b.ScoreError(4, 1.0f), a.ScoreError(4, 1.0f), 0.01f * a.ScoreError(4, 1.0f));
}

TEST(KeyPlanesTest, ZeroEqualAndSingleKeys) {
  for (const size_t num_keys : {1u, 2u, 40u}) {
    Keys keys(num_keys, 64, 0.0f, 1);
    for (size_t i = 0; i < num_keys * 64; ++i) keys.rows()[i] = num_keys == 2 ? 0.0f : 3.0f;
    const KeyPlanes planes = *KeyPlanes::Build(keys.view(), num_keys);
    EXPECT_EQ(planes.num_keys(), num_keys);
    EXPECT_EQ(planes.ScoreError(4, 1.0f), 0.0f);  // All of it is in the mean.
    AlignedBuffer q = keys.Query();
    AlignedBuffer spare = *AlignedBuffer::Allocate(64 * sizeof(float));
    AlignedBuffer codes = *AlignedBuffer::Allocate(QueryCodeBytes(64));
    double exact = 0;
    for (size_t d = 0; d < 64; ++d) {
      exact += double{reinterpret_cast<float*>(q.data())[d]} * double{keys.rows()[d]};
    }
    const EstimateQuery query = planes.Prepare(
        reinterpret_cast<float*>(q.data()), reinterpret_cast<float*>(spare.data()), codes.data());
    for (const uint32_t bits : {4u, 8u}) {
      std::vector<float> scores(num_keys);
      planes.Scan(bits, 0, num_keys, &query, 1, scores.data(), num_keys);
      for (const float score : scores) EXPECT_NEAR(double{score}, exact, 1e-4) << bits;
    }
  }
}

TEST(KeyPlanesTest, TwoBuildsAreTheSame) {
  Keys keys(500, 64, 1.0f, 1);
  const KeyPlanes a = *KeyPlanes::Build(keys.view(), 500);
  const KeyPlanes b = *KeyPlanes::Build(keys.view(), 500);
  EXPECT_EQ(a.ScoreError(4, 1.0f), b.ScoreError(4, 1.0f));
  EXPECT_EQ(a.memory_bytes(), KeyPlanes::BytesFor(500, 64));
}

}  // namespace
}  // namespace attndb::index
