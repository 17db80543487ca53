// Goal:   clusters read back are those written. No bytes crash a reader, or a search of clusters
//         that the reader accepted.
// Method: written bytes are changed at random and cut short; every field is set to what it must not
//         be. Run under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/coarse/wave_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "index/clustered/clusters_test_util.h"
#include "index/coarse/coarse_test_util.h"
#include "index/coarse/wave_test_util.h"
#include "index/format_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index::test {
namespace {

using ::attndb::test::SeedOr;

constexpr size_t kNumKeys = 8400;  // Two pieces.
constexpr size_t kDim = 32;

class WaveFormatTest : public ::testing::TestWithParam<DType> {
 protected:
  WaveFormatTest()
      : keys_(GetParam(), kNumKeys, kDim, SeedOr(5), 0),
        values_(GetParam(), kNumKeys, 2 * kDim, SeedOr(6), 0),
        wave_(
            *WaveKeys::Build({.keys = keys_.keys(), .values = values_.keys(), .num_keys = kNumKeys},
                             {.cluster_keys = 64, .num_rounds = 3})),
        layout_(shape_, wave_.sums().num_clusters),
        bytes_(*AlignedBuffer::Allocate(wave_.bytes().size())) {
    std::ranges::copy(wave_.bytes(), bytes_.data());
  }

  Result<WaveKeys> Parse(std::span<const std::byte> bytes) const {
    return WaveKeys::Parse(bytes, shape_, "wave 7");
  }

  template <typename T>
  void ExpectRefused(size_t offset, T value, StatusCode code, const std::string& message) {
    attndb::test::ExpectFieldRefused(
        bytes_.data() + offset, value, [&] { return Parse(bytes_.span()).status(); }, code,
        "wave 7: " + message);
  }

  std::vector<uint32_t> SearchOf(const WaveKeys& wave) {
    const std::vector<float> none(1, -std::numeric_limits<float>::infinity());
    const IndexRun run = {.index = &wave, .keys = keys_.keys(), .num_visible = kNumKeys};
    IndexCall call;
    call.spec = {.k = 200, .logit = {0.1f}};
    call.runs = {&run, 1};
    call.q = q_.data();
    call.q_stride = kDim;
    call.num_q_rows = 1;
    call.best = none.data();
    return Search(call).tokens[0];
  }

  const DriftingHead keys_;
  const DriftingHead values_;
  const std::vector<float> q_ = DriftingHead(DType::kFloat32, 1, kDim, 9, 0).Query();
  const WaveShape shape_ = {.num_keys = kNumKeys,
                            .key_channels = kDim,
                            .value_channels = 2 * kDim,
                            .dtype = GetParam(),
                            .cluster_keys = 64};
  const WaveKeys wave_;
  const WaveLayout layout_;
  AlignedBuffer bytes_;
};

TEST_P(WaveFormatTest, WhatIsReadBackIsSearchedTheSame) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WaveKeys parsed, Parse(bytes_.span()));
  EXPECT_EQ(parsed.num_keys(), kNumKeys);
  EXPECT_EQ(parsed.memory_bytes(), 0u);
  EXPECT_EQ(parsed.bytes().data(), bytes_.data());
  EXPECT_LE(bytes_.size(), shape_.max_bytes());
  EXPECT_EQ(SearchOf(parsed), SearchOf(wave_));
}

TEST_P(WaveFormatTest, MeansAreThoseOfTheirKeysAndValues) {
  const ClusterSums& sums = wave_.sums();
  const double error = GetParam() == DType::kBFloat16 ? 0.005 : 0.0006;
  std::vector<bool> seen(kNumKeys);
  for (size_t c = 0; c < sums.num_clusters; ++c) {
    const std::vector<size_t> keys = KeysOf(sums, c);
    ASSERT_FALSE(keys.empty());
    for (const size_t key : keys) {
      EXPECT_FALSE(seen[key]);
      seen[key] = true;
      EXPECT_EQ(sums.ClusterOf(key), c);
      EXPECT_EQ(key / ClusterSums::kPieceKeys, keys[0] / ClusterSums::kPieceKeys);
    }
    for (const auto& [rows, means] :
         {std::pair{keys_.keys(), sums.keys}, std::pair{values_.keys(), sums.values}}) {
      const std::vector<double> mean = MeanOf(rows, keys);
      const std::vector<double> row = RowOf(means, c);
      for (size_t d = 0; d < mean.size(); ++d) {
        EXPECT_NEAR(row[d], mean[d], error * std::abs(mean[d]) + 1e-6);
      }
    }
  }
  EXPECT_EQ(std::ranges::count(seen, true), static_cast<std::ptrdiff_t>(kNumKeys));
}

TEST_P(WaveFormatTest, EveryFieldIsChecked) {
  const StatusCode corrupt = StatusCode::kCorruption;
  const auto num_clusters = static_cast<uint32_t>(wave_.sums().num_clusters);
  ExpectRefused<uint8_t>(0, 'A', corrupt, "magic: expected");
  ExpectRefused<uint32_t>(8, 2, StatusCode::kUnsupported, "version: expected 1, found 2");
  ExpectRefused<uint32_t>(12, 64, corrupt, "key_channels: expected 32, found 64");
  ExpectRefused<uint64_t>(16, kNumKeys + 1, corrupt, "num_keys: expected 8400, found 8401");
  ExpectRefused<uint64_t>(16, UINT64_MAX, corrupt, "num_keys: expected 8400");
  ExpectRefused<uint32_t>(24, 32, corrupt, "value_channels: expected 64, found 32");
  ExpectRefused<uint32_t>(28, 0, corrupt, "cluster_keys: expected 64, found 0");
  ExpectRefused<uint32_t>(32, UINT32_MAX, corrupt, "num_clusters: expected at most 132");
  ExpectRefused<uint32_t>(32, num_clusters - 20, corrupt, "bytes: expected");
  ExpectRefused<uint32_t>(32, 0, corrupt, "bytes: expected");
  ExpectRefused<uint32_t>(36, 9, corrupt, "dtype: expected");
  ExpectRefused<uint8_t>(63, 1, corrupt, "reserved byte at offset 63: expected 0, found 1");
  ExpectRefused<uint32_t>(layout_.first_clusters, 1, corrupt, "first_clusters[0]: expected 0");
  ExpectRefused<uint32_t>(layout_.first_clusters + 4, 0, corrupt, "first_clusters[1]: expected");
  ExpectRefused<uint32_t>(layout_.ends, 0, corrupt, "ends[0]: expected a place above 0");
  ExpectRefused<uint32_t>(layout_.ends, UINT32_MAX, corrupt, "ends[0]: expected");
  ExpectRefused<uint16_t>(layout_.order, UINT16_MAX, corrupt, "order[0]: expected a key");
  ExpectRefused<uint16_t>(layout_.numbers, UINT16_MAX, corrupt,
                          "cluster of key[0]: expected 0, found 65535");
  // The upper half of a float32, or a value of 16 bits: its exponent says NaN or infinity.
  for (const uint32_t bad : {0x7fffu, 0xffffu, 0x7f80u}) {
    ExpectRefused(layout_.keys + 6, static_cast<uint16_t>(bad), corrupt, "means[");
    ExpectRefused(layout_.values + 6, static_cast<uint16_t>(bad), corrupt, "means[");
  }
  ATTNDB_EXPECT_OK(Parse(bytes_.span()));
}

TEST_P(WaveFormatTest, OtherLengthsAreRefused) {
  attndb::test::ExpectCutsRefused(
      bytes_.span(), 977, [&](std::span<const std::byte> cut) { return Parse(cut).status(); });
}

TEST_P(WaveFormatTest, NoBytesCrashAReader) {
  Random random(SeedOr(6));
  size_t num_read = 0;
  for (int round = 0; round < 1000; ++round) {
    const size_t most = random.OneIn(2) ? bytes_.size() : layout_.keys;
    const size_t at = random.Uniform(random.OneIn(4) ? kWaveHeaderBytes : most);
    const std::byte before = bytes_.data()[at];
    bytes_.data()[at] = static_cast<std::byte>(random.Next());
    const Result<WaveKeys> parsed = Parse(bytes_.span());
    if (parsed.ok()) {
      ++num_read;
      EXPECT_EQ(SearchOf(*parsed).size(), 200u);
    }
    bytes_.data()[at] = before;
  }
  EXPECT_GT(num_read, 100u);
  EXPECT_LT(num_read, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Types, WaveFormatTest,
                         ::testing::Values(DType::kFloat16, DType::kBFloat16, DType::kFloat32));

}  // namespace
}  // namespace attndb::index::test
