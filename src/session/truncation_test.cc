// Goal:   which tokens leave, which stay and how far these are moved, over several cuts, crops and
//         wrong requests.
// Method: a plain list of flags, one for each token.
// Replay: ATTNDB_SEED.
#include "session/truncation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::internal {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Kept tokens, each with its number of positions to be moved.
std::vector<std::pair<uint64_t, int64_t>> Kept(const Truncation& truncation, uint64_t num_tokens) {
  std::vector<std::pair<uint64_t, int64_t>> kept;
  truncation.ForEachKept({0, num_tokens}, [&](TokenRange range, uint32_t turn) {
    for (uint64_t token = range.begin; token < range.end; ++token) {
      kept.emplace_back(token, turn == 0 ? 0 : truncation.moves()[turn - 1]);
    }
  });
  return kept;
}

TEST(TruncationTest, TheOldestBehindTheFirstLeave) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(2044, {.keep_first = 4}, 4096));
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{4096, {{4, 2048}}}));
  EXPECT_THAT(truncation.pieces(), ElementsAre(TokenRange{0, 4}));
  EXPECT_THAT(truncation.moves(), ElementsAre(2044));
  EXPECT_EQ(truncation.num_dropped(), 2044u);
  EXPECT_EQ(truncation.num_moved(), 4u);
  EXPECT_EQ(truncation.end(), 2048u);
  // The next cut goes on where that one ended.
  ATTNDB_ASSERT_OK(truncation.Drop(1000, {.keep_first = 4}, 5000));
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{4096, {{4, 2048}}}, Cut{5000, {{2048, 3048}}}));
  EXPECT_THAT(truncation.moves(), ElementsAre(3044));
}

TEST(TruncationTest, WithoutFirstTokensTheVeryFirstStaysAsASink) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(10, {}, 100));
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{100, {{1, 11}}}));
  Truncation without;
  ATTNDB_ASSERT_OK(without.Drop(10, {.sink = false}, 100));
  EXPECT_THAT(without.cuts(), ElementsAre(Cut{100, {{0, 10}}}));
  EXPECT_THAT(without.pieces(), IsEmpty());
  // It is not there any more, and does not come back.
  ATTNDB_ASSERT_OK(without.Drop(10, {}, 100));
  EXPECT_THAT(without.cuts(), ElementsAre(Cut{100, {{0, 20}}}));
}

TEST(TruncationTest, RangesStayAndAreMovedEachByWhatIsGoneBehindIt) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(60, {.keep_first = 2, .keep = {{10, 13}, {50, 60}}}, 100));
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{100, {{2, 10}, {13, 50}, {60, 75}}}));
  EXPECT_THAT(truncation.pieces(),
              ElementsAre(TokenRange{0, 2}, TokenRange{10, 13}, TokenRange{50, 60}));
  EXPECT_THAT(truncation.moves(), ElementsAre(60, 52, 15));
  // Tokens that are not kept again leave first.
  ATTNDB_ASSERT_OK(truncation.Drop(3, {.keep_first = 2}, 100));
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{100, {{2, 50}, {60, 75}}}));
}

TEST(TruncationTest, WhatIsEnoughLeavesLaterTokensWhole) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(5, {.keep_first = 2, .keep = {{10, 13}, {50, 60}}}, 100));
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{100, {{2, 7}}}));
  EXPECT_THAT(truncation.pieces(), ElementsAre(TokenRange{0, 2}));
}

TEST(TruncationTest, ACropToACutKeepsIt) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(10, {.keep_first = 4}, 100));
  ATTNDB_ASSERT_OK(truncation.Drop(20, {.keep_first = 4}, 150));
  truncation.Crop(100);
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{100, {{4, 14}}}));
  EXPECT_EQ(truncation.num_dropped(), 10u);
}

TEST(TruncationTest, ACropTakesLaterCutsBack) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(10, {.keep_first = 4}, 100));
  ATTNDB_ASSERT_OK(truncation.Drop(20, {.keep_first = 4}, 150));
  truncation.Crop(150);
  EXPECT_EQ(truncation.num_dropped(), 30u);
  truncation.Crop(149);
  EXPECT_THAT(truncation.cuts(), ElementsAre(Cut{100, {{4, 14}}}));
  EXPECT_EQ(truncation.num_dropped(), 10u);
  truncation.Crop(99);
  EXPECT_THAT(truncation.cuts(), IsEmpty());
  EXPECT_EQ(truncation.end(), 0u);
}

TEST(TruncationTest, WrongRequestsChangeNothing) {
  Truncation truncation;
  ATTNDB_ASSERT_OK(truncation.Drop(10, {.keep_first = 4}, 100));
  const std::vector<Cut> before = truncation.cuts();
  const auto refuses = [&](uint64_t n, const DropOptions& options, const char* message) {
    EXPECT_THAT(truncation.Drop(n, options, 100),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(message)));
    EXPECT_EQ(truncation.cuts(), before);
  };
  refuses(86, {.keep_first = 4}, "n is 86, but of the tokens that are attended to only 85");
  refuses(UINT64_MAX, {.keep_first = 4}, "only 85 stand between");
  refuses(76, {.keep_first = 4, .keep = {{20, 30}}}, "only 75 stand between");
  refuses(1, {.keep_first = 5}, "keep_first is 5, but of the tokens that are attended to only 4");
  refuses(1, {.keep_first = UINT64_MAX}, "only 4 stand before the first gap");
  refuses(1, {.keep_first = 4, .keep = {{30, 20}}}, "token range [30, 20)");
  refuses(1, {.keep_first = 4, .keep = {{90, 101}}}, "beyond the 100 tokens");
  ATTNDB_EXPECT_OK(truncation.Drop(85, {.keep_first = 4}, 100));
  Truncation empty;
  EXPECT_THAT(empty.Drop(1, {}, 0), FailsWith(StatusCode::kInvalidArgument,
                                              HasSubstr("only 0 stand between the first 0 and")));
  EXPECT_THAT(empty.Drop(1, {}, 1), FailsWith(StatusCode::kInvalidArgument, HasSubstr("only 0")));
  ATTNDB_EXPECT_OK(empty.Drop(0, {}, 0));
  EXPECT_THAT(empty.cuts(), IsEmpty());
}

TEST(TruncationTest, TooManyPiecesAreRefused) {
  Truncation truncation;
  DropOptions options;
  for (uint64_t i = 0; i < Truncation::kMaxPieces; ++i) options.keep.push_back({3 * i, 3 * i + 2});
  const uint64_t num_tokens = 3 * options.keep.size() + 2;
  ATTNDB_EXPECT_OK(Truncation(truncation).Drop(options.keep.size() - 1, options, num_tokens));
  Truncation most;
  ATTNDB_EXPECT_OK(most.Drop(options.keep.size(), options, num_tokens + 10));
  EXPECT_EQ(most.pieces().size(), Truncation::kMaxPieces);
  options.keep.push_back({num_tokens - 1, num_tokens});
  EXPECT_THAT(truncation.Drop(options.keep.size() + 1, {.keep = options.keep, .sink = false},
                              num_tokens + 10),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("65 pieces")));
  EXPECT_THAT(truncation.cuts(), IsEmpty());
}

TEST(TruncationTest, TooManyCutsAreRefused) {
  Truncation truncation;
  for (uint64_t i = 0; i < Truncation::kMaxCuts; ++i) {
    ATTNDB_ASSERT_OK(truncation.Drop(1, {}, 100 + i));
  }
  EXPECT_THAT(truncation.Drop(1, {}, 5000),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("1024 times")));
  ATTNDB_EXPECT_OK(truncation.Drop(1, {}, 100 + Truncation::kMaxCuts - 1));
}

TEST(TruncationTest, IsAsAListOfFlagsSays) {
  const uint64_t seed = test::SeedOr(1);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 200; ++round) {
    Truncation truncation;
    std::vector<bool> gone;
    for (int step = 0; step < 8; ++step) {
      gone.resize(gone.size() + random() % 60);
      DropOptions options = {.keep_first = random() % 6, .sink = random() % 2 == 0};
      for (uint64_t at = random() % 40; at + 3 < gone.size() && options.keep.size() < 4;
           at += 3 + random() % 40) {
        options.keep.push_back({at, at + 1 + random() % 3});
      }
      const uint64_t n = random() % 30;
      if (!truncation.Drop(n, options, gone.size()).ok()) continue;
      uint64_t left = n;
      const bool sink = options.sink && options.keep_first == 0;
      for (uint64_t i = sink ? 1 : options.keep_first; left > 0; ++i) {
        ASSERT_LT(i + 1, gone.size()) << seed;
        const bool stays = std::ranges::any_of(options.keep, [i](const TokenRange& range) {
          return range.begin <= i && i < range.end;
        });
        if (gone[i] || stays) continue;
        gone[i] = true;
        --left;
      }
      std::vector<std::pair<uint64_t, int64_t>> expected;
      int64_t behind = 0;
      for (uint64_t i = gone.size(); i-- > 0;) {
        if (!gone[i]) expected.insert(expected.begin(), {i, behind});
        behind += gone[i] ? 1 : 0;
      }
      ASSERT_EQ(Kept(truncation, gone.size()), expected) << seed << " round " << round;
      ASSERT_EQ(Kept(Truncation(truncation.cuts()), gone.size()), expected) << seed;
    }
  }
}

}  // namespace
}  // namespace attndb::internal
