// Goal:   weights are those that attention weighs values by; what a plan selects is told of them.
// Method: random rows in sessions of layers with all that a softmax may have; the values weighed by
//         what is told are held against what Attend answers.
#include "server/explain/token_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr uint64_t kNumTokens = 1500;  // More than are read at a time.
const LayerSpec kLayer = {.num_q_heads = 4, .num_kv_heads = 2, .head_dim = 32, .v_head_dim = 16};
constexpr LayerId kPlain = 0, kCapped = 1, kSliding = 2, kDenominators = 3;

class TokenWeightsTest : public ::testing::Test {
 protected:
  TokenWeightsTest() {
    spec_ = ModelSpec::Uniform(4, kLayer, DType::kFloat32, "weights");
    spec_.layers[kCapped].soft_cap = 2.0f;
    spec_.layers[kSliding].sliding_window = 100;
    spec_.layers[kSliding].scale = 0.5f;
    spec_.layers[kDenominators].denominator_logits = {5, 8, -30, 6};
    for (LayerSpec& layer : spec_.layers) layer.rope.layout = RopeLayout::kInterleaved;
  }

  std::vector<float> Random(size_t num) {
    std::normal_distribution<float> normal;
    std::vector<float> values(num);
    for (float& value : values) value = normal(random_);
    return values;
  }

  // A session on `plan` with random rows; the layers' values and last queries are kept.
  Session NewSession(const std::string& plan) {
    if (!db_) db_.emplace(*DB::Open(directory_.File("store"), {}));
    const TokenId any[] = {1};
    SessionStart start = *db_->CreateSession(spec_, any, {.reuse = false, .plan = plan});
    for (LayerId layer = 0; layer < spec_.num_layers(); ++layer) {
      const std::vector<float> k = Random(kNumTokens * 2 * 32);
      v_[layer] = Random(kNumTokens * 2 * 16);
      q_[layer] = Random(4 * 32);
      const auto num = static_cast<int64_t>(kNumTokens);
      ATTNDB_EXPECT_OK(start.session.Append(
          layer, TensorView::Contiguous(k.data(), DType::kFloat32, num, 2, 32),
          TensorView::Contiguous(v_[layer].data(), DType::kFloat32, num, 2, 16)));
      out_[layer].resize(4 * 16);
      ATTNDB_EXPECT_OK(start.session.Attend(
          layer, TensorView::Contiguous(q_[layer].data(), DType::kFloat32, 1, 4, 32),
          MutableTensorView::Contiguous(out_[layer].data(), DType::kFloat32, 1, 4, 16)));
    }
    return std::move(start.session);
  }

  ::attndb::test::TempDir directory_;
  std::mt19937 random_{7};
  ModelSpec spec_;
  std::optional<DB> db_;
  std::vector<float> v_[4], q_[4], out_[4];
};

TEST_F(TokenWeightsTest, ValuesWeighedByThemAreTheOutput) {
  Session session = NewSession("full");
  for (LayerId layer = 0; layer < 4; ++layer) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto heads,
                                WeighTokens(layer, q_[layer], kNumTokens, &session));
    ASSERT_EQ(heads.size(), 4u);
    for (size_t head = 0; head < 4; ++head) {
      const HeadWeights& told = heads[head];
      EXPECT_EQ(told.tokens.size(), layer == kSliding ? 100u : kNumTokens);
      EXPECT_TRUE(std::is_sorted(told.weights.rbegin(), told.weights.rend()));
      EXPECT_FALSE(told.num_critical.has_value()) << "full searches nothing";
      const double sum = std::accumulate(told.weights.begin(), told.weights.end(), 0.0);
      if (layer == kDenominators && head != 2) {
        EXPECT_LT(sum, 0.99);
      } else {
        EXPECT_NEAR(sum, 1, 1e-5);
      }
      for (size_t d = 0; d < 16; ++d) {
        double value = 0;
        for (size_t i = 0; i < told.tokens.size(); ++i) {
          value += told.weights[i] * v_[layer][(told.tokens[i] * 2 + head / 2) * 16 + d];
        }
        EXPECT_NEAR(value, out_[layer][head * 16 + d], 1e-4) << layer << " " << head;
      }
    }
  }
}

TEST_F(TokenWeightsTest, AListIsCutAtItsLengthTheHeaviestFirst) {
  Session session = NewSession("full");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto all, WeighTokens(kPlain, q_[0], kNumTokens, &session));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto few, WeighTokens(kPlain, q_[0], 5, &session));
  for (size_t head = 0; head < 4; ++head) {
    EXPECT_EQ(few[head].tokens,
              std::vector<uint32_t>(all[head].tokens.begin(), all[head].tokens.begin() + 5));
  }
}

TEST_F(TokenWeightsTest, WhatThePlanSelectedIsTold) {
  Session session = NewSession("topk(k=10,sink=4,window=16)");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto heads, WeighTokens(kPlain, q_[0], 12, &session));
  for (const HeadWeights& head : heads) {
    EXPECT_EQ(head.num_critical, 10u);
    for (const uint32_t token : head.tokens) {
      const bool in_middle = token >= 4 && token < kNumTokens - 16;
      const bool is_listed =
          std::find(head.critical.begin(), head.critical.end(), token) != head.critical.end();
      EXPECT_TRUE(in_middle || !is_listed) << token;
    }
    EXPECT_GE(head.critical.size(), 8u);
  }
}

TEST_F(TokenWeightsTest, WhatHasLeftAndWhatIsNoNumberIsRefused) {
  Session session = NewSession("full");
  std::vector<float> q = q_[0];
  q[40] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(WeighTokens(kPlain, q, 5, &session),
              FailsWith(StatusCode::kUnsupported, HasSubstr("layer 0 head 1")));
  ATTNDB_ASSERT_OK(session.DropOldest(100));
  EXPECT_THAT(WeighTokens(kPlain, q_[0], 5, &session),
              FailsWith(StatusCode::kUnsupported, HasSubstr("have left")));
}

}  // namespace
}  // namespace attndb::server
