// Goal:   dropped tokens are reported in one sentence, and in JSON as few ranges.
#include "cli/common/overflow_flags.h"

#include <gtest/gtest.h>

namespace attndb::cli {
namespace {

TEST(DroppedTextTest, NamesTheWindowAndWhatStaysInFront) {
  const llama::WindowOptions window = {.window_tokens = 8192};
  const std::vector<TokenRange> first = {{4, 4100}};
  EXPECT_EQ(DroppedText(window, first, 4),
            "the conversation has outgrown its window of 8,192 tokens: the oldest 4,096 after the "
            "first 4 are no longer attended to");
  const std::vector<TokenRange> two = {{4100, 4200}, {4300, 4301}};
  EXPECT_EQ(DroppedText(window, two, 0),
            "the conversation has outgrown its window of 8,192 tokens: the oldest 101 are no "
            "longer attended to");
  EXPECT_EQ(DroppedText(window, {}, 4), "");
}

TEST(DroppedTextTest, JsonHasBeginAndEndOfEachRange) {
  const std::vector<TokenRange> ranges = {{4, 4100}, {4200, 4300}};
  EXPECT_EQ(Dump(ToJson(ranges)), "[[4,4100],[4200,4300]]");
  EXPECT_EQ(Dump(ToJson(std::span<const TokenRange>())), "[]");
}

}  // namespace
}  // namespace attndb::cli
