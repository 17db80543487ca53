// Goal:   numerators and denominators of a draw in two phases are right on average, whatever the
//         codes are. The estimated error is the real one. A head with too large an error draws
//         again or reads everything.
// Method: random K, V and q with weights that are off by factors, many draws, against float64.
// Replay: seeds are constants.
#include "attention/phased_draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "attention/view_rows_test_util.h"
#include "common/aligned_buffer.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::attention {
namespace {

constexpr uint32_t kDim = 16;
constexpr uint32_t kGroup = 3;
constexpr uint64_t kTokens = 700;
constexpr TokenRange kMiddle = {4, kTokens - 10};
constexpr kernels::LogitSpec kLogit = {.scale = 0.5f};

// The numerator, and last the denominator, of one head.
using Sums = std::vector<double>;

class PhasedDrawTest : public ::testing::Test {
 protected:
  PhasedDrawTest()
      : random_(3),
        k_(DType::kFloat16, kTokens, kDim, false, &random_),
        v_(DType::kFloat16, kTokens, kDim, false, &random_),
        q_(kGroup * kDim),
        words_(kGroup * kTokens),
        run_(source_.Add({0, kTokens}, k_.view(), v_.view())) {
    std::normal_distribution<float> normal;
    for (float& x : q_) x = normal(random_);
    spec_.num_q_heads = kGroup;
    spec_.num_kv_heads = 1;
    spec_.head_dim = spec_.v_head_dim = kDim;
    spec_.scale = kLogit.scale;
    for (uint32_t head = 0; head < kGroup; ++head) WeighHead(head, normal(random_));
    rows_.Reset(&source_);
  }

  struct Result {
    std::vector<Sums> sums;  // By head.
    std::vector<double> errors;
  };

  Result Run(const planner::DrawBudget& budget, uint64_t seed) {
    const WeighedTokens weights = {kMiddle, words_.data() + kMiddle.begin, references_.data(),
                                   word_sums_.data()};
    const PhasedCall call = {
        .spec = &spec_,
        .plan = &plan_,
        .runs = std::span(&run_, 1),
        .q = {q_.data(), kDim, kGroup},
        .visible = {0, kTokens},
        .middle = kMiddle,
        .weights = std::span(&weights, 1),
        .words_stride = kTokens,
        .budget = budget,
        .seed = seed,
        .rows = &rows_,
    };
    Arena measure;
    PhasedScratch::Take(kGroup, kTokens, kTokens, kDim, &measure);
    TakeStates(kGroup, kDim, &measure);
    if (memory_.size() < measure.used()) memory_ = *AlignedBuffer::Allocate(measure.used());
    Arena arena(memory_.data(), memory_.size());
    PhasedScratch scratch = PhasedScratch::Take(kGroup, kTokens, kTokens, kDim, &arena);
    const kernels::StateRows states = TakeStates(kGroup, kDim, &arena);
    cost_ = {};
    EXPECT_TRUE(PhasedDraw(call, &scratch, &cost_).Attend(states).ok());
    Result result;
    for (uint32_t head = 0; head < kGroup; ++head) {
      Sums sums;
      const double factor = std::exp(double{states.max[head]});
      for (uint32_t c = 0; c < kDim; ++c) {
        sums.push_back(factor * double{states.out[head * states.out_stride + c]});
      }
      sums.push_back(factor * double{states.sum[head]});
      result.errors.push_back(ErrorOf(sums, exact_[head]));
      result.sums.push_back(std::move(sums));
    }
    return result;
  }

  // Relative error of the outputs: |out - exact| / |exact|.
  static double ErrorOf(const Sums& sums, const Sums& exact) {
    double off = 0;
    double norm = 0;
    for (uint32_t c = 0; c < kDim; ++c) {
      const double expected = exact[c] / exact[kDim];
      off += std::pow(sums[c] / sums[kDim] - expected, 2);
      norm += expected * expected;
    }
    return std::sqrt(off / norm);
  }

  CallCost cost_;
  std::vector<Sums> exact_;

 private:
  // Words of the head's weights, each off by a factor of its own, with a reference of their own.
  void WeighHead(uint32_t head, float reference) {
    std::normal_distribution<double> off(0, 0.8);
    Sums exact(kDim + 1);
    double sum_of_words = 0;
    for (uint64_t i = 0; i < kTokens; ++i) {
      const double score = kernels::reference::DotRow(k_.view(), i, q_.data() + head * kDim).score;
      const double logit = score * double{kLogit.scale};
      for (uint32_t c = 0; c < kDim; ++c) {
        exact[c] += std::exp(logit) * kernels::reference::At(v_.view(), i, c);
      }
      exact[kDim] += std::exp(logit);
      const double octaves = (logit + off(random_) - double{reference}) / std::log(2.0);
      words_[head * kTokens + i] = static_cast<uint16_t>(127 * 128 + std::floor(128 * octaves));
      if (i >= kMiddle.begin && i < kMiddle.end) sum_of_words += std::exp2(octaves);
    }
    exact_.push_back(exact);
    references_.push_back(reference);
    word_sums_.push_back(static_cast<float>(sum_of_words));
  }

  std::mt19937 random_;
  const kernels::TestRows k_;
  const kernels::TestRows v_;
  std::vector<float> q_;
  std::vector<uint16_t> words_;  // [kGroup][kTokens]
  std::vector<float> references_;
  std::vector<float> word_sums_;
  LayerSpec spec_;
  const planner::LayerPlan plan_;
  ViewRows source_;
  storage::RowLease rows_;
  HeadRun run_;
  AlignedBuffer memory_;
};

// A mean and its error.
struct Mean {
  void Add(double x) {
    sum += x;
    squares += x * x;
    ++count;
  }
  double mean() const { return sum / count; }
  double deviation() const {  // Standard deviation of the mean.
    return std::sqrt(std::max(0.0, squares / count - mean() * mean()) / count);
  }
  double sum = 0;
  double squares = 0;
  double count = 0;
};

constexpr planner::DrawBudget kLoose = {.tolerated_error = 1e9, .trade = 3e-3, .max_spread = 1e9};

TEST_F(PhasedDrawTest, NumeratorsAndDenominatorsAreRightInTheMean) {
  constexpr uint64_t kDraws = 100'000;
  std::vector<Mean> means(kGroup * (kDim + 1));
  uint64_t bytes = 0;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    const Result result = Run(kLoose, seed);
    bytes += cost_.bytes_touched;
    for (uint32_t head = 0; head < kGroup; ++head) {
      for (uint32_t i = 0; i <= kDim; ++i) {
        means[head * (kDim + 1) + i].Add(result.sums[head][i] / exact_[head][kDim]);
      }
    }
  }
  EXPECT_LT(static_cast<double>(bytes), 0.5 * kDraws * kTokens * kDim * 4);
  for (uint32_t head = 0; head < kGroup; ++head) {
    for (uint32_t i = 0; i <= kDim; ++i) {
      const Mean& mean = means[head * (kDim + 1) + i];
      const double expected = exact_[head][i] / exact_[head][kDim];
      // The furthest of 51 means lies 3 deviations off; noise repeats a little between seeds.
      EXPECT_NEAR(mean.mean(), expected, 5 * mean.deviation() + 1e-6) << head << " " << i;
      EXPECT_GT(mean.deviation(), 0.0);
    }
  }
}

TEST_F(PhasedDrawTest, ItKnowsItsError) {
  Mean error;
  Mean found;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const Result result = Run({.tolerated_error = 1e9, .trade = 2e-4, .max_spread = 1e9}, seed);
    for (const double of_head : result.errors) error.Add(of_head);
    found.Add(cost_.error_sum / static_cast<double>(cost_.num_errors));
  }
  EXPECT_NEAR(found.mean(), error.mean(), 0.12 * error.mean());
}

TEST_F(PhasedDrawTest, LessTradeMeansLessError) {
  double before = 1e9;
  uint64_t bytes_before = 0;
  for (const double trade : {3e-2, 3e-3, 3e-4}) {
    Mean error;
    uint64_t bytes = 0;
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const Result result = Run({.tolerated_error = 1e9, .trade = trade, .max_spread = 1e9}, seed);
      for (const double of_head : result.errors) error.Add(of_head);
      bytes += cost_.bytes_touched;
    }
    EXPECT_LT(error.mean(), 0.7 * before) << trade;
    EXPECT_GT(bytes, bytes_before);
    before = error.mean();
    bytes_before = bytes;
  }
}

TEST_F(PhasedDrawTest, SpreadIsKeptWhateverTheTrade) {
  Mean loose;
  Mean tight;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (const double of_head : Run(kLoose, seed).errors) loose.Add(of_head);
    planner::DrawBudget budget = kLoose;
    budget.max_spread = 0.02;
    for (const double of_head : Run(budget, seed).errors) tight.Add(of_head);
  }
  EXPECT_LT(tight.mean(), 0.5 * loose.mean());
}

TEST_F(PhasedDrawTest, WhoIsOffByTooMuchDrawsAgainOrReadsAll) {
  const Result first = Run(kLoose, 5);
  const double found = cost_.error_sum / kGroup;
  const uint64_t bytes = cost_.bytes_touched;
  planner::DrawBudget budget = kLoose;
  budget.tolerated_error = 0.6 * found;
  Run(budget, 5);
  EXPECT_GT(cost_.bytes_touched, bytes);
  EXPECT_LT(cost_.error_sum / kGroup, found);
  budget.tolerated_error = 1e-9;
  const Result all = Run(budget, 5);
  EXPECT_EQ(cost_.error_sum, 0.0);
  for (const double of_head : all.errors) EXPECT_LT(of_head, 1e-5);
}

TEST_F(PhasedDrawTest, EqualSeedsDrawTheSame) {
  EXPECT_EQ(Run(kLoose, 9).sums, Run(kLoose, 9).sums);
  EXPECT_NE(Run(kLoose, 9).sums, Run(kLoose, 10).sums);
}

}  // namespace
}  // namespace attndb::attention
