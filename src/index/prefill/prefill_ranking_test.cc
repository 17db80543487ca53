// Goal:   keys are ranked by the softmax weight that the last queries gave them, bytes read back
//         are the ranking that was written, and no bytes crash a reader.
// Method: random keys and queries against a float64 loop over them; written bytes are changed, cut
//         short, and every field is set to what it must not be.
#include "index/prefill/prefill_ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "index/format_test_util.h"
#include "kernels/convert.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using ::attndb::test::SeedOr;

constexpr size_t kDim = 32;
constexpr size_t kGroup = 3;

// Keys and sampled queries of one kv head in float16, and as float64.
class PrefillRankingTest : public ::testing::Test {
 protected:
  void Fill(uint64_t num_keys, uint64_t num_queries) {
    std::mt19937 random(static_cast<uint32_t>(SeedOr(7)));
    k_ = Rows(num_keys, 1.0f, &random, &k_values_);
    q_ = Rows(num_queries, 1.5f, &random, &q_values_);
    tokens_.clear();
    for (uint64_t i = 0; i < num_queries; ++i) {
      tokens_.push_back(static_cast<uint32_t>(num_keys - 1 - (num_queries - 1 - i) / 2));
      heads_.push_back(static_cast<uint32_t>(i % kGroup));
    }
  }

  RankingSource Source() const {
    return {.keys = {k_.data(), kDim, kDim, DType::kFloat16},
            .num_keys = k_values_.size() / kDim,
            .queries = {reinterpret_cast<const std::byte*>(q_.data()), tokens_, heads_},
            .logit = {0.25f, 0.0f},
            .denominator_logits = denominators_};
  }

  // By a plain loop over the rows from `first_query` on.
  std::vector<double> Weights(size_t first_query) const {
    std::vector<double> weights(k_values_.size() / kDim);
    for (size_t row = first_query; row < tokens_.size(); ++row) {
      double sum = denominators_.empty() ? 0 : std::exp(double{denominators_[heads_[row]]});
      std::vector<double> of_row;
      for (size_t key = 0; key <= tokens_[row]; ++key) {
        double score = 0;
        for (size_t d = 0; d < kDim; ++d) {
          score += double{q_values_[row * kDim + d]} * double{k_values_[key * kDim + d]};
        }
        of_row.push_back(std::exp(0.25 * score));
        sum += of_row.back();
      }
      for (size_t key = 0; key < of_row.size(); ++key) weights[key] += of_row[key] / sum;
    }
    return weights;
  }

  // Each row is heavier than the next one, and than all that are not ranked.
  void ExpectRanked(std::span<const uint32_t> rows, const std::vector<double>& weights) const {
    double rest = 0;
    std::vector<bool> ranked(weights.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      ASSERT_LT(rows[i], weights.size());
      EXPECT_FALSE(ranked[rows[i]]) << "row " << rows[i] << " is there twice";
      ranked[rows[i]] = true;
      const double before = weights[rows[i == 0 ? 0 : i - 1]];
      EXPECT_GE(before, weights[rows[i]] * (1 - 1e-5)) << i;
    }
    for (size_t key = 0; key < weights.size(); ++key) {
      if (!ranked[key]) rest = std::max(rest, weights[key]);
    }
    EXPECT_GE(weights[rows.back()], rest * (1 - 1e-5));
  }

  std::vector<uint16_t> k_, q_;
  std::vector<float> k_values_, q_values_;
  std::vector<uint32_t> tokens_, heads_;
  std::vector<float> denominators_;

 private:
  static std::vector<uint16_t> Rows(uint64_t count, float deviation, std::mt19937* random,
                                    std::vector<float>* values) {
    std::normal_distribution<float> normal(0.0f, deviation);
    std::vector<uint16_t> rows;
    values->clear();
    for (uint64_t i = 0; i < count * kDim; ++i) {
      rows.push_back(kernels::FromFloat32(normal(*random), DType::kFloat16));
      values->push_back(kernels::ToFloat32(rows.back(), DType::kFloat16));
    }
    return rows;
  }
};

TEST_F(PrefillRankingTest, RanksByTheSummedWeightsOfTheLastQueries) {
  Fill(700, 100);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking ranking, PrefillRanking::Build(Source()));
  EXPECT_EQ(ranking.rows().size(), 700u);
  ExpectRanked(ranking.rows(), Weights(100 - kPrefillQueries));
}

TEST_F(PrefillRankingTest, RowsCountByWhatTheirDenominatorsLeave) {
  Fill(300, 9);
  denominators_ = {20.0f, -20.0f, 7.0f};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking ranking, PrefillRanking::Build(Source()));
  ExpectRanked(ranking.rows(), Weights(0));
  const std::vector<uint32_t> with(ranking.rows().begin(), ranking.rows().end());
  denominators_.clear();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking without, PrefillRanking::Build(Source()));
  EXPECT_FALSE(std::ranges::equal(with, without.rows()));
}

TEST_F(PrefillRankingTest, ManyKeysHaveNoPlace) {
  Fill(kMaxRankedTokens + 500, 3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking ranking, PrefillRanking::Build(Source()));
  EXPECT_EQ(ranking.rows().size(), kMaxRankedTokens);
  EXPECT_EQ(ranking.bytes().size(), PrefillRanking::BytesFor(kMaxRankedTokens + 500));
  ExpectRanked(ranking.rows(), Weights(0));
}

// A query that scores beyond float32, or that belongs to no q head, is left out.
TEST_F(PrefillRankingTest, AQueryWithoutNumbersSaysNothing) {
  Fill(300, 9);
  const std::vector<double> weights = Weights(1);
  heads_[0] = kGroup;
  denominators_ = {-1e30f, -1e30f, -1e30f};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking ranking, PrefillRanking::Build(Source()));
  ExpectRanked(ranking.rows(), weights);
}

TEST_F(PrefillRankingTest, WhatWasWrittenIsRead) {
  Fill(500, 20);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking built, PrefillRanking::Build(Source()));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking read,
                              PrefillRanking::Parse(built.bytes(), 500, "ranking 7"));
  EXPECT_TRUE(std::ranges::equal(built.rows(), read.rows()));
}

TEST_F(PrefillRankingTest, ForeignBytesAreRefusedInWords) {
  Fill(500, 20);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const PrefillRanking built, PrefillRanking::Build(Source()));
  AlignedBuffer bytes = *AlignedBuffer::Allocate(built.bytes().size());
  std::ranges::copy(built.bytes(), bytes.data());
  const auto parse = [&] { return PrefillRanking::Parse(bytes.span(), 500, "ranking 7").status(); };
  const auto refused = [&](size_t offset, auto value, StatusCode code, const std::string& message) {
    test::ExpectFieldRefused(bytes.data() + offset, value, parse, code, "ranking 7: " + message);
  };
  refused(0, uint8_t{0}, StatusCode::kCorruption, "magic");
  refused(8, uint32_t{2}, StatusCode::kUnsupported, "version");
  refused(12, uint32_t{0}, StatusCode::kCorruption, "num_queries: expected 1 to 64, found 0");
  refused(12, uint32_t{65}, StatusCode::kCorruption, "num_queries");
  refused(16, uint64_t{499}, StatusCode::kCorruption, "num_keys: expected 500, found 499");
  refused(24, uint64_t{499}, StatusCode::kCorruption, "num_ranked: expected 500, found 499");
  refused(40, uint8_t{1}, StatusCode::kCorruption, "reserved");
  refused(64, uint32_t{500}, StatusCode::kCorruption, "rows[0]: expected a row below 500");
  refused(68, built.rows()[0], StatusCode::kCorruption, "rows[1]: expected a row below 500");
  ATTNDB_EXPECT_OK(parse());
  test::ExpectCutsRefused(bytes.span(), 97, [](std::span<const std::byte> cut) {
    return PrefillRanking::Parse(cut, 500, "ranking 7").status();
  });
}

}  // namespace
}  // namespace attndb::index
