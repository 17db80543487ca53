// Goal:   value planes and means approximate the values they were made from. Read back, they equal
//         those written. No bytes crash a reader, or a sum over planes that the reader accepted.
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
#include <type_traits>
#include <vector>

#include "common/random.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

constexpr size_t kNumTokens = 150;
constexpr size_t kDim = 32;
// The mean of all values: of the codes.
std::vector<float> MeanOf(const kernels::ValuePlanesView& view) {
  std::vector<float> out(kDim, 0.0f);
  std::vector<uint32_t> tokens(kNumTokens);
  std::iota(tokens.begin(), tokens.end(), 0u);
  const std::vector<float> scores(kNumTokens, 0.0f);
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  kernels::AttendCoded(scores.data(), kNumTokens, 1, view, tokens.data(), kNumTokens, {1.0f},
                       {&max, &sum, out.data(), kDim});
  for (float& x : out) x /= sum;
  return out;
}

// The mean of all values, by the means of blocks.
std::vector<float> MeanOf(const kernels::ValueMeansView& view) {
  std::vector<float> out(kDim, 0.0f);
  for (size_t first = 0; first < kNumTokens; first += kernels::kValueBlock) {
    const auto count = static_cast<float>(std::min(kernels::kValueBlock, kNumTokens - first));
    kernels::AddValueMean(view, first / kernels::kValueBlock, count / kNumTokens, out.data());
  }
  return out;
}

AlignedBuffer Copy(std::span<const std::byte> bytes) {
  AlignedBuffer copy = *AlignedBuffer::Allocate(bytes.size());
  std::ranges::copy(bytes, copy.data());
  return copy;
}

template <typename Object>
class StoredValuesTest : public ::testing::Test {
 protected:
  StoredValuesTest() {
    for (float& value : rows_) value = static_cast<float>(random_.NextGaussian()) + 3.0f;
  }

  kernels::RowsView Rows() const { return {rows_.data(), kDim, kDim, DType::kFloat32}; }
  Object Build() const { return *Object::Build(Rows(), kNumTokens); }
  static Result<Object> Parse(std::span<const std::byte> bytes) {
    return Object::Parse(bytes, {kNumTokens, kDim}, "values 7");
  }

  Random random_{test::SeedOr(17)};
  std::vector<float> rows_ = std::vector<float>(kNumTokens * kDim);
};

using Objects = ::testing::Types<ValuePlanes, ValueMeans>;
TYPED_TEST_SUITE(StoredValuesTest, Objects);

TYPED_TEST(StoredValuesTest, ReadBackAreWhatWasWritten) {
  std::vector<double> mean(kDim);
  for (size_t i = 0; i < this->rows_.size(); ++i) {
    mean[i % kDim] += double{this->rows_[i]} / kNumTokens;
  }
  const TypeParam built = this->Build();
  EXPECT_EQ(built.num_tokens(), kNumTokens);
  EXPECT_EQ(built.bytes().size(), TypeParam::BytesFor({kNumTokens, kDim}));
  const AlignedBuffer copy = Copy(built.bytes());
  const TypeParam read = *this->Parse(copy.span());
  const std::vector<float> sums = MeanOf(built.view());
  EXPECT_EQ(MeanOf(read.view()), sums);
  for (size_t d = 0; d < kDim; ++d) EXPECT_NEAR(sums[d], mean[d], 0.06) << d;
}

TYPED_TEST(StoredValuesTest, TokensWithoutValuesAndOverflowHaveNone) {
  EXPECT_EQ(TypeParam::Build(this->Rows(), 0)->num_tokens(), 0u);
  this->rows_[100] = std::numeric_limits<float>::max();
  EXPECT_EQ(this->Build().num_tokens(), 0u);
}

TYPED_TEST(StoredValuesTest, ReadersRefuseWhatDoesNotFit) {
  const TypeParam built = this->Build();
  const auto expect_refused = [&](size_t offset, auto value, StatusCode code,
                                  const std::string& message) {
    AlignedBuffer bytes = Copy(built.bytes());
    std::memcpy(bytes.data() + offset, &value, sizeof(value));
    const Status status = this->Parse(bytes.span()).status();
    EXPECT_EQ(status.code(), code) << message;
    EXPECT_THAT(status.message(), ::testing::StartsWith("values 7: " + message));
  };
  constexpr bool kIsPlanes = std::is_same_v<TypeParam, ValuePlanes>;
  const std::string floats = kIsPlanes ? "scales" : "norms";
  expect_refused(0, 'x', StatusCode::kCorruption, "magic");
  expect_refused(8, uint32_t{2}, StatusCode::kUnsupported, "version");
  expect_refused(12, uint32_t{48}, StatusCode::kCorruption, "num_elements: expected 32, found 48");
  expect_refused(16, uint64_t{1} << 60, StatusCode::kCorruption, "num_tokens: expected 150");
  expect_refused(24, uint8_t{1}, StatusCode::kCorruption, "reserved");
  expect_refused(64, std::numeric_limits<float>::infinity(), StatusCode::kCorruption,
                 floats + "[0]");
  expect_refused(68, -1.0f, StatusCode::kCorruption, floats + "[1]");
  if (!kIsPlanes) expect_refused(128, uint16_t{0x7fc0}, StatusCode::kCorruption, "means[0]");
  const AlignedBuffer shorter = Copy(built.bytes().first(built.bytes().size() - 1));
  EXPECT_EQ(this->Parse(shorter.span()).status().code(), StatusCode::kCorruption);
}

TYPED_TEST(StoredValuesTest, NoBytesCrashAReader) {
  const TypeParam built = this->Build();
  for (int round = 0; round < 2000; ++round) {
    AlignedBuffer bytes = Copy(built.bytes());
    const uint64_t num_changes = 1 + this->random_.Uniform(4);
    for (uint64_t i = 0; i < num_changes; ++i) {
      bytes.data()[this->random_.Uniform(bytes.size())] ^=
          static_cast<std::byte>(1 + this->random_.Uniform(255));
    }
    const bool cut = this->random_.OneIn(4);
    const size_t length = cut ? this->random_.Uniform(bytes.size()) : bytes.size();
    const Result<TypeParam> read = this->Parse(bytes.span().first(length));
    if (read.ok()) (void)MeanOf(read->view());
  }
}

using ValuePlanesTest = StoredValuesTest<ValuePlanes>;

TEST_F(ValuePlanesTest, AreNotKeptWhereOneValueLeavesTheOthersFewSteps) {
  rows_[100] = 1000.0f;
  EXPECT_EQ(Build().num_tokens(), 0u);
  EXPECT_GT(ValueMeans::Build(Rows(), kNumTokens)->num_tokens(), 0u);
}

}  // namespace
}  // namespace attndb::index
