// Goal:   a question's rows equal those that the model would compute at another position.
// Method: RoPE in float64 of the same unrotated rows.
#include "find/placed_question.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "common/random.h"

namespace attndb::find {
namespace {

LayerSpec Layer(uint32_t head_dim, uint32_t rope_dims) {
  LayerSpec layer;
  layer.num_q_heads = layer.num_kv_heads = 1;
  layer.head_dim = layer.v_head_dim = head_dim;
  layer.rope = {.layout = RopeLayout::kHalf, .rope_dims = rope_dims, .base = 10000.0};
  return layer;
}

// Row i of `plain`, [num_tokens, stride], as at position first + i.
std::vector<float> Rotated(const LayerSpec& layer, const std::vector<float>& plain, size_t stride,
                           int64_t first) {
  std::vector<float> rows = plain;
  const uint32_t dims = layer.rope.DimsOf(layer.head_dim);
  for (size_t row = 0; row * stride < rows.size(); ++row) {
    for (uint32_t pair = 0; pair < dims / 2; ++pair) {
      const double angle = static_cast<double>(first + static_cast<int64_t>(row)) *
                           std::pow(layer.rope.base, -2.0 * pair / dims);
      const double x = plain[row * stride + pair];
      const double y = plain[row * stride + pair + dims / 2];
      rows[row * stride + pair] = static_cast<float>(x * std::cos(angle) - y * std::sin(angle));
      rows[row * stride + pair + dims / 2] =
          static_cast<float>(x * std::sin(angle) + y * std::cos(angle));
    }
  }
  return rows;
}

std::vector<float> PlainRows(size_t num_tokens, size_t head_dim, size_t stride) {
  Random random(3);
  std::vector<float> rows(num_tokens * stride);
  for (size_t row = 0; row < num_tokens; ++row) {
    for (size_t d = 0; d < head_dim; ++d) {
      rows[row * stride + d] = static_cast<float>(random.NextDouble() - 0.5);
    }
  }
  return rows;
}

TEST(PlacedQuestionTest, RowsTurnToWhereTheModelWouldHavePutThem) {
  for (const uint32_t rope_dims : {0U, 16U}) {
    const LayerSpec layer = Layer(24, rope_dims);
    const std::vector<float> plain = PlainRows(5, 24, 32);
    const PlacedQuestion question(layer, Rotated(layer, plain, 32, 77), 5, 77);
    ASSERT_TRUE(question.can_turn());
    ASSERT_EQ(question.num_rows(), 5u);
    std::vector<float> turned(plain.size());
    question.TurnBy(4000).Rows(question.rows(), 5, question.stride(), turned.data());
    const std::vector<float> expected = Rotated(layer, plain, 32, 4000);
    for (size_t i = 0; i < turned.size(); ++i) EXPECT_NEAR(turned[i], expected[i], 1e-4) << i;
  }
}

TEST(PlacedQuestionTest, AScalingThatIsKnownTurnsRowsAsIt) {
  LayerSpec layer = Layer(32, 0);
  layer.rope.scaling = "linear:factor=4";
  LayerSpec unscaled = Layer(32, 0);
  const std::vector<float> plain = PlainRows(1, 32, 32);
  const PlacedQuestion question(layer, Rotated(unscaled, plain, 32, 20), 1, 80);
  ASSERT_TRUE(question.can_turn());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(question.rows()[i], plain[i], 1e-5) << i;
}

TEST(PlacedQuestionTest, RowsStayWhereAnglesAreNotKnown) {
  LayerSpec layer = Layer(32, 0);
  layer.rope.scaling = "dynamic:factor=4";
  const std::vector<float> plain = PlainRows(3, 32, 32);
  const PlacedQuestion question(layer, plain, 3, 10);
  EXPECT_FALSE(question.can_turn());
  EXPECT_EQ(std::vector<float>(question.rows(), question.rows() + plain.size()), plain);
  layer.rope = Rope();  // No rotation at all.
  EXPECT_TRUE(FrequenciesOf(layer).empty());
}

}  // namespace
}  // namespace attndb::find
