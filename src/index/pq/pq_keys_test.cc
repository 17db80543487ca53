// Goal:   scores by product codes rank keys as plain product quantization does. Their error is as
//         large as they say, and never above their bounds.
// Method: against float64 on keys in topics; awkward keys.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/pq/pq_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "index/pq/pq_test_util.h"
#include "kernels/convert.h"
#include "kernels/weights.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

constexpr size_t kDim = 32;

// The keys of the k largest scores.
template <typename T>
std::set<size_t> TopKeys(const std::vector<T>& scores, size_t k) {
  std::vector<size_t> keys(scores.size());
  std::iota(keys.begin(), keys.end(), size_t{0});
  std::ranges::partial_sort(keys, keys.begin() + static_cast<std::ptrdiff_t>(k),
                            [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return {keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(k)};
}

double Recall(const std::set<size_t>& found, const std::set<size_t>& wanted) {
  size_t num_found = 0;
  for (const size_t key : wanted) num_found += found.count(key);
  return static_cast<double>(num_found) / static_cast<double>(wanted.size());
}

class PqKeysTest : public ::testing::Test {
 protected:
  static PqKeys Build(const PqRows& rows, const PqOptions& options) {
    return *PqKeys::Build(rows.source(), options);
  }

  Random random_{SeedOr(21)};
};

TEST_F(PqKeysTest, RecallIsThatOfPlainProductQuantization) {
  const PqRows rows = TopicRows(4000, kDim, &random_);
  for (const size_t bits : {6u, 8u}) {
    const PqKeys keys =
        Build(rows, {.num_subspaces = 8, .bits = bits, .num_rounds = 6, .num_sampled = 4000});
    const PlainPq plain(rows, 8, bits, 6, &random_);
    double recall = 0, plain_recall = 0;
    constexpr size_t kQueries = 100;
    for (size_t i = 0; i < kQueries; ++i) {
      const std::vector<float> q = Gaussians(kDim, 1.0, &random_);
      std::vector<double> exact, of_plain;
      for (size_t key = 0; key < rows.num_rows(); ++key) {
        exact.push_back(Dot(q.data(), rows.row(key), kDim));
        const std::vector<double> decoded = plain.Decode(key);
        of_plain.push_back(std::inner_product(decoded.begin(), decoded.end(), q.begin(), 0.0));
      }
      const std::set<size_t> wanted = TopKeys(exact, 100);
      recall += Recall(TopKeys(ScanAll(keys, q, kDim), 100), wanted) / kQueries;
      plain_recall += Recall(TopKeys(of_plain, 100), wanted) / kQueries;
    }
    const std::string of_bits = "_of_" + std::to_string(bits) + "_bits";
    RecordProperty("recall" + of_bits, std::to_string(recall));
    RecordProperty("plain" + of_bits, std::to_string(plain_recall));
    EXPECT_GE(recall, plain_recall - 0.02) << bits << " bits";
    EXPECT_GT(recall, bits == 8 ? 0.7 : 0.55);
  }
}

TEST_F(PqKeysTest, ScoresErrAsMuchAsTheySay) {
  const PqRows rows = TopicRows(5000, kDim, &random_);
  const PqRows sampled = {kDim, Gaussians(100 * kDim, 2.0, &random_)};
  const std::vector<uint32_t> numbers(100, 5000);
  for (const bool has_queries : {false, true}) {
    PqSource source = rows.source();
    if (has_queries) {
      source.queries = {reinterpret_cast<const std::byte*>(sampled.values.data()), numbers,
                        numbers};
    }
    for (const size_t num_subspaces : {2u, 8u}) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(
          const PqKeys keys, PqKeys::Build(source, {.num_subspaces = num_subspaces, .bits = 6}));
      double square = 0;
      constexpr size_t kQueries = 50;
      for (size_t i = 0; i < kQueries; ++i) {
        const std::vector<float> q = Gaussians(kDim, 1.0, &random_);
        const std::vector<float> scores = ScanAll(keys, q, kDim);
        const double norm = std::sqrt(Dot(q.data(), q.data(), kDim));
        for (size_t key = 0; key < rows.num_rows(); ++key) {
          const double error = (double{scores[key]} - Dot(q.data(), rows.row(key), kDim)) / norm;
          square += error * error;
        }
      }
      const double deviation = std::sqrt(square / static_cast<double>(kQueries * rows.num_rows()));
      EXPECT_NEAR(double{keys.ScoreError(2.0f)} / 2, deviation, 0.12 * deviation);
    }
  }
}

TEST_F(PqKeysTest, NoScoreIsFurtherOffThanItsBound) {
  for (const float spread : {1.0f, 1e-6f, 1e-22f, 1e12f}) {
    PqRows rows = TopicRows(1000, kDim, &random_);
    for (float& x : rows.values) x *= spread;
    for (const size_t bits : {4u, 6u, 8u}) {
      const PqKeys keys = Build(rows, {.num_subspaces = 4, .bits = bits, .num_rounds = 3});
      std::vector<float> q = Gaussians(3 * kDim, 1.0, &random_);
      // The last one looks along what codes leave out of a key.
      for (size_t d = 0; d < kDim; ++d) q[2 * kDim + d] = rows.row(77)[d] / spread;
      const Prepared prepared(keys, q, kDim);
      std::vector<float> scores(3 * 1000), bounds(kernels::NumWeightBlocks(1000));
      keys.Scan(prepared.queries, 0, 1000, scores.data(), 1000);
      for (size_t r = 0; r < 3; ++r) {
        keys.ScoreBounds(prepared.queries, r, 0, bounds.size(), bounds.data());
        double tightest = 1e30;
        for (size_t i = 0; i < 1000; ++i) {
          const double exact = Dot(&q[r * kDim], rows.row(i), kDim);
          const double off = std::abs(double{scores[r * 1000 + i]} - exact);
          ASSERT_LE(off, double{bounds[i / kernels::kWeightBlock]}) << bits << " bits, key " << i;
          tightest = std::min(tightest, double{bounds[i / kernels::kWeightBlock]} / (off + 1e-40));
        }
        // Squares of the smallest keys are below the range of float32.
        EXPECT_TRUE(tightest < 20 || spread < 1e-20f) << "the bounds are of no use: " << tightest;
      }
    }
  }
}

TEST_F(PqKeysTest, KeysMayBeInAnotherOrderAndType) {
  const PqRows rows = TopicRows(200, kDim, &random_);
  std::vector<uint16_t> halves(rows.values.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = kernels::FromFloat32(rows.values[i], DType::kFloat16);
  }
  std::vector<uint32_t> order(200);
  for (uint32_t i = 0; i < 200; ++i) order[i] = i * 77 % 200;
  PqSource source;
  source.keys = {halves.data(), kDim, kDim, DType::kFloat16};
  source.num_keys = 200;
  source.order = order;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PqKeys keys,
                              PqKeys::Build(source, {.num_subspaces = 16, .bits = 8}));
  const std::vector<float> q = Gaussians(kDim, 1.0, &random_);
  const std::vector<float> scores = ScanAll(keys, q, kDim);
  // Each key is a centroid, but for rounding to float16.
  const double tolerance = double{Prepared(keys, q, kDim).queries.rows[0].rounding_max} + 0.05;
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_NEAR(double{scores[i]}, Dot(q.data(), rows.row(order[i]), kDim), tolerance) << i;
  }
}

// Sums of weights are the mass that the softmax of the scores has.
TEST_F(PqKeysTest, WeightsAddUpToTheMass) {
  const PqRows rows = TopicRows(1000, kDim, &random_);
  const PqKeys keys = Build(rows, {.num_subspaces = 8, .bits = 8, .num_rounds = 2});
  const std::vector<float> q = Gaussians(2 * kDim, 1.0, &random_);
  const Prepared prepared(keys, q, kDim);
  std::vector<kernels::WeightRow> maps;
  for (const kernels::TableRow& row : prepared.queries.rows) {
    maps.push_back(kernels::MapWeights(row, 0.5f, 0.5f * row.max_score));
  }
  std::vector<float> sums(2 * 16), scores(2 * 1000);
  keys.Weigh(prepared.queries, maps, 0, 1000, {.sums = sums.data(), .sums_stride = 16});
  keys.Scan(prepared.queries, 0, 1000, scores.data(), 1000);
  for (size_t r = 0; r < 2; ++r) {
    double mass = 0, expected = 0;
    for (size_t b = 0; b < 16; ++b) mass += double{sums[r * 16 + b]};
    for (size_t i = 0; i < 1000; ++i) {
      expected += std::exp(0.5 * double{scores[r * 1000 + i]} -
                           0.5 * double{prepared.queries.rows[r].max_score});
    }
    EXPECT_NEAR(mass, 1.04 * expected, 0.03 * expected);
  }
}

TEST_F(PqKeysTest, AFewKeysOrOneAreScored) {
  for (const size_t num_keys : {1u, 2u, 63u, 65u}) {
    const PqRows rows = TopicRows(num_keys, kDim, &random_);
    const PqKeys keys = Build(rows, {.num_subspaces = 2, .bits = 8});
    const std::vector<float> q = Gaussians(kDim, 1.0, &random_);
    const std::vector<float> scores = ScanAll(keys, q, kDim);
    for (size_t i = 0; i < num_keys; ++i) {
      EXPECT_NEAR(double{scores[i]}, Dot(q.data(), rows.row(i), kDim), 0.5);
    }
  }
  EXPECT_EQ(Build({kDim, {}}, {}).num_keys(), 0u);
}

TEST_F(PqKeysTest, KeysWhoseSquaresOverflowHaveNoCodes) {
  PqRows rows = TopicRows(100, kDim, &random_);
  rows.values[500] = 1e25f;
  EXPECT_EQ(Build(rows, {.num_subspaces = 4, .bits = 6}).num_keys(), 0u);
}

TEST_F(PqKeysTest, SizesAreAsTold) {
  const PqRows rows = TopicRows(1000, kDim, &random_);
  const PqOptions options = {.num_subspaces = 16, .bits = 4, .num_rounds = 1};
  const PqKeys keys = Build(rows, options);
  EXPECT_EQ(keys.memory_bytes(), PqKeys::BytesFor(1000, kDim, options));
  EXPECT_EQ(keys.bytes().size(), keys.memory_bytes());
  EXPECT_EQ(keys.ScanBytes(), 8.0);
  EXPECT_EQ(keys.num_subspaces(), 16u);
  EXPECT_EQ(keys.bits(), 4u);
}

// Channels that are turned together are coded together, as if rows had them side by side.
TEST_F(PqKeysTest, PairsAreCodedSideBySide) {
  constexpr size_t kPairs = 10;  // Pairs of the 32 channels; the other 12 stay as they are.
  Random random(8);
  test::PqRows rows = test::TopicRows(3000, 32, &random);
  std::vector<float> q = test::Gaussians(3 * 32, 1.0, &random);
  PqSource apart = rows.source();
  apart.num_pairs = kPairs;
  const PqKeys paired = *PqKeys::Build(apart, {.num_subspaces = 8, .bits = 8});
  test::PqRows beside = rows;
  std::vector<float> q_beside = q;
  for (std::vector<float>* const values : {&beside.values, &q_beside}) {
    for (size_t row = 0; row < values->size(); row += 32) {
      const std::vector<float> before(values->begin() + static_cast<long>(row),
                                      values->begin() + static_cast<long>(row) + 32);
      for (size_t i = 0; i < kPairs; ++i) {
        (*values)[row + 2 * i] = before[i];
        (*values)[row + 2 * i + 1] = before[kPairs + i];
      }
    }
  }
  const PqKeys plain = *PqKeys::Build(beside.source(), {.num_subspaces = 8, .bits = 8});
  std::vector<float> scores(3 * 3000), expected(3 * 3000);
  paired.Scan(test::Prepared(paired, q, 32).queries, 0, 3000, scores.data(), 3000);
  plain.Scan(test::Prepared(plain, q_beside, 32).queries, 0, 3000, expected.data(), 3000);
  EXPECT_EQ(scores, expected);
  EXPECT_EQ(paired.ScoreError(1.0f), plain.ScoreError(1.0f));
}

}  // namespace
}  // namespace attndb::index::test
