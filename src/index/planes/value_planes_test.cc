// Goal:   value planes stand for the values they were made of, read back they are the planes
//         written, and no bytes, however they were made, crash a reader or a sum of what it let
//         through.
// Method: written bytes are changed at random and cut short; every field is set to what it must not
//         be. Run under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/planes/value_planes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

constexpr size_t kNumTokens = 150;
constexpr size_t kDim = 32;
constexpr uint32_t kAllBits[] = {0, 8};

class ValuePlanesFormTest : public ::testing::Test {
 protected:
  ValuePlanesFormTest() {
    for (float& value : rows_) value = static_cast<float>(random_.NextGaussian()) + 3.0f;
  }

  kernels::RowsView Rows() const { return {rows_.data(), kDim, kDim, DType::kFloat32}; }

  static AlignedBuffer Copy(std::span<const std::byte> bytes) {
    AlignedBuffer copy = *AlignedBuffer::Allocate(bytes.size());
    std::ranges::copy(bytes, copy.data());
    return copy;
  }

  static Result<ValuePlanes> Parse(const AlignedBuffer& bytes, uint32_t bits) {
    return ValuePlanes::Parse(bytes.span(), {kNumTokens, kDim, bits}, "values 7");
  }

  // The mean of all values: of the blocks' means, and of codes where there are some.
  static std::vector<float> MeanOf(const ValuePlanes& planes) {
    std::vector<float> out(kDim, 0.0f);
    if (planes.view().bits == 0) {
      for (size_t first = 0; first < kNumTokens; first += kernels::kValueBlock) {
        const auto count = std::min(kernels::kValueBlock, kNumTokens - first);
        kernels::AddValueMean(planes.view(), first / kernels::kValueBlock,
                              static_cast<float>(count) / kNumTokens, out.data());
      }
      return out;
    }
    std::vector<uint32_t> tokens(kNumTokens);
    std::iota(tokens.begin(), tokens.end(), 0u);
    const std::vector<float> scores(kNumTokens, 0.0f);
    float max = -std::numeric_limits<float>::infinity();
    float sum = 0;
    kernels::AttendCoded(scores.data(), kNumTokens, 1, planes.view(), tokens.data(), kNumTokens,
                         {1.0f}, {&max, &sum, out.data(), kDim});
    for (float& x : out) x /= sum;
    return out;
  }

  Random random_{test::SeedOr(17)};
  std::vector<float> rows_ = std::vector<float>(kNumTokens * kDim);
};

TEST_F(ValuePlanesFormTest, ReadBackAreWhatWasWritten) {
  std::vector<double> mean(kDim);
  for (size_t i = 0; i < rows_.size(); ++i) mean[i % kDim] += double{rows_[i]} / kNumTokens;
  for (const uint32_t bits : kAllBits) {
    const ValuePlanes planes = *ValuePlanes::Build(Rows(), kNumTokens, bits);
    EXPECT_EQ(planes.num_tokens(), kNumTokens);
    EXPECT_EQ(planes.bytes().size(), ValuePlanes::BytesFor({kNumTokens, kDim, bits}));
    const AlignedBuffer copy = Copy(planes.bytes());
    const ValuePlanes read = *Parse(copy, bits);
    const std::vector<float> sums = MeanOf(planes);
    EXPECT_EQ(MeanOf(read), sums);
    for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(sums[d], mean[d], 0.06) << bits << " " << d;
  }
}

TEST_F(ValuePlanesFormTest, TokensWithoutValuesAndOverflowHaveNone) {
  EXPECT_EQ(ValuePlanes::Build(Rows(), 0, 8)->num_tokens(), 0u);
  rows_[100] = std::numeric_limits<float>::max();
  for (const uint32_t bits : kAllBits) {
    EXPECT_EQ(ValuePlanes::Build(Rows(), kNumTokens, bits)->num_tokens(), 0u) << bits;
  }
}

TEST_F(ValuePlanesFormTest, EightBitsAreNotKeptWhereOneValueLeavesTheOthersFewSteps) {
  rows_[100] = 1000.0f;
  for (const uint32_t bits : kAllBits) {
    const bool has_planes = ValuePlanes::Build(Rows(), kNumTokens, bits)->num_tokens() > 0;
    EXPECT_EQ(has_planes, bits != 8) << bits;
  }
}

TEST_F(ValuePlanesFormTest, ReadersRefuseWhatDoesNotFit) {
  const ValuePlanes planes = *ValuePlanes::Build(Rows(), kNumTokens, 8);
  const auto expect_refused = [&](size_t offset, auto value, StatusCode code,
                                  const std::string& message) {
    AlignedBuffer bytes = Copy(planes.bytes());
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    const Status status = Parse(bytes, 8).status();
    EXPECT_EQ(status.code(), code) << message;
    EXPECT_THAT(status.message(), ::testing::StartsWith("values 7: " + message));
  };
  expect_refused(0, 'x', StatusCode::kCorruption, "magic");
  expect_refused(8, uint32_t{2}, StatusCode::kUnsupported, "version");
  expect_refused(12, uint32_t{48}, StatusCode::kCorruption, "num_elements: expected 32, found 48");
  expect_refused(16, uint64_t{1} << 60, StatusCode::kCorruption, "num_tokens: expected 150");
  expect_refused(24, uint32_t{4}, StatusCode::kCorruption, "bits: expected 8, found 4");
  expect_refused(28, uint8_t{1}, StatusCode::kCorruption, "reserved");
  expect_refused(64, std::numeric_limits<float>::infinity(), StatusCode::kCorruption, "scales[0]");
  expect_refused(68, -1.0f, StatusCode::kCorruption, "scales[1]");
  expect_refused(128, -1.0f, StatusCode::kCorruption, "norms[0]");
  expect_refused(192, uint16_t{0x7fc0}, StatusCode::kCorruption, "means[0]");
  EXPECT_EQ(Parse(Copy(planes.bytes().first(planes.bytes().size() - 1)), 8).status().code(),
            StatusCode::kCorruption);
}

TEST_F(ValuePlanesFormTest, NoBytesCrashAReader) {
  for (int round = 0; round < 2000; ++round) {
    const uint32_t bits = kAllBits[random_.Uniform(2)];
    const ValuePlanes planes = *ValuePlanes::Build(Rows(), kNumTokens, bits);
    AlignedBuffer bytes = Copy(planes.bytes());
    const uint64_t num_changes = 1 + random_.Uniform(4);
    for (uint64_t i = 0; i < num_changes; ++i) {
      bytes.data()[random_.Uniform(bytes.size())] ^=
          static_cast<std::byte>(1 + random_.Uniform(255));
    }
    const size_t length = random_.OneIn(4) ? random_.Uniform(bytes.size()) : bytes.size();
    const Result<ValuePlanes> read =
        ValuePlanes::Parse(bytes.span().first(length), {kNumTokens, kDim, bits}, "values 7");
    if (read.ok()) (void)MeanOf(*read);
  }
}

}  // namespace
}  // namespace attndb::index
