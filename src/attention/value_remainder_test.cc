// Goal:   the remainder's mass and output follow their definition, wherever the middle, runs and
//         blocks begin. Selected tokens are not counted twice.
// Method: float64 sums over means of V, and over V.
#include "attention/value_remainder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "attention/view_rows_test_util.h"
#include "index/planes/value_planes.h"

namespace attndb::attention {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kDim = 32;
constexpr uint64_t kRunTokens[] = {300, 77, 130};
constexpr uint64_t kNumTokens = 507;
constexpr TokenRange kMiddle = {10, 480};
constexpr float kScale = 0.3f;

class ValueRemainderTest : public ::testing::Test {
 protected:
  ValueRemainderTest() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (float& value : values_) value = normal(random) + 1.0f;
    for (float& score : scores_) score = 6.0f * normal(random);
    for (uint64_t i = kMiddle.begin; i < kMiddle.end; i += 5) scores_[i] = -kInf;  // Chosen.
  }

  // Means for all runs but the one that has none.
  void BuildRuns(size_t without) {
    uint64_t begin = 0;
    for (size_t i = 0; i < 3; ++i) {
      const kernels::RowsView v = {values_.data() + begin * kDim, kDim, kDim, DType::kFloat32};
      made_[i] = *index::ValueMeans::Build(v, kRunTokens[i]);
      runs_[i] = source_.Add({begin, begin + kRunTokens[i]}, v, v);
      if (i != without) runs_[i].means = &made_[i].view();
      begin += kRunTokens[i];
    }
  }

  // Folds into a state that holds one token: logit 1, value 0.
  double Fold() {
    max_ = 1.0f;
    sum_ = 1.0f;
    out_.assign(kDim, 0.0f);
    rows_.Reset(&source_);
    return *FoldValueRemainder({.runs = runs_,
                                .scores = scores_.data(),
                                .middle = kMiddle,
                                .logit = {kScale},
                                .tokens = tokens_.data(),
                                .token_scores = token_scores_.data(),
                                .rows = &rows_},
                               {&max_, &sum_, out_.data(), kDim}, &cost_);
  }

  double Weight(uint64_t i) const { return std::exp(kScale * double{scores_[i]} - 1.0); }
  bool IsLeft(uint64_t i) const {
    return i >= kMiddle.begin && i < kMiddle.end && scores_[i] != -kInf;
  }

  // The sum of f(i) weight(i) over the remainder.
  template <typename F>
  double SumLeft(const F& f) const {
    double sum = 0;
    for (uint64_t i = 0; i < kNumTokens; ++i) {
      if (IsLeft(i)) sum += Weight(i) * f(i);
    }
    return sum;
  }

  // The estimate of a channel of a token's value: the mean of its block. In an incomplete block,
  // and in the run without means, it is the value itself.
  double Value(uint64_t i, size_t d) const {
    size_t run = 0;
    while (i >= runs_[run].tokens.end) ++run;
    if (runs_[run].means == nullptr) return double{values_[i * kDim + d]};
    const uint64_t first = runs_[run].tokens.begin;
    const uint64_t begin = first + (i - first) / 64 * 64;
    const uint64_t end = begin + 64;
    if (end > runs_[run].tokens.end) return double{values_[i * kDim + d]};
    double mean = 0;
    for (uint64_t j = begin; j < end; ++j) mean += double{values_[j * kDim + d]};
    return mean / static_cast<double>(end - begin);
  }

  // Output and sum of the state, scaled as if its largest logit were 1.
  double Out(size_t d) const { return double{out_[d]} * std::exp(double{max_} - 1.0); }
  double Sum() const { return double{sum_} * std::exp(double{max_} - 1.0); }

  std::vector<float> values_ = std::vector<float>(kNumTokens * kDim);
  std::vector<float> scores_ = std::vector<float>(kNumTokens);
  std::vector<uint32_t> tokens_ = std::vector<uint32_t>(kNumTokens + 64);
  std::vector<float> token_scores_ = std::vector<float>(kNumTokens);
  index::ValueMeans made_[3];
  ViewRows source_;
  storage::RowLease rows_;
  HeadRun runs_[3];
  float max_ = 0;
  float sum_ = 0;
  std::vector<float> out_;
  CallCost cost_;
};

TEST_F(ValueRemainderTest, MeansWeighWhatTheirBlocksDo) {
  BuildRuns(/*without=*/3);
  const double mass = SumLeft([](uint64_t) { return 1.0; });
  EXPECT_NEAR(Fold() * std::exp(double{max_} - 1.0), mass, 1e-5 * mass);
  EXPECT_NEAR(Sum(), 1 + mass, 1e-5 * mass);
  for (size_t d = 0; d < kDim; ++d) {
    const double expected = SumLeft([&](uint64_t i) { return Value(i, d); });
    EXPECT_NEAR(Out(d), expected, 0.004 * std::abs(expected) + 1e-4);
  }
}

TEST_F(ValueRemainderTest, RunsWithoutMeansAreReadFromV) {
  for (size_t without = 0; without < 3; ++without) {
    BuildRuns(without);
    scores_[kNumTokens - 40] = 40.0f;  // Larger than the selected ones.
    const double mass = SumLeft([](uint64_t) { return 1.0; });
    EXPECT_NEAR(Fold() * std::exp(double{max_} - 1.0), mass, 1e-5 * mass) << without;
    EXPECT_NEAR(Sum(), 1 + mass, 1e-5 * mass);
    for (size_t d = 0; d < kDim; ++d) {
      const double expected = SumLeft([&](uint64_t i) { return Value(i, d); });
      EXPECT_NEAR(Out(d), expected, 0.004 * mass) << without << " " << d;
    }
  }
}

TEST_F(ValueRemainderTest, OfNothingThereIsNoMass) {
  BuildRuns(/*without=*/1);
  std::ranges::fill(scores_, -kInf);
  EXPECT_EQ(Fold(), 0.0);
  EXPECT_EQ(sum_, 1.0f);
}

}  // namespace
}  // namespace attndb::attention
