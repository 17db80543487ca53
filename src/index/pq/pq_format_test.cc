// Goal:   codes read back are the codes written. No bytes crash a reader, or a scan of codes that
//         the reader accepted.
// Method: written bytes are changed at random and cut short; every field is set to what it must not
//         be. Run under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/pq/pq_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "index/format_test_util.h"
#include "index/pq/pq_test_util.h"
#include "kernels/weights.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

constexpr size_t kNumKeys = 150;
constexpr size_t kDim = 32;

class PqFormatTest : public ::testing::Test {
 protected:
  PqFormatTest() : q_(Gaussians(2 * kDim, 1.0, &random_)) { Use(6); }

  void Use(size_t bits) {
    keys_ = *PqKeys::Build(TopicRows(kNumKeys, kDim, &random_).source(),
                           {.num_subspaces = 4, .bits = bits});
    bytes_ = *AlignedBuffer::Allocate(keys_.bytes().size());
    std::ranges::copy(keys_.bytes(), bytes_.data());
  }

  static Result<PqKeys> Parse(std::span<const std::byte> bytes) {
    return PqKeys::Parse(bytes, {kNumKeys, kDim}, "codes 7");
  }

  template <typename T>
  void ExpectRefused(size_t offset, T value, StatusCode code, const std::string& message) {
    attndb::test::ExpectFieldRefused(
        bytes_.data() + offset, value, [&] { return Parse(bytes_.span()).status(); }, code,
        "codes 7: " + message);
  }

  // Scores and bounds of two q rows.
  std::vector<float> ScanKeys(const PqKeys& keys) const {
    std::vector<float> all = ScanAll(keys, q_, kDim);
    const Prepared prepared(keys, q_, kDim);
    std::vector<float> bounds(kernels::NumWeightBlocks(kNumKeys));
    keys.ScoreBounds(prepared.queries, 1, 0, bounds.size(), bounds.data());
    all.insert(all.end(), bounds.begin(), bounds.end());
    return all;
  }

  Random random_{SeedOr(31)};
  std::vector<float> q_;
  PqKeys keys_;
  AlignedBuffer bytes_;
};

TEST_F(PqFormatTest, WhatIsReadBackScoresTheSame) {
  for (const size_t bits : {4u, 6u, 8u}) {
    Use(bits);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const PqKeys parsed, Parse(bytes_.span()));
    EXPECT_EQ(parsed.num_keys(), kNumKeys);
    EXPECT_EQ(parsed.memory_bytes(), 0u);
    EXPECT_EQ(parsed.bytes().data(), bytes_.data());
    EXPECT_EQ(parsed.ScoreError(2.0f), keys_.ScoreError(2.0f));
    EXPECT_EQ(ScanKeys(parsed), ScanKeys(keys_));
  }
}

TEST_F(PqFormatTest, EveryFieldIsChecked) {
  const StatusCode corrupt = StatusCode::kCorruption;
  ExpectRefused<uint8_t>(0, 'A', corrupt, "magic: expected");
  ExpectRefused<uint32_t>(8, 2, StatusCode::kUnsupported, "version: expected 1, found 2");
  for (const uint32_t channels : {0u, 34u, 2048u, 0xfffffff0u}) {
    ExpectRefused<uint32_t>(12, channels, corrupt, "num_channels: expected a multiple of 4");
  }
  ExpectRefused<uint32_t>(12, 64, corrupt, "num_channels: expected 32, found 64");
  ExpectRefused<uint64_t>(16, 0, corrupt, "num_keys: expected 1 or more, found 0");
  ExpectRefused<uint64_t>(16, UINT64_MAX, corrupt, "num_keys: expected at most");
  ExpectRefused<uint64_t>(16, kNumKeys + 1, corrupt, "num_keys: expected 150, found 151");
  for (const uint32_t num_subspaces : {0u, 1u, 5u, 64u, 0x80000000u}) {
    ExpectRefused<uint32_t>(24, num_subspaces, corrupt, "num_subspaces and bits: expected");
  }
  ExpectRefused<uint32_t>(24, 8, corrupt, "bytes: expected");
  for (const uint32_t bits : {0u, 5u, 32u, 70u}) {
    ExpectRefused<uint32_t>(28, bits, corrupt, "num_subspaces and bits: expected");
  }
  ExpectRefused<uint32_t>(28, 8, corrupt, "bytes: expected");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -1.0f}) {
    ExpectRefused(32, bad, corrupt, "error[0]: expected");
  }
  ExpectRefused<uint8_t>(63, 1, corrupt, "reserved byte at offset 63: expected 0, found 1");
  PqHeader header;
  header.num_keys = kNumKeys;
  header.num_channels = kDim;
  header.num_subspaces = 4;
  header.bits = 6;
  const PqLayout layout(header);
  for (const float bad : {nan, inf, -inf}) {
    ExpectRefused(layout.centroids + 8, bad, corrupt, "centroids[2]: expected a finite number");
  }
  for (const float bad : {nan, inf, -1.0f}) {
    ExpectRefused(layout.bounds + 4, bad, corrupt, "bounds[1]: expected");
  }
  ExpectRefused<uint8_t>(layout.codes + 100, 64, corrupt,
                         "codes[100]: expected below 64, found 64");
  ATTNDB_EXPECT_OK(Parse(bytes_.span()));
}

TEST_F(PqFormatTest, OtherLengthsAreRefused) {
  attndb::test::ExpectCutsRefused(
      bytes_.span(), 97, [&](std::span<const std::byte> cut) { return Parse(cut).status(); });
}

TEST_F(PqFormatTest, NoBytesCrashAReader) {
  size_t num_read = 0;
  for (int round = 0; round < 5000; ++round) {
    if (round % 1000 == 0) Use(round == 0 ? 4 : round == 1000 ? 8 : 6);
    const size_t span = random_.OneIn(4) ? kPqHeaderBytes : bytes_.size();
    const size_t at = random_.Uniform(span);
    const std::byte before = bytes_.data()[at];
    bytes_.data()[at] = static_cast<std::byte>(random_.Next());
    const Result<PqKeys> parsed = Parse(bytes_.span());
    if (parsed.ok()) {
      ++num_read;
      EXPECT_EQ(ScanKeys(*parsed).size(), 2 * kNumKeys + 3);
    }
    bytes_.data()[at] = before;
  }
  EXPECT_GT(num_read, 500u);
  EXPECT_LT(num_read, 5000u);
}

}  // namespace
}  // namespace attndb::index::test
