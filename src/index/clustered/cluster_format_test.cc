// Goal:   clusters read back are the clusters written. No bytes crash a reader, or a search of
//         clusters that the reader accepted.
// Method: written parts are changed at random and cut short; fields are set to what they must not
//         be. Run under ASan and UBSan too.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/clustered/cluster_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>

#include "common/random.h"
#include "index/clustered/clustered_keys.h"
#include "index/clustered/clusters_test_util.h"
#include "index/format_test_util.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::TopicHead;

constexpr size_t kNumKeys = 9000;

class ClusterFormatTest : public ::testing::Test {
 protected:
  ClusterFormatTest() : head_(kNumKeys, 100, 1, 21) {
    const ClusteredKeys built = *ClusteredKeys::Build(head_.source());
    planes_ = Copy(built.parts().planes);
    order_ = Copy(built.parts().order);
  }

  static AlignedBuffer Copy(std::span<const std::byte> bytes) {
    AlignedBuffer copy = *AlignedBuffer::Allocate(bytes.size());
    std::ranges::copy(bytes, copy.data());
    return copy;
  }

  Result<ClusteredKeys> Parse() const { return Parse({planes_.span(), order_.span()}); }
  static Result<ClusteredKeys> Parse(const ClusterParts& parts) {
    return ClusteredKeys::Parse(parts, {kNumKeys, TopicHead::kDim}, "clusters 7");
  }

  template <typename T>
  void ExpectRefused(size_t offset, T value, StatusCode code, const std::string& message) {
    attndb::test::ExpectFieldRefused(
        order_.data() + offset, value, [&] { return Parse().status(); }, code,
        "clusters 7: " + message);
  }

  TopicHead head_;
  AlignedBuffer planes_;
  AlignedBuffer order_;
};

TEST_F(ClusterFormatTest, FindsTheSameAfterItWasRead) {
  const ClusteredKeys built = *ClusteredKeys::Build(head_.source());
  const ClusteredKeys read = *Parse();
  const IndexRun of_built = head_.Run(built);
  const IndexRun of_read = head_.Run(read);
  EXPECT_EQ(test::Search(head_.Call({&of_built, 1}, 0, {.k = 50})).tokens,
            test::Search(head_.Call({&of_read, 1}, 0, {.k = 50})).tokens);
  EXPECT_GT(read.memory_bytes(), planes_.size() + order_.size());  // And codes of the means.
  EXPECT_LE(read.memory_bytes(), ClusteredKeys::BytesFor(kNumKeys, TopicHead::kDim));
}

TEST_F(ClusterFormatTest, EveryFieldIsChecked) {
  const OrderLayout layout(kNumKeys);
  ExpectRefused<char>(0, 'x', StatusCode::kCorruption, "magic");
  ExpectRefused<uint32_t>(8, 2, StatusCode::kUnsupported, "");
  ExpectRefused<uint32_t>(12, 4096, StatusCode::kCorruption, "piece_keys");
  ExpectRefused<uint64_t>(16, kNumKeys - 1, StatusCode::kCorruption, "num_keys");
  ExpectRefused<uint64_t>(16, ~uint64_t{0}, StatusCode::kCorruption, "num_keys");
  ExpectRefused<uint8_t>(63, 1, StatusCode::kCorruption, "");
  ExpectRefused<uint16_t>(layout.numbers, 8192, StatusCode::kCorruption, "number[0]");
  uint16_t first = 0;
  std::memcpy(&first, order_.data() + layout.numbers, sizeof(first));
  ExpectRefused<uint16_t>(layout.numbers + 2, first, StatusCode::kCorruption, "number[1]");
  // The second piece is shorter.
  ExpectRefused<uint16_t>(layout.numbers + 2 * 8192, kNumKeys - 8192, StatusCode::kCorruption,
                          "number[8192]");
  ExpectRefused<float>(layout.reaches, -1.0f, StatusCode::kCorruption, "reaches[0]");
  ExpectRefused<float>(layout.reaches, std::numeric_limits<float>::quiet_NaN(),
                       StatusCode::kCorruption, "reaches[0]");
  ASSERT_TRUE(Parse().ok());
}

TEST_F(ClusterFormatTest, OtherTransformsAndLengthsAreRefused) {
  const uint32_t local = 4;
  std::memcpy(planes_.data() + 32, &local, sizeof(local));
  EXPECT_EQ(Parse().status().code(), StatusCode::kCorruption);
  const uint32_t turn_blocks = 6;
  std::memcpy(planes_.data() + 32, &turn_blocks, sizeof(turn_blocks));
  ASSERT_TRUE(Parse().ok());
  for (const size_t cut : {0u, 1u, 63u, 64u, 100u}) {
    EXPECT_FALSE(Parse({planes_.span(), order_.span().first(cut)}).ok());
    EXPECT_FALSE(Parse({planes_.span().first(cut), order_.span()}).ok());
  }
  EXPECT_FALSE(Parse({planes_.span(), order_.span().first(order_.size() - 64)}).ok());
}

TEST_F(ClusterFormatTest, RandomChangesAreRefusedOrHarmless) {
  Random random(attndb::test::SeedOr(31));
  for (int round = 0; round < 300; ++round) {
    AlignedBuffer& part = random.OneIn(2) ? planes_ : order_;
    const size_t at = random.Uniform(random.OneIn(2) ? 512 : part.size());
    const std::byte before = part.data()[at];
    part.data()[at] ^= static_cast<std::byte>(1 + random.Uniform(255));
    const Result<ClusteredKeys> keys = Parse();
    if (keys.ok()) {
      const IndexRun run = head_.Run(*keys);
      const test::Found found = test::Search(head_.Call({&run, 1}, 0, {.k = 50}));
      for (const auto& row : found.tokens) {
        EXPECT_LE(row.size(), 50u);
        for (const uint32_t key : row) EXPECT_LT(key, kNumKeys);
      }
    }
    part.data()[at] = before;
  }
}

}  // namespace
}  // namespace attndb::index
