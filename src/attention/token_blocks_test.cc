// Goal:   blocks are a grid of their own: each token is in one of them, numbered without gaps, and
//         there are few of them; stretches cover a range, in whole tiles.
#include "attention/token_blocks.h"

#include <gtest/gtest.h>

#include <vector>

#include "attention/stretch.h"

namespace attndb::attention {
namespace {

// How many blocks there are up to some 2,000,000 tokens.
uint64_t ExpectGrid(const TokenBlocks& blocks) {
  uint64_t number = 0;
  for (uint64_t begin = 0; begin < 2'000'000; ++number) {
    const uint64_t end = blocks.EndAt(begin);
    EXPECT_EQ(blocks.NextBegin(begin), begin);
    EXPECT_EQ(blocks.NextBegin(begin + 1), end);
    for (const uint64_t token : {begin, begin + 1, end - 1}) {
      EXPECT_EQ(blocks.BeginAt(token), begin);
      EXPECT_EQ(blocks.EndAt(token), end);
      EXPECT_EQ(blocks.Of(token), number);
    }
    EXPECT_EQ(blocks.Count({begin, end}), 1u);
    EXPECT_EQ(blocks.Count({0, end}), number + 1);
    EXPECT_EQ(begin % kTileTokens, 0u);
    EXPECT_GE(end - begin, kMinBlockTokens);
    begin = end;
  }
  return number;
}

TEST(TokenBlocksTest, EachTokenIsInOneBlock) {
  EXPECT_LT(ExpectGrid(TokenBlocks(LayerSpec{})), 300u);
}

TEST(TokenBlocksTest, WindowsHaveTheShortestBlocks) {
  LayerSpec spec;
  spec.sliding_window = 4096;
  const TokenBlocks blocks(spec);
  (void)ExpectGrid(blocks);
  EXPECT_EQ(blocks.Count({1'000'000, 1'004'096}), 9u);
}

// Stretches of a range over runs that end at 100, 130, 300 and 1,000.
std::vector<TokenRange> StretchesOf(TokenRange range, size_t q_shift_of_last = 0) {
  std::vector<HeadRun> list(4);
  const uint64_t ends[] = {100, 130, 300, 1000};
  for (size_t i = 0; i < 4; ++i) list[i].tokens = {i == 0 ? 0 : ends[i - 1], ends[i]};
  list[3].q_shift = q_shift_of_last;
  std::span<const HeadRun> runs = list;
  std::vector<TokenRange> stretches;
  while (range.begin < range.end) {
    runs = RunsFrom(runs, range.begin);
    stretches.push_back(NextStretch(runs, range));
    range.begin = stretches.back().end;
  }
  return stretches;
}

void ExpectStretches(const std::vector<TokenRange>& found,
                     const std::vector<uint64_t>& begins_and_end) {
  ASSERT_EQ(found.size() + 1, begins_and_end.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].begin, begins_and_end[i]);
    EXPECT_EQ(found[i].end, begins_and_end[i + 1]);
  }
}

TEST(StretchTest, EndsWithATileWhereItsRunEndsWithinOne) {
  ExpectStretches(StretchesOf({0, 1000}), {0, 64, 128, 192, 256, 320, 1000});
}

TEST(StretchTest, BeginsAndEndsWithItsRange) {
  ExpectStretches(StretchesOf({10, 60}), {10, 60});
  ExpectStretches(StretchesOf({10, 110}), {10, 64, 110});
  ExpectStretches(StretchesOf({330, 700}), {330, 384, 700});
  ExpectStretches(StretchesOf({384, 700}), {384, 700});
}

// Tokens that meet another q are folded by themselves.
TEST(StretchTest, EndsWhereTheNextRunMeetsAnotherQ) {
  ExpectStretches(StretchesOf({256, 1000}, 8), {256, 300, 320, 1000});
}

}  // namespace
}  // namespace attndb::attention
