// Goal:   the fuzz target of the server's connection finds nothing on inputs of a fixed seed, and
//         many of these hold requests.
// Method: random bytes, each of which stands for a piece of a request or for itself.
// Replay: ATTNDB_SEED=10 ctest -R connection_bytes
#include "fuzz/connection_bytes.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/random.h"
#include "testing/seed.h"

namespace attndb::fuzz {
namespace {

// The first byte of an input: pieces of requests that come byte by byte.
constexpr uint8_t kByteByByte = 1;

TEST(ConnectionBytesTest, HostileBytesAreRefusedOrRequestsHoweverTheyAreCut) {
  constexpr int kRounds = 1000;
  Random random(test::SeedOr(10));
  size_t num_requests = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input(1 + random.Uniform(24));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.Uniform(256));
    num_requests += FuzzConnection(input);
  }
  EXPECT_GT(num_requests, size_t{kRounds / 20});
}

TEST(ConnectionBytesTest, EveryRequestOfAConnectionIsFound) {
  // GET /a; POST /b with a length; POST /c in chunks; POST /d that expects 100, and its body; HEAD
  // /e of HTTP/1.0; empty lines; GET /f line by line.
  const std::vector<uint8_t> input = {kByteByByte, 0,  1, 2, 3,  19, 250, 251, 4,
                                      15,          16, 5, 8, 14, 9,  15,  19};
  EXPECT_EQ(FuzzConnection(input), 6u);
}

TEST(ConnectionBytesTest, ALastChunkMayComeByteByByte) {
  const uint8_t input[] = {kByteByByte, 6, 11, 15, 22, 0};
  EXPECT_EQ(FuzzConnection(input), 2u) << "the chunks of an empty body, and the next request";
}

TEST(ConnectionBytesTest, HeadsWithoutEndAndHiddenRequestsAreNone) {
  std::vector<uint8_t> endless(100, 14);
  endless[0] = kByteByByte;
  endless[1] = 6;
  EXPECT_EQ(FuzzConnection(endless), 0u);
  const uint8_t hidden[] = {kByteByByte, 6, 12, 15, 0};
  EXPECT_EQ(FuzzConnection(hidden), 0u) << "in a body of an unknown encoding";
}

}  // namespace
}  // namespace attndb::fuzz
