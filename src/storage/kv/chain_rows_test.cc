// Goal:   a layer of a segment is read when one of its rows is requested, and not before. Rows that
//         can't be read fail only the calls that request them.
// Replay: --gtest_random_seed or ATTNDB_SEED.
#include "storage/kv/chain_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/position_turns.h"
#include "common/rope_frequencies.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/segment_writer.h"
#include "storage/kv/turned_keys.h"
#include "storage/vfs/store_files.h"
#include "testing/kv_data.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"

namespace attndb::storage {
namespace {

using test::DataSource;
using test::SegmentData;

const LayerShape kLayer = {.num_kv_heads = 2, .head_dim = 32, .v_head_dim = 48};
constexpr uint64_t kTokens = 300;
constexpr LayerId kLayers = 2;
const std::string kDir = "segments";

class ChainRowsTest : public ::testing::Test {
 protected:
  ChainRowsTest() {
    ATTNDB_EXPECT_OK(files_.CreateDir(kDir));
    for (uint64_t id = 1; id <= 2; ++id) {
      data_.push_back(test::RandomSegment(
          {.shape = shape_, .num_tokens = kTokens, .segment_id = id}, &random_));
      DataSource source(&data_.back(), kTokens);
      const Result<WrittenSegment> written = WriteSegment(
          {.file_system = &files_, .dir = kDir, .identity = data_.back().identity}, &source);
      EXPECT_THAT(written, test::IsOk());
      segments_.push_back(*Segment::Open(
          &files_, kDir, {.identity = data_.back().identity, .root_hash = written->root_hash},
          &budget_));
    }
    Fill();
  }

  // Layer 1 of all of segment 1, and of 100 tokens of segment 2.
  void Fill() {
    rows_.Reset(kLayer, shape_.dtype);
    rows_.AddSegment(segments_[0].get(), 1, kTokens);
    rows_.AddSegment(segments_[1].get(), 1, 100);
  }

  // Segment 1 can't be read any more.
  void Damage() {
    const std::string path = JoinPath(kDir, FileNameOf({.segment_id = 1}, ObjectFile::kData));
    std::vector<std::byte> damaged = files_.Contents(path);
    for (size_t at = damaged.size() / 2; at < damaged.size(); at += 1000) {
      damaged[at] ^= std::byte{8};
    }
    files_.SetContents(path, std::move(damaged));
  }

  // Expects the row that was stored.
  void ExpectRow(const kernels::RowsView& found, uint32_t run, uint32_t head, RowPart part,
                 uint64_t row) const {
    const test::HeadData& head_data = data_[run].head(1, head);
    const AlignedBuffer& expected = part == RowPart::kKeys ? head_data.k : head_data.v;
    const size_t row_bytes = found.num_elements * DTypeBytes(found.dtype);
    const auto* const bytes = static_cast<const std::byte*>(found.data);
    EXPECT_TRUE(std::equal(bytes, bytes + row_bytes, expected.data() + row * row_bytes))
        << "run " << run << ", head " << head << ", row " << row;
  }

  test::MemoryFileSystem files_;
  MemoryBudget budget_{uint64_t{1} << 30};
  Random random_{test::SeedOr(5)};
  const KvShape shape_ = test::UniformShape(DType::kFloat16, kLayers, kLayer);
  std::vector<SegmentData> data_;
  std::vector<std::shared_ptr<Segment>> segments_;
  ChainRows rows_;
};

TEST_F(ChainRowsTest, ASegmentIsReadWhenItsFirstRowIsAskedFor) {
  EXPECT_EQ(rows_.run_tokens().size(), 2u);
  EXPECT_EQ(rows_.run_tokens()[1], 100u);
  RowLease lease;
  lease.Reset(&rows_);
  const uint32_t list[] = {3, 99, 7};
  const size_t listed = lease.RequestListed({1, 1, RowPart::kValues}, list, 3);
  const size_t range = lease.Request({1, 0, RowPart::kKeys}, 10, 80);
  ATTNDB_ASSERT_OK(lease.Read());
  EXPECT_EQ(segments_[0]->resident_bytes(), 0u);
  EXPECT_GT(segments_[1]->resident_bytes(), 0u);
  for (size_t i = 0; i < 3; ++i) {
    const ListedRows rows = lease.Listed(listed);
    ExpectRow(kernels::RowsFrom(rows.rows, rows.list[i]), 1, 1, RowPart::kValues, list[i]);
  }
  uint64_t num_rows = 0;
  for (uint64_t row = 0; row < 80; ++row) {
    ExpectRow(lease.Piece(range, row, &num_rows), 1, 0, RowPart::kKeys, 10 + row);
  }
  // The other one's turn, by a lease that is used again.
  lease.Clear();
  const size_t other = lease.Request({0, 1, RowPart::kKeys}, 299, 1);
  ATTNDB_ASSERT_OK(lease.Read());
  ExpectRow(lease.Piece(other, 0, &num_rows), 0, 1, RowPart::kKeys, 299);
  EXPECT_GT(segments_[0]->resident_bytes(), 0u);
  EXPECT_FALSE(rows_.TakeFailure());
}

TEST_F(ChainRowsTest, WhatIsFilledAnewHasNoRowsOfBefore) {
  RowLease lease;
  lease.Reset(&rows_);
  lease.Request({0, 0, RowPart::kKeys}, 0, 1);
  ATTNDB_ASSERT_OK(lease.Read());
  lease.Clear();
  rows_.Reset(kLayer, shape_.dtype);
  rows_.AddSegment(segments_[1].get(), 1, kTokens);  // In place of the other one.
  lease.Reset(&rows_);
  const size_t request = lease.Request({0, 0, RowPart::kKeys}, 5, 1);
  ATTNDB_ASSERT_OK(lease.Read());
  uint64_t num_rows = 0;
  const kernels::RowsView row = lease.Piece(request, 0, &num_rows);
  const std::byte* const expected = data_[1].head(1, 0).k.data();
  const size_t row_bytes = row.num_elements * DTypeBytes(row.dtype);
  const auto* const found = static_cast<const std::byte*>(row.data);
  EXPECT_TRUE(std::equal(found, found + row_bytes, expected + 5 * row_bytes));
}

TEST_F(ChainRowsTest, WhoAsksForNoRowReadsNone) {
  RowLease lease;
  lease.Reset(&rows_);
  const uint32_t list[] = {0};
  lease.RequestListed({0, 0, RowPart::kKeys}, list, 0);
  lease.Request({0, 1, RowPart::kValues}, 5, 0);
  const size_t one = lease.RequestListed({1, 0, RowPart::kKeys}, list, 1);
  ATTNDB_ASSERT_OK(lease.Read());
  EXPECT_EQ(segments_[0]->resident_bytes(), 0u);
  EXPECT_EQ(lease.requests()[0].count, 0u);
  ExpectRow(lease.Listed(one).rows, 1, 0, RowPart::kKeys, 0);
}

TEST_F(ChainRowsTest, WhatCanNotBeReadFailsWhoAsksForIt) {
  Damage();
  RowLease lease;
  lease.Reset(&rows_);
  lease.Request({1, 0, RowPart::kKeys}, 0, 10);
  ATTNDB_ASSERT_OK(lease.Read());
  for (int attempt = 0; attempt < 2; ++attempt) {
    lease.Clear();
    lease.Request({0, 0, RowPart::kKeys}, 0, 10);
    EXPECT_EQ(lease.Read().code(), StatusCode::kCorruption);
  }
  const auto failure = rows_.TakeFailure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->segment, segments_[0].get());
  EXPECT_EQ(failure->status.code(), StatusCode::kCorruption);
  EXPECT_FALSE(rows_.TakeFailure());  // Told once.
  lease.Clear();
  lease.Request({1, 1, RowPart::kValues}, 0, 10);
  ATTNDB_EXPECT_OK(lease.Read());
}

TEST_F(ChainRowsTest, ManyThreadsAskFirst) {
  for (int round = 0; round < 20; ++round) {
    Fill();
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, i] {
        RowLease lease;
        lease.Reset(&rows_);
        const size_t a = lease.Request({i % 2, i / 2, RowPart::kKeys}, 50, 1);
        const size_t b = lease.Request({1 - i % 2, i / 2, RowPart::kValues}, 50, 1);
        ATTNDB_EXPECT_OK(lease.Read());
        uint64_t num_rows = 0;
        ExpectRow(lease.Piece(a, 0, &num_rows), i % 2, i / 2, RowPart::kKeys, 50);
        ExpectRow(lease.Piece(b, 0, &num_rows), 1 - i % 2, i / 2, RowPart::kValues, 50);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(ChainRowsTest, AFailureIsForgottenWithItsRuns) {
  Damage();
  EXPECT_EQ(rows_.BringRun(0).code(), StatusCode::kCorruption);
  Fill();
  EXPECT_FALSE(rows_.TakeFailure());
}

TEST_F(ChainRowsTest, ARunThatIsBroughtIsInMemoryWhole) {
  const Strip strip = {1, 0, RowPart::kKeys};
  EXPECT_EQ(rows_.Resident(strip), nullptr);
  for (int round = 0; round < 2; ++round) {  // It is there already.
    ATTNDB_ASSERT_OK(rows_.BringRun(1));
    ExpectRow({rows_.Resident(strip), 32, 32, shape_.dtype}, 1, 0, RowPart::kKeys, 0);
  }
  EXPECT_EQ(segments_[0]->resident_bytes(), 0u);
  Damage();
  EXPECT_EQ(rows_.BringRun(0).code(), StatusCode::kCorruption);
  const auto failure = rows_.TakeFailure();
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->segment, segments_[0].get());
}

class TurnedChainRowsTest : public ChainRowsTest {
 protected:
  TurnedChainRowsTest() {
    turned_.key_turns = std::make_shared<const PositionTurns>(
        *RopeFrequencies({.layout = RopeLayout::kHalf}, kLayer.head_dim));
  }

  // A row of keys of layer 1 of a segment's data, which stands in a run of the chain.
  struct Place {
    uint32_t run = 0;
    uint64_t row = 0;
    int64_t position = 0;
  };
  // Whether the row of the chain is that of data_[0], turned to its position.
  void ExpectTurned(const Place& place, uint64_t data_row) const {
    constexpr uint32_t kHead = 1;
    RowLease lease;
    lease.Reset(&rows_);
    const size_t request = lease.Request({place.run, kHead, RowPart::kKeys}, place.row, 1);
    ATTNDB_ASSERT_OK(lease.Read());
    uint64_t num_rows = 0;
    const kernels::RowsView found = lease.Piece(request, 0, &num_rows);
    kernels::RowsView stored = found;
    stored.data = data_[0].head(1, kHead).k.data();
    const size_t row_bytes = stored.num_elements * DTypeBytes(stored.dtype);
    std::vector<std::byte> expected(row_bytes);
    TurnKeys(*turned_.key_turns, kernels::RowsFrom(stored, data_row), place.position, 1,
             expected.data());
    EXPECT_EQ(std::memcmp(found.data, expected.data(), row_bytes), 0)
        << "run " << place.run << ", row " << place.row;
  }

  LayerShape turned_ = kLayer;
};

TEST_F(TurnedChainRowsTest, KeysStandAtThePositionsOfTheirRun) {
  auto shape = std::make_shared<KvShape>(shape_);
  KvTail tail(shape, &budget_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const AppendSlot slot, tail.BeginAppend(1, kTokens));
  for (const AppendPiece& piece : slot.pieces) {
    for (uint32_t head = 0; head < kLayer.num_kv_heads; ++head) {
      const uint64_t k_bytes = KRowBytes(shape_, 1), v_bytes = VRowBytes(shape_, 1);
      std::memcpy(piece.k(head), data_[0].head(1, head).k.data() + piece.first_row * k_bytes,
                  piece.num_rows * k_bytes);
      std::memcpy(piece.v(head), data_[0].head(1, head).v.data() + piece.first_row * v_bytes,
                  piece.num_rows * v_bytes);
    }
  }
  tail.CommitAppend(1);
  rows_.Reset(turned_, shape_.dtype);
  rows_.AddSegment(segments_[0].get(), 1, kTokens);
  rows_.AddTail(tail, 1, 5000);
  ASSERT_EQ(rows_.run_tokens().size(), 3u);  // The tail has a full block, and one that is not.
  const int64_t first = data_[0].identity.first_position;
  ExpectTurned({.run = 0, .row = 7, .position = first + 7}, 7);
  ExpectTurned({.run = 1, .row = 7, .position = 5007}, 7);
  ExpectTurned({.run = 2, .row = 7, .position = 5000 + 256 + 7}, 256 + 7);

  std::vector<KvRows> heads;
  for (const test::HeadData& head : data_[0].layers[1]) {
    heads.push_back({.k = head.k.data(), .v = head.v.data(), .num_tokens = kTokens});
  }
  rows_.Reset(turned_, shape_.dtype);
  rows_.AddRun(heads);  // In place of the segment.
  ExpectTurned({.run = 0, .row = 7, .position = 7}, 7);
  rows_.Reset(turned_, shape_.dtype);
  rows_.AddTail(tail, 1, 5000);  // In place of the segment and the run.
  ExpectTurned({.run = 0, .row = 7, .position = 5007}, 7);
  rows_.Reset(turned_, shape_.dtype);
  rows_.AddSegment(segments_[0].get(), 1, kTokens);
  ExpectTurned({.run = 0, .row = 7, .position = first + 7}, 7);
}

}  // namespace
}  // namespace attndb::storage
