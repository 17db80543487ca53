// Goal:   summaries read back are those written. No bytes crash a reader, or a search of summaries
//         that the reader accepted.
// Method: written bytes are changed at random and cut short; every field is set to what it must not
//         be. Run under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/coarse/block_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "index/coarse/coarse_test_util.h"
#include "index/format_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

constexpr size_t kNumKeys = 150;
constexpr size_t kDim = 32;

struct Case {
  const char* name;
  DType dtype;
  BlockForm form;
};

class BlockFormatTest : public ::testing::TestWithParam<Case> {
 protected:
  BlockFormatTest()
      : head_(GetParam().dtype, kNumKeys, kDim, SeedOr(5)),
        q_(head_.Query(2)),
        keys_(head_.Build(GetParam().form)),
        bytes_(*AlignedBuffer::Allocate(keys_.bytes().size())) {
    std::ranges::copy(keys_.bytes(), bytes_.data());
  }

  Result<BlockKeys> Parse(std::span<const std::byte> bytes) const {
    return BlockKeys::Parse(bytes, head_.shape(GetParam().form), "blocks 7");
  }

  template <typename T>
  void ExpectRefused(size_t offset, T value, StatusCode code, const std::string& message) {
    attndb::test::ExpectFieldRefused(
        bytes_.data() + offset, value, [&] { return Parse(bytes_.span()).status(); }, code,
        "blocks 7: " + message);
  }

  DriftingHead head_;
  const std::vector<float> q_;
  const BlockKeys keys_;
  AlignedBuffer bytes_;
};

TEST_P(BlockFormatTest, WhatIsReadBackScoresTheSame) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BlockKeys parsed, Parse(bytes_.span()));
  EXPECT_EQ(parsed.num_keys(), kNumKeys);
  EXPECT_EQ(parsed.memory_bytes(), 0u);
  EXPECT_EQ(parsed.bytes().data(), bytes_.data());
  EXPECT_EQ(ScoreAll(parsed, q_), ScoreAll(keys_, q_));
}

TEST_P(BlockFormatTest, EveryFieldIsChecked) {
  const StatusCode corrupt = StatusCode::kCorruption;
  ExpectRefused<uint8_t>(0, 'A', corrupt, "magic: expected");
  ExpectRefused<uint32_t>(8, 2, StatusCode::kUnsupported, "version: expected 1, found 2");
  ExpectRefused<uint32_t>(12, 64, corrupt, "num_channels: expected 32, found 64");
  ExpectRefused<uint64_t>(16, kNumKeys + 1, corrupt, "num_keys: expected 150, found 151");
  ExpectRefused<uint64_t>(16, UINT64_MAX, corrupt, "num_keys: expected 150");
  ExpectRefused<uint32_t>(24, 3, corrupt, "summary: expected");
  ExpectRefused<uint32_t>(28, 0, corrupt, "block_keys: expected");
  ExpectRefused<uint32_t>(32, 77, corrupt, "num_representatives: expected");
  ExpectRefused<uint32_t>(36, 9, corrupt, "key_dtype: expected");
  ExpectRefused<uint8_t>(63, 1, corrupt, "reserved byte at offset 63: expected 0, found 1");
  // The upper half of a float32, or a value of 16 bits: its exponent says NaN or infinity.
  for (const uint32_t bad : {0x7fffu, 0xffffu, 0x7f80u}) {
    ExpectRefused(kBlocksHeaderBytes + 6, static_cast<uint16_t>(bad), corrupt, "rows[");
  }
  ATTNDB_EXPECT_OK(Parse(bytes_.span()));
}

TEST_P(BlockFormatTest, OtherLengthsAreRefused) {
  attndb::test::ExpectCutsRefused(
      bytes_.span(), 97, [&](std::span<const std::byte> cut) { return Parse(cut).status(); });
}

TEST_P(BlockFormatTest, NoBytesCrashAReader) {
  Random random(SeedOr(6));
  size_t num_read = 0;
  for (int round = 0; round < 3000; ++round) {
    const size_t at = random.Uniform(random.OneIn(4) ? kBlocksHeaderBytes : bytes_.size());
    const std::byte before = bytes_.data()[at];
    bytes_.data()[at] = static_cast<std::byte>(random.Next());
    const Result<BlockKeys> parsed = Parse(bytes_.span());
    if (parsed.ok()) {
      ++num_read;
      EXPECT_EQ(ScoreAll(*parsed, q_).size(), 2 * parsed->shape().num_blocks());
    }
    bytes_.data()[at] = before;
  }
  EXPECT_GT(num_read, 500u);
  EXPECT_LT(num_read, 3000u);
}

constexpr BlockForm kPages = {.summary = BlockSummary::kBounds, .block_keys = 16};
constexpr BlockForm kRepresented = {
    .summary = BlockSummary::kRepresentatives, .block_keys = 32, .num_representatives = 4};

INSTANTIATE_TEST_SUITE_P(Forms, BlockFormatTest,
                         ::testing::Values(Case{"Bounds16", DType::kFloat16, kPages},
                                           Case{"BoundsBf16", DType::kBFloat16, kPages},
                                           Case{"Bounds32", DType::kFloat32, kPages},
                                           Case{"Representatives", DType::kFloat16, kRepresented}),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace attndb::index::test
