// Goal:   the sample has the rate that the caller asked for. It does not depend on how the tokens
//         were split into appends, and it follows crops.
#include "session/query_sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
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
    sample->Offer(model_.spec(), 0,
                  {TensorView::Contiguous(q.data(), DType::kFloat32,
                                          static_cast<int64_t>(end - begin), 6, 32)},
                  begin, static_cast<int64_t>(1000 + begin));
  }

  // Rows of a sample that was never frozen: one piece, or none.
  static storage::QueryRows Rows(const QuerySample& sample, uint32_t kv_head) {
    const std::vector<storage::QueryRows> pieces = sample.rows(0, kv_head);
    EXPECT_LE(pieces.size(), 1u);
    return pieces.empty() ? storage::QueryRows() : pieces.front();
  }

  // Tokens, q heads and bytes of all pieces together.
  struct Flat {
    std::vector<uint32_t> tokens, q_heads;
    std::vector<std::byte> data;
    bool operator==(const Flat&) const = default;
  };
  static Flat FlatRows(const QuerySample& sample, uint32_t kv_head) {
    return FlatRows(sample.rows(0, kv_head));
  }
  static Flat FlatRows(const QuerySample::Frozen& frozen, uint32_t kv_head) {
    std::vector<storage::QueryRows> pieces;
    for (const storage::SharedQueries& piece : frozen[0][kv_head]) pieces.push_back(piece.rows());
    return FlatRows(pieces);
  }
  static Flat FlatRows(const std::vector<storage::QueryRows>& pieces) {
    Flat flat;
    for (const storage::QueryRows& piece : pieces) {
      flat.tokens.insert(flat.tokens.end(), piece.tokens.begin(), piece.tokens.end());
      flat.q_heads.insert(flat.q_heads.end(), piece.q_heads.begin(), piece.q_heads.end());
      flat.data.insert(flat.data.end(), piece.q, piece.q + piece.num_rows() * 32 * 2);
    }
    return flat;
  }

  storage::MemoryBudget budget_{uint64_t{1} << 30};
  const test::ToyModel model_;
  const std::vector<TokenId> tokens_ = test::ToyModel::Tokens(4000, 3);
};

TEST_F(QuerySampleTest, ItsRowsAreCountedBeforehand) {
  QuerySample sample(model_.spec(), 0.7, &budget_);
  Offer(&sample, 0, 200);
  const auto counts = QuerySample::Count(model_.spec(), 0.7, 1000, 200);
  for (uint32_t head = 0; head < counts[0].size(); ++head) {
    EXPECT_EQ(counts[0][head], Rows(sample, head).num_rows());
  }
  EXPECT_EQ(QuerySample::Count(model_.spec(), 0, 1000, 200)[0][0], 0u);
}

// Groups have 3 and 2 q heads.
TEST_F(QuerySampleTest, AtTheRateOfAGroupEveryRowIsCountedAndKept) {
  EXPECT_EQ(QuerySample::Count(model_.spec(), 3.0, 1000, 50),
            (std::vector<std::vector<uint64_t>>{{150, 150}, {100, 100, 100}}));
  QuerySample sample(model_.spec(), 3.0, &budget_);
  Offer(&sample, 0, 50);
  EXPECT_EQ(Rows(sample, 0).num_rows(), 150u);
  EXPECT_EQ(Rows(sample, 1).num_rows(), 150u);
}

TEST_F(QuerySampleTest, KeepsTheRateAskedFor) {
  for (const double rate : {0.0, 0.1, 0.4}) {
    QuerySample sample(model_.spec(), rate, &budget_);
    Offer(&sample, 0, 4000);
    for (uint32_t head = 0; head < 2; ++head) {
      const double expected = 4000 * rate;
      EXPECT_NEAR(static_cast<double>(Rows(sample, head).num_rows()), expected,
                  5 * std::sqrt(expected) + 1);
    }
  }
}

TEST_F(QuerySampleTest, DoesNotDependOnHowTokensCameIn) {
  QuerySample whole(model_.spec(), 0.3, &budget_);
  QuerySample pieces(model_.spec(), 0.3, &budget_);
  Offer(&whole, 0, 500);
  Offer(&pieces, 0, 200);
  Offer(&pieces, 100, 333);  // Overlaps: tokens are not taken twice.
  Offer(&pieces, 333, 500);
  for (uint32_t head = 0; head < 2; ++head) {
    const storage::QueryRows a = Rows(whole, head);
    const storage::QueryRows b = Rows(pieces, head);
    ASSERT_EQ(a.num_rows(), b.num_rows());
    ASSERT_GT(a.num_rows(), 0u);
    EXPECT_TRUE(std::equal(a.tokens.begin(), a.tokens.end(), b.tokens.begin()));
    EXPECT_TRUE(std::equal(a.q_heads.begin(), a.q_heads.end(), b.q_heads.begin()));
    EXPECT_EQ(std::memcmp(a.q, b.q, a.num_rows() * 32 * 2), 0);
  }
}

TEST_F(QuerySampleTest, RowsAreInLayoutHalfAndTheStoredType) {
  QuerySample sample(model_.spec(), 2.0, &budget_);
  Offer(&sample, 0, 10);
  const storage::QueryRows rows = Rows(sample, 1);
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

TEST_F(QuerySampleTest, RowsThatAreOfNoUseLeaveNothingBehind) {
  std::vector<float> q = model_.Queries(0, std::span(tokens_).first(3), 1000);
  q[(1 * 6 + 3) * 32 + 5] = NAN;    // Token 1, the first q head of kv head 1.
  q[(1 * 6 + 4) * 32 + 6] = 1e30f;  // The second one; float16 ends at 65504.
  QuerySample sample(model_.spec(), 3.0, &budget_);
  sample.Offer(model_.spec(), 0, {TensorView::Contiguous(q.data(), DType::kFloat32, 3, 6, 32)}, 0,
               1000);
  QuerySample plain(model_.spec(), 3.0, &budget_);
  Offer(&plain, 0, 3);
  EXPECT_EQ(FlatRows(sample, 0), FlatRows(plain, 0));
  Flat expected = FlatRows(plain, 1);
  ASSERT_EQ(expected.tokens.size(), 9u);
  expected.tokens.erase(expected.tokens.begin() + 3, expected.tokens.begin() + 5);
  expected.q_heads.erase(expected.q_heads.begin() + 3, expected.q_heads.begin() + 5);
  expected.data.erase(expected.data.begin() + 3 * 64, expected.data.begin() + 5 * 64);
  EXPECT_EQ(FlatRows(sample, 1), expected);
}

TEST_F(QuerySampleTest, CropForgetsAndOffersAgain) {
  QuerySample sample(model_.spec(), 0.5, &budget_);
  QuerySample plain(model_.spec(), 0.5, &budget_);
  Offer(&sample, 0, 300);
  sample.Crop(120);
  Offer(&sample, 120, 200);
  Offer(&plain, 0, 200);
  EXPECT_EQ(FlatRows(sample, 0), FlatRows(plain, 0));
  sample.Crop(0);
  EXPECT_EQ(Rows(sample, 0).num_rows(), 0u);
}

TEST_F(QuerySampleTest, WhatIsFrozenStaysAndTheSampleGoesOn) {
  QuerySample sample(model_.spec(), 0.5, &budget_);
  QuerySample plain(model_.spec(), 0.5, &budget_);
  Offer(&sample, 0, 100);
  Offer(&plain, 0, 100);
  const QuerySample::Frozen first = sample.Freeze();
  Offer(&sample, 100, 300);
  const QuerySample::Frozen second = sample.Freeze();
  sample.Crop(150);
  Offer(&sample, 150, 180);
  EXPECT_EQ(FlatRows(first, 1), FlatRows(plain, 1));
  plain.Crop(100);
  Offer(&plain, 100, 180);
  EXPECT_EQ(FlatRows(sample, 1), FlatRows(plain, 1));
  Offer(&plain, 180, 300);
  EXPECT_EQ(FlatRows(second, 1), FlatRows(plain, 1));
  sample.Crop(40);
  plain.Crop(40);
  EXPECT_EQ(FlatRows(sample, 1), FlatRows(plain, 1));
}

TEST_F(QuerySampleTest, WithoutItsFirstTokensOthersAreCountedFromThere) {
  QuerySample sample(model_.spec(), 0.5, &budget_);
  Offer(&sample, 0, 100);
  (void)sample.Freeze();
  Offer(&sample, 100, 300);
  Flat expected = FlatRows(sample, 1);
  const size_t num_dropped = static_cast<size_t>(std::ranges::lower_bound(expected.tokens, 120u) -
                                                 expected.tokens.begin());
  ASSERT_GT(num_dropped, 0u);
  sample.DropFirst(120);
  const auto count = static_cast<ptrdiff_t>(num_dropped);
  expected.tokens.erase(expected.tokens.begin(), expected.tokens.begin() + count);
  expected.q_heads.erase(expected.q_heads.begin(), expected.q_heads.begin() + count);
  expected.data.erase(expected.data.begin(), expected.data.begin() + count * 32 * 2);
  for (uint32_t& token : expected.tokens) token -= 120;
  EXPECT_EQ(FlatRows(sample, 1), expected);
  // Tokens of the tail that were offered are not taken twice.
  const std::vector<float> q = model_.Queries(0, std::span(tokens_).subspan(120, 180), 1120);
  sample.Offer(model_.spec(), 0, {TensorView::Contiguous(q.data(), DType::kFloat32, 180, 6, 32)}, 0,
               1120);
  EXPECT_EQ(FlatRows(sample, 1), expected);
  sample.DropFirst(500);
  EXPECT_TRUE(FlatRows(sample, 1).tokens.empty());
}

TEST_F(QuerySampleTest, WhatIsFrozenAgainIsNoPieceMore) {
  QuerySample sample(model_.spec(), 0.5, &budget_);
  Offer(&sample, 0, 100);
  EXPECT_EQ(sample.Freeze()[0][1].size(), 1u);
  const QuerySample::Frozen again = sample.Freeze();
  EXPECT_EQ(again[0][1].size(), 1u);
  EXPECT_TRUE(again[1][0].empty()) << "nothing was offered of that layer";
}

// The frozen sample still has rows of cropped tokens.
TEST_F(QuerySampleTest, WithoutItsFirstTokensItGoesOnWithTheNext) {
  constexpr uint64_t kRowBytes = 32 * 2 + 2 * 4;  // A row of q, its token and its head.
  QuerySample sample(model_.spec(), 3.0, &budget_);
  Offer(&sample, 0, 40);
  (void)sample.Freeze();
  sample.Crop(30);
  sample.DropFirst(10);
  EXPECT_EQ(Rows(sample, 0).num_rows(), 60u);
  EXPECT_EQ(budget_.used_bytes(), 2 * 60 * kRowBytes);
  const std::vector<float> q = model_.Queries(0, std::span(tokens_).subspan(30, 10), 1030);
  sample.Offer(model_.spec(), 0, {TensorView::Contiguous(q.data(), DType::kFloat32, 10, 6, 32)}, 20,
               1030);
  EXPECT_EQ(Rows(sample, 0).num_rows(), 90u);
  EXPECT_EQ(Rows(sample, 0).tokens.back(), 29u);
}

TEST_F(QuerySampleTest, AForkHasTheSameRowsAndGoesItsOwnWay) {
  QuerySample sample(model_.spec(), 0.5, &budget_);
  Offer(&sample, 0, 100);
  const uint64_t used_bytes = budget_.used_bytes();
  QuerySample fork = sample.Fork();
  EXPECT_EQ(budget_.used_bytes(), used_bytes);  // They share the memory.
  EXPECT_EQ(FlatRows(fork, 1), FlatRows(sample, 1));
  Offer(&fork, 100, 200);
  sample.Crop(10);
  QuerySample plain(model_.spec(), 0.5, &budget_);
  Offer(&plain, 0, 200);
  EXPECT_EQ(FlatRows(fork, 1), FlatRows(plain, 1));
}

// Room is for 8 rows at first, and for half as many more when there is none left.
TEST_F(QuerySampleTest, RoomIsMadeWhenThereIsNoneLeft) {
  constexpr uint64_t kRowBytes = 32 * 2 + 2 * 4;
  QuerySample sample(model_.spec(), 3.0, &budget_);
  Offer(&sample, 0, 4);
  EXPECT_EQ(Rows(sample, 0).num_rows(), 12u);
  EXPECT_EQ(budget_.used_bytes(), 2 * 12 * kRowBytes);
  EXPECT_EQ(sample.memory_bytes(), budget_.used_bytes());
  Offer(&sample, 4, 5);
  EXPECT_EQ(Rows(sample, 0).num_rows(), 15u);
  EXPECT_EQ(budget_.used_bytes(), 2 * 18 * kRowBytes);
  EXPECT_EQ(sample.memory_bytes(), budget_.used_bytes());
}

TEST_F(QuerySampleTest, ItsMemoryIsCountedAndRowsWithoutMemoryAreLeftOut) {
  storage::MemoryBudget small(uint64_t{20} << 10);
  {
    QuerySample sample(model_.spec(), 2.0, &small);
    Offer(&sample, 0, 2000);
    EXPECT_GT(Rows(sample, 0).num_rows(), 50u);
    EXPECT_LT(Rows(sample, 0).num_rows(), 1000u);
    EXPECT_LE(sample.memory_bytes(), small.used_bytes());
    EXPECT_LE(small.used_bytes(), small.limit_bytes());
    const QuerySample::Frozen frozen = sample.Freeze();
    sample.Crop(0);
    EXPECT_GT(small.used_bytes(), 0u);  // Frozen rows are held.
    sample.DropFirst(0);
  }
  EXPECT_EQ(small.used_bytes(), 0u);
}

}  // namespace
}  // namespace attndb::internal
