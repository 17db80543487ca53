// Goal:   planes read back are the planes written. No bytes crash a reader, or a scan of planes
//         that the reader accepted.
// Method: written parts are changed at random and cut short; every field is set to what it must not
//         be. Run under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/planes/plane_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/random.h"
#include "index/format_test_util.h"
#include "index/planes/key_planes.h"
#include "kernels/weights.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

constexpr size_t kNumKeys = 150;
constexpr size_t kDim = 32;

class PlaneFormatTest : public ::testing::Test {
 protected:
  PlaneFormatTest() {
    AlignedBuffer rows = *AlignedBuffer::Allocate(kNumKeys * kDim * sizeof(float));
    auto* const keys = reinterpret_cast<float*>(rows.data());
    for (size_t i = 0; i < kNumKeys * kDim; ++i) {
      keys[i] = static_cast<float>(random_.NextGaussian()) + 3.0f;
    }
    planes_ = *KeyPlanes::Build({keys, kDim, kDim, DType::kFloat32}, kNumKeys);
    main_ = Copy(planes_.parts().main);
    low_ = Copy(planes_.parts().low);
  }

  static AlignedBuffer Copy(std::span<const std::byte> bytes) {
    AlignedBuffer copy = *AlignedBuffer::Allocate(bytes.size());
    std::ranges::copy(bytes, copy.data());
    return copy;
  }

  Result<KeyPlanes> Parse() const { return Parse({main_.span(), low_.span()}); }

  static Result<KeyPlanes> Parse(const PlaneParts& parts) {
    return KeyPlanes::Parse(parts, {kNumKeys, kDim}, "planes 7");
  }

  template <typename T>
  void Put(size_t offset, T value) {
    std::memcpy(main_.data() + offset, &value, sizeof(T));
  }

  // Puts `value`, expects an error of this kind that says `message`, and restores the old value.
  template <typename T>
  void ExpectRefused(size_t offset, T value, StatusCode code, const std::string& message) {
    attndb::test::ExpectFieldRefused(
        main_.data() + offset, value, [&] { return Parse().status(); }, code,
        "planes 7: " + message);
  }

  // Scores and bounds of one q, of all keys.
  static std::vector<float> ScanAll(const KeyPlanes& planes, uint32_t bits) {
    AlignedBuffer q = *AlignedBuffer::Allocate(3 * kernels::kMaxRowElements * sizeof(float));
    static_assert(QueryCodeBytes(kernels::kMaxRowElements) <= 4 * kernels::kMaxRowElements);
    auto* const rows = reinterpret_cast<float*>(q.data());
    for (size_t d = 0; d < kDim; ++d) rows[d] = std::sin(static_cast<float>(d));
    const EstimateQuery query =
        planes.Prepare(rows, rows + kernels::kMaxRowElements,
                       reinterpret_cast<std::byte*>(rows + 2 * kernels::kMaxRowElements));
    std::vector<float> scores(planes.num_keys());
    planes.Scan(bits, 0, scores.size(), &query, 1, scores.data(), scores.size());
    std::vector<float> bounds(kernels::NumWeightBlocks(scores.size()));
    planes.ScoreBounds(bits, query, 0, bounds.size(), bounds.data());
    scores.insert(scores.end(), bounds.begin(), bounds.end());
    return scores;
  }

  Random random_{test::SeedOr(71)};
  KeyPlanes planes_;
  AlignedBuffer main_, low_;
};

TEST_F(PlaneFormatTest, WhatIsReadBackScoresTheSame) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const KeyPlanes parsed, Parse());
  EXPECT_EQ(parsed.num_keys(), kNumKeys);
  EXPECT_EQ(parsed.transform(), planes_.transform());
  EXPECT_EQ(parsed.memory_bytes(), 0u);
  EXPECT_EQ(parsed.parts().main.data(), main_.data());
  for (const uint32_t bits : {4u, 8u}) {
    EXPECT_EQ(ScanAll(parsed, bits), ScanAll(planes_, bits));
    EXPECT_EQ(parsed.ScoreError(bits, 2.0f), planes_.ScoreError(bits, 2.0f));
  }
}

TEST_F(PlaneFormatTest, EveryFieldIsChecked) {
  const StatusCode corrupt = StatusCode::kCorruption;
  ExpectRefused<uint8_t>(0, 'A', corrupt, "magic: expected");
  for (const uint32_t version : {2u, 4u}) {
    ExpectRefused<uint32_t>(8, version, StatusCode::kUnsupported, "version: expected 3, found");
  }
  for (const uint32_t channels : {0u, 17u, 2048u, 0xfffffff0u}) {
    ExpectRefused<uint32_t>(12, channels, corrupt, "num_channels: expected a multiple of 16");
  }
  ExpectRefused<uint32_t>(12, 64, corrupt, "num_channels: expected 32, found 64");
  ExpectRefused<uint64_t>(16, 0, corrupt, "num_keys: expected 1 or more, found 0");
  ExpectRefused<uint64_t>(16, UINT64_MAX, corrupt, "num_keys: expected at most");
  ExpectRefused<uint64_t>(16, kNumKeys + 1, corrupt, "num_keys: expected 150, found 151");
  for (const uint32_t transform : {0u, 3u, 7u, 999u}) {
    ExpectRefused<uint32_t>(32, transform, StatusCode::kUnsupported, "transform: expected 4 to 6");
  }
  ExpectRefused<uint32_t>(36, kDim / 2 + 1, corrupt, "num_pairs: expected at most 16, found 17");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -1.0f}) {
    ExpectRefused(40, bad, corrupt, "statistics[0]: expected");
    ExpectRefused(44, bad, corrupt, "statistics[1]: expected");
    ExpectRefused(48, bad, corrupt, "statistics[2]: expected");
  }
  ExpectRefused<uint8_t>(63, 1, corrupt, "reserved byte at offset 63: expected 0, found 1");
  const PlaneLayout layout(kNumKeys, kDim, planes_.transform());
  for (const float bad : {nan, inf, -inf}) {
    ExpectRefused(layout.mean + 8, bad, corrupt, "mean[2]: expected a finite number");
    ExpectRefused(layout.bias, bad, corrupt, "bias[0]: expected a finite number");
  }
  for (const float bad : {nan, inf, -1.0f}) {
    ExpectRefused(layout.bounds + 4, bad, corrupt, "bounds[1]: expected");
    ExpectRefused(layout.channel_scale + 4, bad, corrupt, "channel_scale[1]: expected a positive");
  }
  ExpectRefused(layout.channel_scale, 0.0f, corrupt, "channel_scale[0]: expected a positive");
  for (const double bad : {double{nan}, -0.5, 1.5, double{inf}}) {
    ExpectRefused(layout.frequency, bad, corrupt, "frequency[0]: expected 0 to");
  }
  ExpectRefused(layout.block_means, uint16_t{0x7f80}, corrupt, "block_means[0]: expected");
  for (const int bad : {0x7f80, 0x7fc0, 0x8000, 0xbf80}) {
    ExpectRefused(layout.scales + 2, static_cast<uint16_t>(bad), corrupt, "scales[1]: expected");
  }
  ATTNDB_EXPECT_OK(Parse());
}

TEST_F(PlaneFormatTest, PartsOfOtherLengthsAreRefused) {
  const PlaneParts whole = {main_.span(), low_.span()};
  for (size_t size = 0; size < whole.main.size(); size += size < 200 ? 1 : 97) {
    const Status status = Parse({whole.main.first(size), whole.low}).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size;
  }
  for (const size_t size : {size_t{0}, whole.low.size() - 1}) {
    const Status status = Parse({whole.main, whole.low.first(size)}).status();
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << size;
  }
}

TEST_F(PlaneFormatTest, NoBytesCrashAReader) {
  size_t num_read = 0;
  for (int round = 0; round < 20000; ++round) {
    // Mostly in the numbers in front of the planes.
    const size_t span = random_.OneIn(4) ? main_.size() : kPlanesHeaderBytes + 4 * 3 * kDim;
    const size_t at = random_.Uniform(span);
    const std::byte before = main_.data()[at];
    main_.data()[at] = static_cast<std::byte>(random_.Next());
    const Result<KeyPlanes> parsed = Parse();
    if (parsed.ok()) {
      ++num_read;
      EXPECT_EQ(ScanAll(*parsed, random_.OneIn(2) ? 4 : 8).size(), kNumKeys + 3);
    }
    main_.data()[at] = before;
  }
  EXPECT_GT(num_read, 1000u);
  EXPECT_LT(num_read, 20000u);
}

}  // namespace
}  // namespace attndb::index
