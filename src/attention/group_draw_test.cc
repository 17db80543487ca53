// Goal:   a group's draw estimates the output of each head over all tokens: right on average, with
//         the reported error, from fewer rows than the heads would read alone.
// Method: random K, V and q, many draws of them, against attention to all tokens in float64.
// Replay: seeds are constants.
#include "attention/group_draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "attention/threshold_sample.h"
#include "attention/view_rows_test_util.h"
#include "kernels/draw.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"

namespace attndb::attention {
namespace {

constexpr uint32_t kDim = 32;
constexpr uint32_t kGroup = 3;
constexpr uint64_t kTokens = 3000;
constexpr TokenRange kMiddle = {4, kTokens - 20};
constexpr kernels::LogitSpec kLogit = {.scale = 0.4f};

// Outputs of the group's heads.
using Outputs = std::vector<std::vector<double>>;

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(square);
}
double Length(const std::vector<double>& a) { return Distance(a, std::vector<double>(a.size())); }

class GroupDrawTest : public ::testing::Test {
 protected:
  GroupDrawTest()
      : random_(11),
        k_(DType::kFloat16, kTokens, kDim, false, &random_),
        v_(DType::kFloat16, kTokens, kDim, false, &random_),
        q_(kGroup * kDim),
        scores_(kGroup * kTokens),
        run_(source_.Add({0, kTokens}, k_.view(), v_.view())) {
    std::normal_distribution<float> normal;
    for (float& x : q_) x = normal(random_);
    spec_.num_q_heads = kGroup;
    spec_.num_kv_heads = 1;
    spec_.head_dim = spec_.v_head_dim = kDim;
    spec_.scale = kLogit.scale;
    std::vector<uint32_t> all(kTokens);
    for (uint32_t i = 0; i < kTokens; ++i) all[i] = i;
    for (uint32_t head = 0; head < kGroup; ++head) {
      const float* const q = q_.data() + head * kDim;
      for (uint32_t i = 0; i < kTokens; ++i) {
        const double score = kernels::reference::DotRow(k_.view(), i, q).score;
        scores_[head * kTokens + i] = static_cast<float>(score);
      }
      exact_.push_back(kernels::reference::Attend(k_.view(), v_.view(), all, q, kLogit).out);
    }
  }

  // Heads [first, first + count) as a group of their own.
  void UseHeads(uint32_t first, uint32_t count) {
    first_head_ = first;
    spec_.num_q_heads = count;
  }

  // By head, from less to more than the weight of all tokens. Values agree, so that the output's
  // error is the error of the tokens' weight, which cancels only without a denominator.
  void UseDenominators() {
    for (size_t row = 0; row < kTokens; ++row) {
      for (size_t i = 0; i < kDim; ++i) {
        v_.Set(row, i, 1.5f + static_cast<float>(kernels::reference::At(v_.view(), row, i)));
      }
    }
    for (uint32_t head = 0; head < kGroup; ++head) {
      std::vector<uint32_t> all(kTokens);
      std::iota(all.begin(), all.end(), 0u);
      const float* const q = q_.data() + head * kDim;
      const auto [out, lse] = kernels::reference::Attend(k_.view(), v_.view(), all, q, kLogit);
      denominators_.push_back(static_cast<float>(lse + 2.5 * head - 2));
      const double share = 1 / (1 + std::exp(double{denominators_[head]} - lse));
      exact_[head] = out;
      for (double& element : exact_[head]) element *= share;
    }
  }

  // Keeps tokens in ranges of range_tokens, by thresholds that let a head draw `rows` of all
  // tokens.
  void Keep(uint64_t range_tokens, double rows, uint64_t seed) {
    const uint32_t group = spec_.group_size();
    kept_.clear();
    thresholds_.clear();
    for (uint32_t head = 0; head < group; ++head) {
      std::vector<float> scores(ScoresOf(head) + kMiddle.begin, ScoresOf(head) + kMiddle.end);
      thresholds_.push_back(FindThresholdOfScores(scores.data(), scores.size(), kLogit, 1.0, rows));
    }
    for (uint64_t begin = 0; begin < kTokens; begin += range_tokens) {
      KeepRange({begin, std::min(begin + range_tokens, kTokens)}, seed);
    }
    slices_.clear();
    for (Kept& kept : kept_) {
      const auto place_of = [&](uint64_t token) {
        return static_cast<uint64_t>(std::ranges::lower_bound(kept.tokens, token) -
                                     kept.tokens.begin());
      };
      slices_.push_back(
          {{kept.tokens.data(), kept.noise.data(), kept.scores.data(), kTokens, kept.tokens.size()},
           {place_of(kMiddle.begin), place_of(kMiddle.end)}});
    }
  }

  Outputs Run(double rows, double tolerated_error) {
    const uint32_t group = spec_.group_size();
    const GroupCall call = {
        .spec = &spec_,
        .plan = &plan_,
        .runs = std::span(&run_, 1),
        .q = {q_.data() + first_head_ * kDim, kDim, group},
        .num_tokens = kTokens,
        .middle = kMiddle,
        .denominator_logits = denominators_.empty() ? nullptr : denominators_.data() + first_head_,
        .budget = {.first_rows = rows, .tolerated_error = tolerated_error},
        .slices = slices_,
        .thresholds = thresholds_.data(),
        .rows = &rows_,
    };
    Arena measure;
    GroupScratch::Take(group, kTokens, kDim, &measure);
    TakeStates(group, kDim, &measure);
    AlignedBuffer memory = *AlignedBuffer::Allocate(measure.used());
    Arena arena(memory.data(), memory.size());
    GroupScratch scratch = GroupScratch::Take(group, kTokens, kDim, &arena);
    const kernels::StateRows states = TakeStates(group, kDim, &arena);
    cost_ = {};
    rows_.Reset(&source_);
    EXPECT_TRUE(GroupDraw(call, &scratch, &cost_).Attend(states).ok());
    std::vector<float> lse(group);
    if (!denominators_.empty()) {
      kernels::AddToDenominators(call.denominator_logits, states, group, kDim);
    }
    kernels::FinishStates(states, group, kDim, states.out, states.out_stride, lse.data());
    Outputs outputs;
    for (uint32_t head = 0; head < group; ++head) {
      const float* const out = states.out + head * states.out_stride;
      outputs.emplace_back(out, out + kDim);
    }
    return outputs;
  }

  double ErrorOf(const Outputs& outputs, uint32_t head) const {
    const std::vector<double>& exact = exact_[first_head_ + head];
    return Distance(outputs[head], exact) / Length(exact);
  }

  // Many draws: right in the mean, and by as much as they say wrong.
  void ExpectDrawsToKnowTheirError() {
    constexpr int kDraws = 200;
    Outputs sums(kGroup, std::vector<double>(kDim));
    double error = 0;
    double found = 0;
    for (uint64_t seed = 0; seed < kDraws; ++seed) {
      Keep(kTokens, 600, seed);
      const Outputs outputs = Run(300, 1.0);
      for (uint32_t head = 0; head < kGroup; ++head) {
        error += ErrorOf(outputs, head) / (kDraws * kGroup);
        for (uint32_t i = 0; i < kDim; ++i) sums[head][i] += outputs[head][i] / kDraws;
      }
      found += cost_.error_sum / static_cast<double>(kDraws * cost_.num_errors);
      EXPECT_EQ(cost_.num_errors, kGroup);
    }
    EXPECT_NEAR(found, error, 0.1 * error);
    for (uint32_t head = 0; head < kGroup; ++head) {
      EXPECT_LT(ErrorOf(sums, head), 2 * error / std::sqrt(kDraws)) << head;
    }
  }

  LayerSpec spec_;
  const planner::LayerPlan plan_;
  CallCost cost_;
  Outputs exact_;

 private:
  struct Kept {
    std::vector<uint32_t> tokens;
    std::vector<float> noise;
    std::vector<float> scores = std::vector<float>(kGroup * kTokens);
  };

  const float* ScoresOf(uint32_t head) const {
    return scores_.data() + (first_head_ + head) * kTokens;
  }

  void KeepRange(TokenRange range, uint64_t seed) {
    Kept kept;
    const DrawNoise noise(seed);
    for (uint64_t token = range.begin; token < range.end; ++token) {
      const bool fixed = token < kMiddle.begin || token >= kMiddle.end;
      const float e = fixed ? 0.0f : *noise.From(token);
      bool drawn = fixed;
      for (uint32_t head = 0; head < spec_.group_size(); ++head) {
        drawn = drawn || ScoresOf(head)[token] * kLogit.scale + e >= thresholds_[head];
      }
      if (!drawn) continue;
      for (uint32_t head = 0; head < spec_.group_size(); ++head) {
        kept.scores[head * kTokens + kept.tokens.size()] = ScoresOf(head)[token];
      }
      kept.tokens.push_back(static_cast<uint32_t>(token));
      kept.noise.push_back(e);
    }
    kept_.push_back(std::move(kept));
  }

  std::mt19937 random_;
  const kernels::TestRows k_;
  kernels::TestRows v_;
  std::vector<float> q_;
  std::vector<float> scores_;  // [kGroup][kTokens]
  ViewRows source_;
  storage::RowLease rows_;
  HeadRun run_;
  uint32_t first_head_ = 0;
  std::vector<float> denominators_;  // [kGroup], or none.
  std::vector<float> thresholds_;
  std::vector<Kept> kept_;
  std::vector<DrawSlice> slices_;
};

TEST_F(GroupDrawTest, DrawsAreRightInTheMeanAndAsFarOffAsTheySay) { ExpectDrawsToKnowTheirError(); }

TEST_F(GroupDrawTest, WithDenominatorsTheyAreToo) {
  UseDenominators();
  ExpectDrawsToKnowTheirError();
}

TEST_F(GroupDrawTest, MoreRowsMeanLessError) {
  double before = 10;
  for (const double rows : {30.0, 120.0, 480.0}) {
    double error = 0;
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Keep(kTokens, 2 * rows, seed);
      error += ErrorOf(Run(rows, 1.0), 1) / 20;
    }
    EXPECT_LT(error, 0.6 * before);
    before = error;
  }
}

TEST_F(GroupDrawTest, TogetherHeadsReadFewerRowsForLessError) {
  uint64_t together = 0;
  uint64_t alone = 0;
  double error_together = 0;
  double error_alone = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    UseHeads(0, kGroup);
    Keep(kTokens, 600, seed);
    const Outputs outputs = Run(300, 1.0);
    together += cost_.bytes_touched;
    for (uint32_t head = 0; head < kGroup; ++head) error_together += ErrorOf(outputs, head);
    for (uint32_t head = 0; head < kGroup; ++head) {
      UseHeads(head, 1);
      Keep(kTokens, 600, seed);
      error_alone += ErrorOf(Run(300, 1.0), 0);
      alone += cost_.bytes_touched;
    }
  }
  EXPECT_LT(static_cast<double>(together), 0.85 * static_cast<double>(alone));
  EXPECT_LT(error_together, 0.95 * error_alone);
}

TEST_F(GroupDrawTest, RangesAddUpToOne) {
  Keep(kTokens, 600, 5);
  const Outputs one = Run(1200, 1.0);  // All that was kept.
  for (const uint64_t range_tokens : {1u, 150u, 2999u}) {
    Keep(range_tokens, 600, 5);
    const Outputs several = Run(1200, 1.0);
    for (uint32_t head = 0; head < kGroup; ++head) {
      EXPECT_LT(Distance(several[head], one[head]), 1e-5 * Length(one[head])) << range_tokens;
    }
  }
}

TEST_F(GroupDrawTest, WhoIsOffByTooMuchDrawsAgainOrReadsAll) {
  Keep(kTokens, 600, 5);
  Run(300, 1.0);
  const double first = cost_.error_sum / kGroup;
  const uint64_t bytes = cost_.bytes_touched;
  Run(300, 0.8 * first);  // Some again.
  EXPECT_GT(cost_.bytes_touched, bytes);
  EXPECT_LT(cost_.error_sum / kGroup, first);
  const Outputs all = Run(300, 1e-9);
  EXPECT_EQ(cost_.error_sum, 0.0);
  EXPECT_GT(cost_.difficulty_sum, 0.0);
  for (uint32_t head = 0; head < kGroup; ++head) EXPECT_LT(ErrorOf(all, head), 1e-5);
}

TEST_F(GroupDrawTest, WhereMostRowsWouldBeReadAllAre) {
  Keep(kTokens, 1e9, 5);
  const Outputs outputs = Run(0.6 * kTokens, 1.0);
  EXPECT_EQ(cost_.bytes_touched, kTokens * 2 * kDim * 2);
  for (uint32_t head = 0; head < kGroup; ++head) EXPECT_LT(ErrorOf(outputs, head), 1e-5);
}

}  // namespace
}  // namespace attndb::attention
