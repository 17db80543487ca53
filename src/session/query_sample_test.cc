// Goal:   the sample has the rate that was asked for, does not depend on how tokens came in, and
//         follows crops.
#include "session/query_sample.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/convert.h"
#include "testing/toy_model.h"

namespace attndb::internal {
namespace {

class QuerySampleTest : public ::testing::Test {
 protected:
  // Offers q of tokens [begin, end) of layer 0, whose tail begins at position 1000.
  void Offer(QuerySample* sample, uint64_t begin, uint64_t end) {
    const std::vector<float> q =
        model_.Queries(0, std::span(tokens_).subspan(begin, end - begin), 1000 + begin);
    sample->Offer(
        model_.spec(), 0,
        TensorView::Contiguous(q.data(), DType::kFloat32, static_cast<int64_t>(end - begin), 6, 32),
        begin, static_cast<int64_t>(1000 + begin));
  }

  const test::ToyModel model_;
  const std::vector<TokenId> tokens_ = test::ToyModel::Tokens(4000, 3);
};

TEST_F(QuerySampleTest, KeepsTheRateAskedFor) {
  for (const double rate : {0.0, 0.1, 0.4}) {
    QuerySample sample(model_.spec(), rate);
    Offer(&sample, 0, 4000);
    for (uint32_t head = 0; head < 2; ++head) {
      const double expected = 4000 * rate;
      EXPECT_NEAR(static_cast<double>(sample.rows(0, head).num_rows()), expected,
                  5 * std::sqrt(expected) + 1);
    }
  }
}

TEST_F(QuerySampleTest, DoesNotDependOnHowTokensCameIn) {
  QuerySample whole(model_.spec(), 0.3);
  QuerySample pieces(model_.spec(), 0.3);
  Offer(&whole, 0, 500);
  Offer(&pieces, 0, 200);
  Offer(&pieces, 100, 333);  // Overlaps: tokens are not taken twice.
  Offer(&pieces, 333, 500);
  for (uint32_t head = 0; head < 2; ++head) {
    const storage::QueryRows a = whole.rows(0, head);
    const storage::QueryRows b = pieces.rows(0, head);
    ASSERT_EQ(a.num_rows(), b.num_rows());
    ASSERT_GT(a.num_rows(), 0u);
    EXPECT_TRUE(std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin()));
    EXPECT_TRUE(std::equal(a.q_heads.begin(), a.q_heads.end(), b.q_heads.begin()));
    EXPECT_EQ(std::memcmp(a.q, b.q, a.num_rows() * 32 * 2), 0);
  }
}

TEST_F(QuerySampleTest, RowsAreInLayoutHalfAndTheStoredType) {
  QuerySample sample(model_.spec(), 2.0);
  Offer(&sample, 0, 10);
  const storage::QueryRows rows = sample.rows(0, 1);
  ASSERT_GT(rows.num_rows(), 0u);
  const std::vector<float> q = model_.Queries(0, std::span(tokens_).first(10), 1000);
  const float* expected = &q[(rows.tokens[0] * 6 + 3 + rows.q_heads[0]) * 32];
  for (uint32_t d = 0; d < 16; ++d) {  // Layer 0 is interleaved.
    uint16_t got[2];
    std::memcpy(&got[0], rows.q + d * 2, 2);
    std::memcpy(&got[1], rows.q + (d + 16) * 2, 2);
    EXPECT_EQ(got[0], kernels::FromFloat32(expected[2 * d], DType::kFloat16));
    EXPECT_EQ(got[1], kernels::FromFloat32(expected[2 * d + 1], DType::kFloat16));
  }
}

TEST_F(QuerySampleTest, CropForgetsAndOffersAgain) {
  QuerySample sample(model_.spec(), 0.5);
  QuerySample plain(model_.spec(), 0.5);
  Offer(&sample, 0, 300);
  sample.Crop(120);
  Offer(&sample, 120, 200);
  Offer(&plain, 0, 200);
  EXPECT_EQ(sample.rows(0, 0).num_rows(), plain.rows(0, 0).num_rows());
  sample.Crop(0);
  EXPECT_EQ(sample.rows(0, 0).num_rows(), 0u);
}

}  // namespace
}  // namespace attndb::internal
