// Goal:   a progress line says share, rate and time left, fits its width, and is drawn sparingly.
// Method: rendering is a pure function; drawing runs against a simulated clock into a file.
#include "cli/common/progress.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/common/display_width.h"

namespace attndb::cli {
namespace {

ProgressState Half() {
  ProgressState state;
  state.label = "prefill";
  state.unit = "tokens";
  state.done = 4096;
  state.total = 8192;
  state.elapsed_seconds = 10;
  return state;
}

TEST(ProgressTest, ALineShowsShareRateAndTimeLeft) {
  EXPECT_EQ(RenderProgress(Half(), 100),
            "prefill  [###############...............]  50 %  4,096 of 8,192 tokens  "
            "409 tokens/s  10.0 s left");
}

TEST(ProgressTest, TheRateLeavesOutWhatWasThereBefore) {
  ProgressState state = Half();
  state.done_at_start = 3096;
  EXPECT_NE(RenderProgress(state, 120).find("100 tokens/s  41.0 s left"), std::string::npos)
      << RenderProgress(state, 120);
}

TEST(ProgressTest, NothingIsWiderThanTheTerminal) {
  for (size_t width = 1; width < 140; ++width) {
    EXPECT_LE(DisplayWidth(RenderProgress(Half(), width)), width);
  }
}

TEST(ProgressTest, NothingDoneYetHasNoRate) {
  ProgressState state = Half();
  state.done = 0;
  state.elapsed_seconds = 0;
  EXPECT_EQ(RenderProgress(state, 80),
            "prefill  [..............................]  0 %  0 of 8,192 tokens");
}

TEST(ProgressTest, AnUnknownTotalHasNoBarAndMoreThanTheTotalIsAll) {
  ProgressState state = Half();
  state.total = 0;
  EXPECT_EQ(RenderProgress(state, 80), "prefill  4,096 tokens  409 tokens/s");
  state.total = 100;
  EXPECT_NE(RenderProgress(state, 80).find("100 %  100 of 100"), std::string::npos);
}

TEST(ProgressTest, BytesAreShownAsSizes) {
  ProgressState state = Half();
  state.unit = "bytes";
  state.done = 1 << 20;
  state.total = 4 << 20;
  state.elapsed_seconds = 1;
  EXPECT_EQ(RenderProgress(state, 80),
            "prefill  [#####...............]  25 %  1.0 MiB of 4.0 MiB  1.0 MiB/s  3.0 s left");
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

std::string ContentsOf(std::FILE* file) {
  std::rewind(file);
  std::string text;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    text.push_back(static_cast<char>(c));
  }
  return text;
}

size_t CountOf(const std::string& text, char c) {
  return static_cast<size_t>(std::count(text.begin(), text.end(), c));
}

TEST(ProgressTest, ALineIsDrawnTenTimesASecondAtMostAndTakenAwayAtTheEnd) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::tmpfile());
  ASSERT_NE(file, nullptr);
  double now = 0;
  {
    ProgressLine line({.label = "x",
                       .unit = "tokens",
                       .stream = file.get(),
                       .seconds = [&] { return now; },
                       .width = 80});
    for (uint64_t i = 0; i < 100; ++i, now += 0.01) line.Update(i, 100);
    line.Update(100, 100);
  }
  const std::string text = ContentsOf(file.get());
  const size_t num_drawn = CountOf(text, '\r');
  EXPECT_GE(num_drawn, 8U);
  EXPECT_LE(num_drawn, 13U);
  EXPECT_NE(text.find("100 %"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\x1b[K"));
}

TEST(ProgressTest, ADisabledLineWritesNothing) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::tmpfile());
  ASSERT_NE(file, nullptr);
  {
    ProgressLine line({.label = "x", .unit = "tokens", .enabled = false, .stream = file.get()});
    line.Update(1, 2);
    line.Clear();
  }
  EXPECT_EQ(ContentsOf(file.get()), "");
}

}  // namespace
}  // namespace attndb::cli
