// Goal:   decode attention equals the float64 twin, reads only its rows, and parts merge.
// Method: grid over ISA, dtype, lengths around the tile size, head dims, group sizes, alignment,
//         with NaN around every row; then NaN, inf, empty sets and splits by hand.
// Replay: seeds are constants.
#include "kernels/attend.h"

#include <numeric>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/reference/reference.h"
#include "kernels/test_rows.h"
#include "kernels/test_states.h"

namespace attndb::kernels {
namespace {

class AttendTest : public IsaTest {
 protected:
  void CheckRun(DType dtype, size_t num_tokens, size_t head_dim, size_t v_head_dim, size_t group,
                bool misaligned, float soft_cap = 0.0f) {
    SCOPED_TRACE(testing::Message()
                 << DTypeName(dtype) << " tokens " << num_tokens << " dims " << head_dim << ","
                 << v_head_dim << " group " << group << " misaligned " << misaligned);
    const TestRows k(dtype, num_tokens, head_dim, misaligned, &random_);
    const TestRows v(dtype, num_tokens, v_head_dim, misaligned, &random_);
    const TestQueries q(group, head_dim, &random_, 2.0f);
    const LogitSpec logit = SpecFor(head_dim, soft_cap);
    States states(group, v.view().num_elements);
    AttendRows(k.view(), v.view(), 0, num_tokens, q.data(), q.stride(), group, logit, states.rows);
    states.Finish();
    for (size_t r = 0; r < group; ++r) {
      ExpectNear(states, r,
                 reference::Attend(k.view(), v.view(), FirstTokens(num_tokens),
                                   q.data() + r * q.stride(), logit));
    }
  }
};

TEST_P(AttendTest, EqualsFloat64ForEveryLengthAndDType) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t num_tokens : Sizes{0, 1, 3, 15, 16, 17, 63, 64, 65, 259, 400}) {
      for (const bool misaligned : {false, true}) {
        CheckRun(dtype, num_tokens, 64, 64, 3, misaligned);
      }
    }
  }
}

TEST_P(AttendTest, EqualsFloat64ForEveryHeadDim) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t head_dim : Sizes{16, 32, 64, 80, 96, 100, 128, 256}) {
      for (const size_t v_head_dim : Sizes{head_dim, 16, 112}) {
        CheckRun(dtype, 77, head_dim, v_head_dim, 4, true);
      }
    }
  }
}

TEST_P(AttendTest, EqualsFloat64ForEveryGroupSize) {
  for (const DType dtype : kAllDTypes) {
    for (const size_t group : Sizes{1, 2, 3, 4, 5, 6, 7, 8, 9, 16}) {
      CheckRun(dtype, 130, 128, 128, group, false);
    }
  }
}

TEST_P(AttendTest, HonoursTheSoftCap) {
  for (const float cap : {1.0f, 30.0f, 50.0f}) {
    CheckRun(DType::kBFloat16, 100, 64, 64, 2, false, cap);
  }
}

TEST_P(AttendTest, GatherEqualsFloat64OverTheListedTokens) {
  for (const DType dtype : kAllDTypes) {
    const TestRows k(dtype, 500, 128, false, &random_);
    const TestRows v(dtype, 500, 96, false, &random_);
    const TestQueries q(2, 128, &random_);
    for (const size_t n : Sizes{0, 1, 7, 64, 65, 200}) {
      std::vector<uint32_t> tokens(n);
      for (uint32_t& token : tokens) token = static_cast<uint32_t>(random_() % 500);
      States states(2, 96);
      AttendGather(k.view(), v.view(), tokens.data(), n, q.data(), q.stride(), 2, SpecFor(128),
                   states.rows);
      states.Finish();
      for (size_t r = 0; r < 2; ++r) {
        ExpectNear(
            states, r,
            reference::Attend(k.view(), v.view(), tokens, q.data() + r * q.stride(), SpecFor(128)));
      }
    }
  }
}

TEST_P(AttendTest, ScoredEqualsGather) {
  const TestRows k(DType::kFloat16, 300, 64, false, &random_);
  const TestRows v(DType::kFloat16, 300, 64, false, &random_);
  const std::vector<uint32_t> tokens = {5, 299, 17, 17, 0, 120, 121};
  constexpr size_t kStride = 9;
  for (const size_t num_rows : Sizes{1, 3, 5, 9}) {
    const TestQueries q(num_rows, 64, &random_);
    std::vector<float> scores(num_rows * kStride, kNaN);
    for (size_t r = 0; r < num_rows; ++r) {
      for (size_t i = 0; i < tokens.size(); ++i) {
        const auto dot = reference::DotRow(k.view(), tokens[i], q.data() + r * q.stride());
        scores[r * kStride + i] = static_cast<float>(dot.score);
      }
    }
    States states(num_rows, 64);
    AttendScored(scores.data(), kStride, num_rows, v.view(), tokens.data(), tokens.size(),
                 SpecFor(64), states.rows);
    states.Finish();
    for (size_t r = 0; r < num_rows; ++r) {
      ExpectNear(
          states, r,
          reference::Attend(k.view(), v.view(), tokens, q.data() + r * q.stride(), SpecFor(64)));
    }
  }
}

TEST_P(AttendTest, AnySplitMergesToOnePass) {
  const size_t n = 300;
  const TestRows k(DType::kBFloat16, n, 80, false, &random_);
  const TestRows v(DType::kBFloat16, n, 80, false, &random_);
  const TestQueries q(5, 80, &random_, 3.0f);
  States whole(5, 80);
  AttendRows(k.view(), v.view(), 0, n, q.data(), q.stride(), 5, SpecFor(80), whole.rows);
  whole.Finish();
  for (const size_t split : Sizes{0, 1, 64, 150, 299, 300}) {
    States left(5, 80), right(5, 80);
    RowsView k_right = k.view(), v_right = v.view();
    k_right.data = static_cast<const uint16_t*>(k_right.data) + split * k_right.stride;
    v_right.data = static_cast<const uint16_t*>(v_right.data) + split * v_right.stride;
    AttendRows(k.view(), v.view(), 0, split, q.data(), q.stride(), 5, SpecFor(80), left.rows);
    AttendRows(k_right, v_right, 0, n - split, q.data(), q.stride(), 5, SpecFor(80), right.rows);
    MergeStates(right.rows, left.rows, 5, 80);
    left.Finish();
    for (size_t r = 0; r < 5; ++r) {
      EXPECT_NEAR(left.lse[r], whole.lse[r], 1e-5);
      for (size_t i = 0; i < 80; ++i)
        ASSERT_NEAR(left.out[r * 80 + i], whole.out[r * 80 + i], 1e-5);
    }
  }
}

TEST_P(AttendTest, FoldsIntoAStateThatHasTokens) {
  const TestRows k(DType::kFloat32, 90, 32, false, &random_);
  const TestRows v(DType::kFloat32, 90, 32, false, &random_);
  const TestQueries q(1, 32, &random_);
  States states(1, 32);
  for (const auto& [first, count] : {std::pair<uint32_t, uint32_t>{0, 70}, {70, 20}}) {
    std::vector<uint32_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), first);
    AttendGather(k.view(), v.view(), tokens.data(), count, q.data(), q.stride(), 1, SpecFor(32),
                 states.rows);
  }
  states.Finish();
  ExpectNear(states, 0,
             reference::Attend(k.view(), v.view(), FirstTokens(90), q.data(), SpecFor(32)));
}

TEST_P(AttendTest, LargeLogitsNeitherOverflowNorLosePrecision) {
  const TestRows k(DType::kFloat16, 200, 64, false, &random_);
  const TestRows v(DType::kFloat16, 200, 64, false, &random_);
  const TestQueries q(1, 64, &random_, 400.0f);  // Logits of hundreds.
  const LogitSpec logit = SpecFor(64);
  States states(1, 64);
  AttendRows(k.view(), v.view(), 0, 200, q.data(), q.stride(), 1, logit, states.rows);
  states.Finish();
  const auto expected = reference::Attend(k.view(), v.view(), FirstTokens(200), q.data(), logit);
  EXPECT_NEAR(states.lse[0], expected.lse, 1e-3);
  for (size_t i = 0; i < 64; ++i) EXPECT_NEAR(states.out[i], expected.out[i], 2e-3);
}

class AttendSpecialTest : public AttendTest {
 protected:
  // Attention of one q row of ones over 70 tokens, after `change`.
  template <typename F>
  States Run(F&& change) {
    TestRows k(DType::kBFloat16, 70, 32, false, &random_);
    TestRows v(DType::kBFloat16, 70, 32, false, &random_);
    TestQueries q(1, 32, &random_);
    for (size_t i = 0; i < 32; ++i) q.row(0)[i] = 1.0f;
    change(&k, &v, &q);
    States states(1, 32);
    AttendRows(k.view(), v.view(), 0, 70, q.data(), q.stride(), 1, SpecFor(32), states.rows);
    states.Finish();
    return states;
  }
};

TEST_P(AttendSpecialTest, ANaNKeyGivesNaN) {
  for (const size_t token : Sizes{0, 1, 63, 64, 69}) {
    const States states =
        Run([&](TestRows* k, TestRows*, TestQueries*) { k->Set(token, 3, kNaN); });
    EXPECT_TRUE(std::isnan(states.lse[0])) << token;
    EXPECT_TRUE(std::isnan(states.out[0])) << token;
  }
}

TEST_P(AttendSpecialTest, ANaNQueryGivesNaN) {
  const States states = Run([](TestRows*, TestRows*, TestQueries* q) { q->row(0)[5] = kNaN; });
  EXPECT_TRUE(std::isnan(states.lse[0]));
  EXPECT_TRUE(std::isnan(states.out[31]));
}

TEST_P(AttendSpecialTest, ANaNValueStaysInItsColumn) {
  const States states = Run([](TestRows*, TestRows* v, TestQueries*) { v->Set(66, 3, kNaN); });
  EXPECT_TRUE(std::isnan(states.out[3]));
  EXPECT_TRUE(std::isfinite(states.out[4]));
  EXPECT_TRUE(std::isfinite(states.lse[0]));
}

TEST_P(AttendSpecialTest, AnInfiniteLogitGivesNaNAsIeeeSoftmaxDoes) {
  const States states = Run([](TestRows* k, TestRows*, TestQueries*) { k->Set(66, 3, kInf); });
  EXPECT_TRUE(std::isnan(states.out[0]));
  EXPECT_TRUE(std::isnan(states.lse[0]));
}

TEST_P(AttendSpecialTest, AMinusInfiniteLogitWeighsNothing) {
  const auto change = [](TestRows* k, TestRows*, TestQueries*) {
    for (size_t token = 0; token < 66; ++token) k->Set(token, 3, -kInf);  // A whole tile and more.
  };
  const States states = Run(change);
  EXPECT_TRUE(std::isfinite(states.lse[0]));
  for (size_t i = 0; i < 32; ++i) EXPECT_TRUE(std::isfinite(states.out[i]));
}

TEST_P(AttendSpecialTest, OnlyMinusInfiniteLogitsAreTheEmptySet) {
  const States states = Run([](TestRows* k, TestRows*, TestQueries*) {
    for (size_t token = 0; token < 70; ++token) k->Set(token, 3, -kInf);
  });
  EXPECT_EQ(states.lse[0], -kInf);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(states.out[i], 0.0f);
}

TEST(AttendAcrossIsas, ResultsAgree) {
  std::mt19937 random(5);
  const TestRows k(DType::kFloat16, 333, 128, false, &random);
  const TestRows v(DType::kFloat16, 333, 128, false, &random);
  const TestQueries q(4, 128, &random, 2.0f);
  States first(4, 128);
  for (const Isa isa : kAllIsas) {
    if (!ForceIsa(isa)) continue;
    States states(4, 128);
    AttendRows(k.view(), v.view(), 0, 333, q.data(), q.stride(), 4, SpecFor(128), states.rows);
    states.Finish();
    if (isa == Isa::kScalar)
      first = std::move(states);
    else
      for (size_t i = 0; i < 4 * 128; ++i) ASSERT_NEAR(states.out[i], first.out[i], 2e-6) << i;
  }
  ForceIsa(std::nullopt);
}

ATTNDB_INSTANTIATE_ISAS(AttendTest);
ATTNDB_INSTANTIATE_ISAS(AttendSpecialTest);

}  // namespace
}  // namespace attndb::kernels
