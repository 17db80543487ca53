// Goal:   a block of a tail gives its joined rows, with keys turned to their positions.
// Method: a tail of joined tokens with one layer whose keys are stored without RoPE.
// Replay: --gtest_random_seed or ATTNDB_SEED.
#include "storage/kv/tail_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/position_turns.h"
#include "common/random.h"
#include "common/rope_frequencies.h"
#include "storage/kv/chain_source.h"
#include "storage/kv/kv_layout.h"
#include "storage/kv/turned_keys.h"
#include "testing/kv_data.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

constexpr int64_t kFirst = 1000;
constexpr uint64_t kTokens = KvTail::kJoinedTokens;

class TailBlockTest : public ::testing::Test {
 protected:
  TailBlockTest() {
    for (LayerId layer = 0; layer < 2; ++layer) {
      Append(layer);
      ATTNDB_EXPECT_OK(tail_.Join(layer));
    }
  }

  // Layer 0 has keys without RoPE.
  static std::shared_ptr<const KvShape> Shape() {
    KvShape shape{.dtype = DType::kFloat16,
                  .layers = {{.num_kv_heads = 2, .head_dim = 32, .v_head_dim = 16},
                             {.num_kv_heads = 1, .head_dim = 32, .v_head_dim = 16}}};
    shape.layers[0].key_turns =
        std::make_shared<const PositionTurns>(*RopeFrequencies({.layout = RopeLayout::kHalf}, 32));
    return std::make_shared<const KvShape>(std::move(shape));
  }

  // The same rows for each head.
  void Append(LayerId layer) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const AppendSlot slot, tail_.BeginAppend(layer, kTokens));
    const uint64_t k_bytes = KRowBytes(*shape_, layer), v_bytes = VRowBytes(*shape_, layer);
    for (const AppendPiece& piece : slot.pieces) {
      for (uint32_t head = 0; head < shape_->layers[layer].num_kv_heads; ++head) {
        std::memcpy(piece.k(head), keys_.data() + piece.first_row * k_bytes,
                    piece.num_rows * k_bytes);
        std::memcpy(piece.v(head), values_.data() + piece.first_row * v_bytes,
                    piece.num_rows * v_bytes);
      }
    }
    tail_.CommitAppend(layer);
  }

  Random random_{test::SeedOr(45)};
  const AlignedBuffer keys_ = test::RandomRows({DType::kFloat16, kTokens, 32}, &random_);
  const AlignedBuffer values_ = test::RandomRows({DType::kFloat16, kTokens, 16}, &random_);
  const std::shared_ptr<const KvShape> shape_ = Shape();
  MemoryBudget budget_{uint64_t{1} << 30};
  KvTail tail_{shape_, &budget_};
  TailBlock block_{shape_, kFirst};
};

TEST_F(TailBlockTest, SaysWhatItIs) {
  EXPECT_EQ(block_.num_tokens(), kTokens);
  EXPECT_EQ(block_.first_position(), kFirst);
  EXPECT_FALSE(block_.is_sealed());
  EXPECT_EQ(&block_.shape(), shape_.get());
  const TailBlock other(shape_, kFirst);
  EXPECT_NE(block_.id(), other.id());
  for (const uint64_t id : {block_.id(), other.id()}) EXPECT_NE(id >> 63, 0u);  // No segment's.
}

TEST_F(TailBlockTest, LayersAreThereOnceTheyAreAdded) {
  EXPECT_FALSE(block_.HasLayer(0));
  block_.AddLayer(0, tail_.joined(0, 0), {false, true});
  EXPECT_TRUE(block_.HasLayer(0));
  EXPECT_FALSE(block_.HasLayer(1));
  EXPECT_FALSE(block_.non_finite(0, 0));
  EXPECT_TRUE(block_.non_finite(0, 1));
  EXPECT_DEATH(block_.AddLayer(0, tail_.joined(0, 0), {false, true}), "HasLayer");
  EXPECT_DEATH(block_.AddLayer(1, {}, {}), "tokens.rows.empty");
}

TEST_F(TailBlockTest, KeysWithoutRopeComeTurnedAndOtherRowsAsTheyAre) {
  block_.AddLayer(0, tail_.joined(0, 0), {false, false});
  block_.AddLayer(1, tail_.joined(1, 0), {false});
  std::vector<std::byte> turned(keys_.size());
  const LayerShape& shape = shape_->layers[0];
  TurnKeys(*shape.key_turns, RowFormats(shape, shape_->dtype).At(RowPart::kKeys, keys_.data()),
           kFirst, kTokens, turned.data());
  for (uint32_t head = 0; head < 2; ++head) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const HeadRows keys, block_.ReadRows(0, head, RowPart::kKeys));
    EXPECT_EQ(std::memcmp(keys.data(), turned.data(), turned.size()), 0);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const HeadRows values, block_.ReadRows(0, head, RowPart::kValues));
    EXPECT_EQ(std::memcmp(values.data(), values_.data(), values_.size()), 0);
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const HeadRows keys, block_.ReadRows(1, 0, RowPart::kKeys));
  EXPECT_EQ(std::memcmp(keys.data(), keys_.data(), keys_.size()), 0);
}

TEST_F(TailBlockTest, HasNoSampledQueries) {
  EXPECT_THAT(block_.ReadQueries(1), FailsWith(StatusCode::kNotFound, HasSubstr("layer 1")));
}

}  // namespace
}  // namespace attndb::storage
