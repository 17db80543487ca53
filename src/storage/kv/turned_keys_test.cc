// Goal:   keys stored without RoPE come turned to their positions, for a range or a list of them,
//         through a chain's rows and as whole heads.
// Method: the same rows turned one by one in float32, of each stored type.
#include "storage/kv/turned_keys.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "attndb/types.h"
#include "common/aligned_buffer.h"
#include "common/rope_frequencies.h"
#include "kernels/convert.h"
#include "storage/kv/chain_rows.h"
#include "testing/matchers.h"

namespace attndb::storage {
namespace {

constexpr uint32_t kDim = 32;
constexpr uint64_t kNumRows = 150;
constexpr int64_t kFirst = 1000;

class TurnedKeysTest : public ::testing::TestWithParam<DType> {
 protected:
  TurnedKeysTest() : stored_(*AlignedBuffer::Allocate(kNumRows * kDim * sizeof(float))) {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    std::vector<float> rows(kNumRows * kDim);
    for (float& x : rows) x = normal(random);
    kernels::ConvertRows(DType::kFloat32, rows.data(), kDim, GetParam(), stored_.data(), kDim,
                         kNumRows, kDim, kDim);
  }

  kernels::RowsView Stored() const { return {stored_.data(), kDim, kDim, GetParam()}; }
  // A stored row at its position, rounded to the stored type again.
  std::vector<float> Expected(uint64_t row) const { return Expected(row, row); }
  // At the position of another row.
  std::vector<float> Expected(uint64_t row, uint64_t place) const {
    std::vector<float> turned(kDim);
    kernels::LoadRows(Stored(), row, 1, turned.data());
    turns_->On(kFirst + static_cast<int64_t>(place), 1, kDim, turned.data());
    std::vector<std::byte> rounded(kDim * sizeof(float));
    kernels::ConvertRows(DType::kFloat32, turned.data(), kDim, GetParam(), rounded.data(), kDim, 1,
                         kDim, kDim);
    kernels::LoadRows({rounded.data(), kDim, kDim, GetParam()}, 0, 1, turned.data());
    return turned;
  }
  static std::vector<float> Row(const kernels::RowsView& rows, uint64_t i) {
    std::vector<float> row(kDim);
    kernels::LoadRows(rows, i, 1, row.data());
    return row;
  }

  AlignedBuffer stored_;
  const std::shared_ptr<const PositionTurns> turns_ =
      std::make_shared<const PositionTurns>(*RopeFrequencies({.layout = RopeLayout::kHalf}, kDim));
};

TEST_P(TurnedKeysTest, AWholeHeadIsTurnedInPlace) {
  AlignedBuffer copy = *AlignedBuffer::Allocate(kNumRows * kDim * sizeof(float));
  TurnKeys(*turns_, Stored(), kFirst, kNumRows, copy.data());
  for (uint64_t row = 0; row < kNumRows; ++row) {
    EXPECT_EQ(Row({copy.data(), kDim, kDim, GetParam()}, row), Expected(row)) << row;
  }
  const std::vector<float> first = Expected(0);
  TurnKeys(*turns_, Stored(), kFirst, kNumRows, stored_.data());
  EXPECT_EQ(Row(Stored(), 0), first);
}

TEST_P(TurnedKeysTest, RangesAndListsAreCopies) {
  RowLease lease;
  const RowRequest range = {.strip = {}, .first = 70, .count = 33};
  const std::vector<uint32_t> rows = {149, 3, 3,
                                      64,  0, UINT32_MAX};  // The last one is not asked for.
  const RowRequest list = {.strip = {}, .count = rows.size() - 1, .list = rows.data()};
  lease.Request(range.strip, range.first, range.count);
  lease.RequestListed(list.strip, list.list, list.count);
  ATTNDB_ASSERT_OK(PlaceTurnedKeys(*turns_, range, Stored(), kFirst, &lease));
  ATTNDB_ASSERT_OK(PlaceTurnedKeys(*turns_, list, Stored(), kFirst, &lease));
  uint64_t num_rows = 0;
  const kernels::RowsView piece = lease.Piece(0, 0, &num_rows);
  ASSERT_EQ(num_rows, range.count);
  for (uint64_t i = 0; i < range.count; ++i) EXPECT_EQ(Row(piece, i), Expected(range.first + i));
  const ListedRows listed = lease.Listed(1);
  for (size_t i = 0; i < list.count; ++i) {
    EXPECT_EQ(Row(listed.rows, listed.list[i]), Expected(rows[i])) << i;
  }
}

TEST_P(TurnedKeysTest, CopiesLieBehindEachOtherWhateverLiesBetweenTheRows) {
  const kernels::RowsView every_other = {stored_.data(), 2 * kDim, kDim, GetParam()};
  const std::vector<uint32_t> rows = {70, 5, 9};
  RowLease lease;
  lease.Request({}, 10, 20);
  lease.RequestListed({}, rows.data(), rows.size());
  for (const RowRequest& request : lease.requests()) {
    ATTNDB_ASSERT_OK(PlaceTurnedKeys(*turns_, request, every_other, kFirst, &lease));
  }
  uint64_t num_rows = 0;
  const kernels::RowsView piece = lease.Piece(0, 0, &num_rows);
  ASSERT_EQ(num_rows, 20u);
  for (uint64_t i = 0; i < num_rows; ++i) EXPECT_EQ(Row(piece, i), Expected(2 * (10 + i), 10 + i));
  const ListedRows listed = lease.Listed(1);
  for (size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(Row(listed.rows, listed.list[i]), Expected(2 * rows[i], rows[i])) << i;
  }
}

// A chain's run that is in memory begins at position 0; values are not turned.
TEST_P(TurnedKeysTest, AChainsRowsAreTurnedAndItsValuesStay) {
  LayerShape shape = {.num_kv_heads = 1, .head_dim = kDim, .v_head_dim = kDim};
  shape.key_turns = turns_;
  ChainRows chain;
  chain.Reset(shape, GetParam());
  const KvRows head = {stored_.data(), stored_.data(), kNumRows};
  chain.AddRun({&head, 1});
  EXPECT_EQ(chain.Resident({0, 0, RowPart::kKeys}), nullptr);
  EXPECT_EQ(chain.Resident({0, 0, RowPart::kValues}), stored_.data());
  RowLease lease;
  lease.Reset(&chain);
  for (int round = 0; round < 2; ++round) {  // Its memory is used again.
    lease.Clear();
    lease.Request({0, 0, RowPart::kKeys}, 20, 10);
    lease.Request({0, 0, RowPart::kValues}, 20, 10);
    ATTNDB_ASSERT_OK(lease.Read());
    uint64_t num_rows = 0;
    std::vector<float> expected = Row(Stored(), 27);
    EXPECT_EQ(Row(lease.Piece(1, 0, &num_rows), 7), expected);
    turns_->On(27, 1, kDim, expected.data());
    const std::vector<float> found = Row(lease.Piece(0, 0, &num_rows), 7);
    for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(found[d], expected[d], 0.02) << d;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TurnedKeysTest,
                         ::testing::Values(DType::kFloat32, DType::kFloat16, DType::kBFloat16));

}  // namespace
}  // namespace attndb::storage
