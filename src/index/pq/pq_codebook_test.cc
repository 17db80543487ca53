// Goal:   codebooks are as good as those of plain k-means. They are the same for any number of
//         threads, and defined for any keys.
// Method: against float64; keys of every awkward kind.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/pq/pq_codebook.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "index/pq/pq_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

// Mean squared norm of the difference between the rows and their codes.
double DistortionOf(const PqCodebook& codebook, const PqRows& rows) {
  const size_t width = codebook.width();
  std::vector<uint8_t> nearest(rows.num_rows());
  std::vector<float> gains(rows.num_rows());
  double sum = 0;
  for (size_t s = 0; s < codebook.num_subspaces; ++s) {
    kernels::FindNearest(codebook.view(), s, rows.row(0) + s * width, rows.dim, rows.num_rows(),
                         nearest.data(), gains.data());
    for (size_t i = 0; i < rows.num_rows(); ++i) {
      for (size_t j = 0; j < width; ++j) {
        const size_t at = (s * width + j) * kernels::CodeEntries(codebook.bits) + nearest[i];
        const double left = double{rows.row(i)[s * width + j]} - double{codebook.centroids[at]};
        sum += left * left;
      }
    }
  }
  return sum / static_cast<double>(rows.num_rows());
}

TEST(PqCodebookTest, LeavesOutNoMoreThanPlainKMeans) {
  Random random(SeedOr(3));
  const PqRows rows = TopicRows(3000, 32, &random);
  for (const size_t bits : {4u, 6u}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const PqCodebook codebook,
        TrainPqCodebook(rows.source(), {.num_subspaces = 4, .bits = bits, .num_rounds = 12}));
    const PlainPq plain(rows, 4, bits, 12, &random);
    EXPECT_LT(DistortionOf(codebook, rows), 1.03 * plain.Distortion()) << bits << " bits";
  }
}

TEST(PqCodebookTest, IsTheSameWhateverTheThreads) {
  Random random(SeedOr(5));
  const PqRows rows = TopicRows(2500, 64, &random);
  const PqOptions options = {.num_subspaces = 8, .bits = 6, .num_rounds = 5, .num_sampled = 2000};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PqCodebook one, TrainPqCodebook(rows.source(), options));
  ATTNDB_ASSERT_OK_AND_ASSIGN(PqTrainer trainer, PqTrainer::Make(rows.source(), options));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 3; ++t) {
    threads.emplace_back([&trainer, t] {
      for (size_t s = 8; s-- > 0;) {
        if (s % 3 == t) trainer.TrainSubspace(s);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const PqCodebook many = trainer.Take();
  EXPECT_EQ(one.centroids, many.centroids);
  EXPECT_EQ(one.half_squares, many.half_squares);
}

TEST(PqCodebookTest, DependsOnTheSeed) {
  Random random(SeedOr(7));
  const PqRows rows = TopicRows(500, 16, &random);
  PqOptions options = {.num_subspaces = 2, .bits = 4, .num_rounds = 1};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PqCodebook one, TrainPqCodebook(rows.source(), options));
  options.seed = 12;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PqCodebook other, TrainPqCodebook(rows.source(), options));
  EXPECT_NE(one.centroids, other.centroids);
}

TEST(PqCodebookTest, FewerKeysThanCentroidsAreTheCentroids) {
  Random random(SeedOr(9));
  for (const size_t num_keys : {1u, 2u, 15u, 16u}) {
    const PqRows rows = TopicRows(num_keys, 16, &random);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PqCodebook codebook,
                                TrainPqCodebook(rows.source(), {.num_subspaces = 2, .bits = 4}));
    EXPECT_NEAR(DistortionOf(codebook, rows), 0.0, 1e-12) << num_keys;
  }
}

TEST(PqCodebookTest, EqualKeysHaveOneCentroid) {
  const PqRows rows = {16, std::vector<float>(300 * 16, 1.25f)};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PqCodebook codebook,
                              TrainPqCodebook(rows.source(), {.num_subspaces = 4, .bits = 8}));
  EXPECT_THAT(codebook.centroids, ::testing::Each(1.25f));
}

// Seeding sees every second key; the centroid that is left over goes to where one is missing.
TEST(PqCodebookTest, CentroidsWithoutKeysGoWhereTheyAreMissed) {
  Random random(SeedOr(11));
  const PqRows points = {16, Gaussians(16 * 16, 1.0, &random)};
  PqRows rows = {16, {}};
  for (size_t i = 0; i < 2 * PqTrainer::kSeedingKeys; ++i) {
    const float* const point = points.row(i == 4001 ? 15 : i % 15);
    rows.values.insert(rows.values.end(), point, point + 16);
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PqCodebook codebook,
                              TrainPqCodebook(rows.source(), {.num_subspaces = 2, .bits = 4}));
  EXPECT_NEAR(DistortionOf(codebook, rows), 0.0, 1e-9);
}

TEST(PqCodebookTest, WhatIsNoShapeIsRefused) {
  const PqRows rows = {48, std::vector<float>(100 * 48)};
  const auto code_of = [&](const PqOptions& options) {
    return TrainPqCodebook(rows.source(), options).status().code();
  };
  EXPECT_EQ(code_of({.num_subspaces = 16}), StatusCode::kOk);
  EXPECT_EQ(code_of({.num_subspaces = 32}), StatusCode::kInvalidArgument);  // 48 channels.
  for (const size_t num_subspaces : {0u, 1u, 3u, 64u}) {
    EXPECT_EQ(code_of({.num_subspaces = num_subspaces}), StatusCode::kInvalidArgument);
  }
  for (const size_t bits : {0u, 5u, 9u}) {
    EXPECT_EQ(code_of({.bits = bits}), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(code_of({.num_sampled = 0}), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace attndb::index::test
