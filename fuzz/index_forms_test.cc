// Goal:   the fuzz targets of indexes find nothing on inputs of a fixed seed, and get as far as a
//         search on many of them.
// Method: random bytes, few edits as often as many.
// Replay: ATTNDB_SEED=5 ctest -R index_forms
#include "fuzz/index_forms.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/random.h"
#include "testing/seed.h"

namespace attndb::fuzz {
namespace {

constexpr int kRounds = 400;

// Inputs that were taken and searched.
int CountSearched(bool (*target)(std::span<const uint8_t>), uint64_t seed) {
  Random random(seed);
  int count = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input(random.Uniform(96));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.Uniform(256));
    if (!input.empty() && round % 2 == 0) input[0] = static_cast<uint8_t>(random.Uniform(3));
    count += target(input) ? 1 : 0;
  }
  return count;
}

TEST(IndexFormsTest, ChangedClustersAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzClusters, test::SeedOr(5)), kRounds / 8);
}

// Scales so large that floors were no numbers, and hidden keys came up to them.
TEST(IndexFormsTest, EstimatesThatAreNoNumbersBringUpNothingHidden) {
  std::vector<uint8_t> input = {0xc1, 0xf0, 0x97, 0x00, 0x00, 0x00};
  input.insert(input.end(), 29, 0xff);
  input.insert(input.end(), {0x00, 0x00, 0x00, 0x00, 0x5b, 0xb5, 0xb5, 0x2f});
  EXPECT_TRUE(FuzzClusters(input));
}

TEST(IndexFormsTest, ChangedGraphsAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzGraph, test::SeedOr(6)), kRounds / 8);
}

TEST(IndexFormsTest, ChangedRoarGraphsAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzRoarGraph, test::SeedOr(7)), kRounds / 8);
}

TEST(IndexFormsTest, ChangedGraphsOfHeadsAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzHeadGraphs, test::SeedOr(8)), kRounds / 8);
}

TEST(IndexFormsTest, ChangedBlocksWithRepresentativesAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzInfllm, test::SeedOr(9)), kRounds / 8);
}

TEST(IndexFormsTest, ChangedBlocksWithBoundsAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzQuest, test::SeedOr(10)), kRounds / 8);
}

TEST(IndexFormsTest, ChangedKeyPlanesAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzKeyPlanes, test::SeedOr(11)), kRounds / 8);
}

// It ranks all keys, so that nearly every change leaves one twice, and is refused.
TEST(IndexFormsTest, ChangedRankingsAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzPrefillRanking, test::SeedOr(14)), 0);
}

TEST(IndexFormsTest, ChangedProductCodesAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzProductCodes, test::SeedOr(12)), kRounds / 8);
}

TEST(IndexFormsTest, ChangedWaveIndexesAreRefusedOrHarmless) {
  EXPECT_GT(CountSearched(FuzzWave, test::SeedOr(13)), kRounds / 8);
}

}  // namespace
}  // namespace attndb::fuzz
