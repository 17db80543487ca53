// Goal:   merging partial results is associative and commutative up to rounding, with an identity.
// Method: random partitions of a random token set, in random order; then the corners by hand.
// Replay: seeds are constants.
#include "kernels/attention_state.h"

#include <algorithm>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/attend.h"
#include "kernels/test_rows.h"
#include "kernels/test_states.h"

namespace attndb::kernels {
namespace {

constexpr size_t kDim = 32;
constexpr size_t kTokens = 200;

class MergeTest : public testing::Test {
 protected:
  States Attend(const std::vector<uint32_t>& tokens) {
    States states(1, kDim);
    AttendGather(k_.view(), v_.view(), tokens.data(), tokens.size(), q_.data(), q_.stride(), 1,
                 SpecFor(kDim), states.rows);
    return states;
  }
  reference::Attention Expected() {
    return reference::Attend(k_.view(), v_.view(), FirstTokens(kTokens), q_.data(), SpecFor(kDim));
  }

  std::mt19937 random_{23};
  TestRows k_{DType::kFloat32, kTokens, kDim, false, &random_};
  TestRows v_{DType::kFloat32, kTokens, kDim, false, &random_};
  TestQueries q_{1, kDim, &random_, 4.0f};
};

TEST_F(MergeTest, AnyPartitionInAnyOrderEqualsOnePass) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<uint32_t>> parts(1 + random_() % 9);
    for (uint32_t token = 0; token < kTokens; ++token) {
      parts[random_() % parts.size()].push_back(token);
    }
    std::shuffle(parts.begin(), parts.end(), random_);
    States merged(1, kDim);
    for (const auto& part : parts) MergeStates(Attend(part).rows, merged.rows, 1, kDim);
    merged.Finish();
    ExpectNear(merged, 0, Expected());
  }
}

TEST_F(MergeTest, FinishedResultsMergeToo) {
  States merged(1, kDim);
  merged.Finish();
  for (uint32_t first = 0; first < kTokens; first += 50) {
    std::vector<uint32_t> tokens(50);
    std::iota(tokens.begin(), tokens.end(), first);
    States part = Attend(tokens);
    part.Finish();
    MergeFinished(part.out.data(), part.lse[0], kDim, merged.out.data(), merged.lse.data());
  }
  ExpectNear(merged, 0, Expected());
}

TEST_F(MergeTest, AFinishedResultIsAStateAgain) {
  States part = Attend(FirstTokens(kTokens));
  part.Finish();
  part.max[0] = part.lse[0];
  part.sum[0] = 1.0f;
  part.Finish();
  ExpectNear(part, 0, Expected());
}

TEST_F(MergeTest, TheEmptyStateIsTheIdentityBitForBit) {
  States state = Attend(FirstTokens(kTokens));
  const States same = Attend(FirstTokens(kTokens));
  const States empty(1, kDim);
  MergeStates(empty.rows, state.rows, 1, kDim);
  EXPECT_EQ(state.max, same.max);
  EXPECT_EQ(state.sum, same.sum);
  for (size_t i = 0; i < kDim; ++i) EXPECT_EQ(state.out[i], same.out[i]);
  States other(1, kDim);
  MergeStates(same.rows, other.rows, 1, kDim);
  EXPECT_EQ(other.sum, same.sum);
  for (size_t i = 0; i < kDim; ++i) EXPECT_EQ(other.out[i], same.out[i]);
}

TEST_F(MergeTest, TwoEmptyStatesStayEmpty) {
  States empty(1, kDim);
  MergeStates(States(1, kDim).rows, empty.rows, 1, kDim);
  empty.Finish();
  EXPECT_EQ(empty.lse[0], -kInf);
  for (size_t i = 0; i < kDim; ++i) EXPECT_EQ(empty.out[i], 0.0f);
  MergeFinished(empty.out.data(), -kInf, kDim, empty.out.data(), empty.lse.data());
  EXPECT_EQ(empty.lse[0], -kInf);
}

TEST_F(MergeTest, ADenominatorIsATokenOfValueZero) {
  for (const float logit : {-200.0f, -3.0f, 0.0f, 4.5f, 40.0f, 200.0f}) {
    States state = Attend(FirstTokens(kTokens));
    AddToDenominators(&logit, state.rows, 1, kDim);
    state.Finish();
    reference::Attention expected = Expected();
    const double lse = static_cast<double>(expected.lse);
    const double max = std::max(lse, double{logit});
    const double both = max + std::log(std::exp(lse - max) + std::exp(double{logit} - max));
    for (auto& element : expected.out) element *= std::exp(lse - both);
    expected.lse = both;
    ExpectNear(state, 0, expected);
  }
}

TEST_F(MergeTest, OfNoTokensTheDenominatorIsAllThereIs) {
  States empty(1, kDim);
  const float logit = -1.25f;
  AddToDenominators(&logit, empty.rows, 1, kDim);
  empty.Finish();
  EXPECT_EQ(empty.lse[0], logit);
  for (size_t i = 0; i < kDim; ++i) EXPECT_EQ(empty.out[i], 0.0f);
}

TEST_F(MergeTest, ADenominatorHidesNoNaN) {
  States poisoned = Attend(FirstTokens(10));
  poisoned.sum[0] = kNaN;
  const float logit = 1e30f;
  AddToDenominators(&logit, poisoned.rows, 1, kDim);
  poisoned.Finish();
  EXPECT_TRUE(std::isnan(poisoned.lse[0]));
  EXPECT_TRUE(std::isnan(poisoned.out[0]));
}

TEST_F(MergeTest, NaNSurvivesAMerge) {
  States poisoned = Attend(FirstTokens(10));
  poisoned.sum[0] = kNaN;
  States state = Attend(FirstTokens(kTokens));
  MergeStates(poisoned.rows, state.rows, 1, kDim);
  state.Finish();
  EXPECT_TRUE(std::isnan(state.lse[0]));
  EXPECT_TRUE(std::isnan(state.out[0]));
}

TEST_F(MergeTest, RaisingMaxWeighsTheSet) {
  // Each token of the second half stands for three.
  States half = Attend(FirstTokens(100));
  std::vector<uint32_t> rest(100);
  std::iota(rest.begin(), rest.end(), 100u);
  States weighted = Attend(rest);
  weighted.max[0] += std::log(3.0f);
  MergeStates(weighted.rows, half.rows, 1, kDim);
  half.Finish();
  std::vector<uint32_t> tokens = FirstTokens(kTokens);
  for (int copy = 0; copy < 2; ++copy) tokens.insert(tokens.end(), rest.begin(), rest.end());
  ExpectNear(half, 0, reference::Attend(k_.view(), v_.view(), tokens, q_.data(), SpecFor(kDim)));
}

}  // namespace
}  // namespace attndb::kernels
