// Goal:   the fuzz target of GGUF heads finds nothing on inputs of a fixed seed, and these get as
//         far as each of the reader, the check and beyond it.
// Method: random edits of a small model, few as often as many; random bytes after a right
//         beginning.
// Replay: ATTNDB_SEED=7 ctest -R gguf_head
#include "fuzz/gguf_head.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "common/random.h"
#include "testing/seed.h"

namespace attndb::fuzz {
namespace {

constexpr int kRounds = 4000;

std::vector<uint8_t> RandomBytes(Random* random, size_t count) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random->Uniform(256));
  return bytes;
}

TEST(GgufHeadTest, ChangedModelsAreRefusedOrHarmless) {
  Random random(test::SeedOr(7));
  std::array<int, 3> counts = {};
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input = RandomBytes(&random, 1 + 7 * (1 + random.Uniform(4)));
    input[0] = 0;
    if (round % 2 == 0) std::fill(input.begin() + 7, input.begin() + 8, uint8_t{0});
    ++counts[static_cast<size_t>(FuzzGguf(input))];
  }
  for (const int count : counts) EXPECT_GT(count, kRounds / 50);
}

TEST(GgufHeadTest, RandomBytesAreNoModel) {
  Random random(test::SeedOr(8));
  constexpr std::string_view kHead("\x01GGUF\x03\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0", 25);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input(kHead.begin(), kHead.end());
    const std::vector<uint8_t> rest = RandomBytes(&random, random.Uniform(64));
    input.insert(input.end(), rest.begin(), rest.end());
    EXPECT_EQ(FuzzGguf(input), GgufVerdict::kNoGguf);
  }
  EXPECT_EQ(FuzzGguf({}), GgufVerdict::kNoGguf);
}

}  // namespace
}  // namespace attndb::fuzz
