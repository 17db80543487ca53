// Goal:   the fuzz targets of the server's texts find nothing on inputs of a fixed seed, and many
//         of these are taken.
// Method: random bytes; of paths, mostly those that paths are made of.
// Replay: ATTNDB_SEED=5 ctest -R server_texts
#include "fuzz/server_texts.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "common/random.h"
#include "testing/seed.h"

namespace attndb::fuzz {
namespace {

constexpr int kRounds = 4000;

// How many inputs of `seed` were taken, the most of which are edits of a whole text.
template <typename Fuzz>
int NumTaken(uint64_t seed, Fuzz fuzz) {
  Random random(test::SeedOr(seed));
  int num_taken = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input(random.Uniform(64));
    for (uint8_t& byte : input) byte = static_cast<uint8_t>(random.Uniform(256));
    if (!input.empty() && round % 4 != 0) input[0] |= 1;
    num_taken += fuzz(input) ? 1 : 0;
  }
  return num_taken;
}

TEST(ServerTextsTest, ChangedRequestsAreRefusedOrWithinTheirBounds) {
  EXPECT_GT(NumTaken(5, FuzzServerRequest), kRounds / 20);
}

TEST(ServerTextsTest, ChangedResponsesAreRefusedOrWithinTheirBounds) {
  EXPECT_GT(NumTaken(11, FuzzResponseRequest), kRounds / 40);
}

TEST(ServerTextsTest, ChangedMessagesAreRefusedOrWithinTheirBounds) {
  EXPECT_GT(NumTaken(10, FuzzMessagesRequest), kRounds / 20);
}

TEST(ServerTextsTest, ChangedRequestsWithToolsAreRefusedOrWithinTheirBounds) {
  EXPECT_GT(NumTaken(10, FuzzToolRequest), kRounds / 40);
}

TEST(ServerTextsTest, ChangedRequestsAboutTheStoreAreRefusedOrWithinTheirBounds) {
  EXPECT_GT(NumTaken(8, FuzzStoreRequest), kRounds / 20);
}

TEST(ServerTextsTest, ChangedKeysFilesAreRefusedOrWithinTheirBounds) {
  EXPECT_GT(NumTaken(9, FuzzKeysFile), kRounds / 40);
}

TEST(ServerTextsTest, WhatIsNotEditedIsTaken) {
  const uint8_t input[] = {1};
  EXPECT_EQ(FuzzServerRequest(input), kNumTextRequests);
  EXPECT_TRUE(FuzzToolRequest(input));
  EXPECT_EQ(FuzzStoreRequest(input), kNumStoreRequests);
  EXPECT_EQ(FuzzMessagesRequest(input), kNumMessagesRequests);
  EXPECT_TRUE(FuzzResponseRequest(input));
  EXPECT_TRUE(FuzzKeysFile(input));
}

TEST(ServerTextsTest, MessagesOfAnyBytesAreWellFormed) {
  constexpr std::string_view kLikely = "/%%%012abfFxyz?#\r\n\0:. ";
  Random random(test::SeedOr(6));
  int num_paths = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input(random.Uniform(24));
    for (uint8_t& byte : input) {
      byte = random.Uniform(8) == 0 ? static_cast<uint8_t>(random.Uniform(256))
                                    : static_cast<uint8_t>(kLikely[random.Uniform(kLikely.size())]);
    }
    if (!input.empty() && round % 2 == 0) input[0] = '/';
    num_paths += FuzzHttpText(input) ? 1 : 0;
  }
  EXPECT_GT(num_paths, kRounds / 20);
}

TEST(ServerTextsTest, EventsAreTheSameInPiecesOfAnyLength) {
  constexpr std::string_view kPieces[] = {"data:", "data: ", "\n",     "\n\n", "\r\n",
                                          ": x",   "id: 3",  "{\"a\"", ":1}",  "[DONE]"};
  Random random(test::SeedOr(7));
  size_t num_events = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint8_t> input = {static_cast<uint8_t>(random.Uniform(256))};
    for (uint64_t left = random.Uniform(16); left > 0; --left) {
      const std::string_view piece = kPieces[random.Uniform(std::size(kPieces))];
      input.insert(input.end(), piece.begin(), piece.end());
      if (random.Uniform(8) == 0) input.push_back(static_cast<uint8_t>(random.Uniform(256)));
    }
    num_events += FuzzEventStream(input);
  }
  EXPECT_GT(num_events, size_t{kRounds / 8});
}

}  // namespace
}  // namespace attndb::fuzz
