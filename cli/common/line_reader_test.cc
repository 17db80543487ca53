// Goal:   lines come as they were typed, whatever pieces a pipe brings them in, and a signal ends
//         the wait for one whenever it comes.
#include "cli/common/line_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>
#include <thread>

#include "cli/common/interrupt.h"

namespace attndb::cli {
namespace {

class LineReaderTest : public ::testing::Test {
 protected:
  LineReaderTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~LineReaderTest() override {
    EndInput();
    close(ends_[0]);
  }

  void Type(std::string_view text) {
    EXPECT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void EndInput() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_ = {-1, -1};
};

TEST_F(LineReaderTest, LinesComeWithoutTheirEndsAndTheLastNeedsNone) {
  const auto lines = MakePlainLines(ends_[0], /*has_prompt=*/false);
  Type("one\r\n\ntwo");
  EXPECT_EQ(*lines->Next(), "one");
  EXPECT_EQ(*lines->Next(), "");
  Type(" and \xD1");
  Type("\x84\nthree");
  EXPECT_EQ(*lines->Next(), "two and \u0444");
  EndInput();
  EXPECT_EQ(*lines->Next(), "three");
  EXPECT_EQ(lines->Next().status().code(), StatusCode::kNotFound);
}

TEST_F(LineReaderTest, ALineThatIsNoUtf8IsRefusedAndTheNextIsRead) {
  const auto lines = MakePlainLines(ends_[0], /*has_prompt=*/false);
  Type("\xFF\nfine\n");
  EXPECT_EQ(lines->Next().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(*lines->Next(), "fine");
}

TEST_F(LineReaderTest, ASignalEndsTheWaitBeforeItAndInIt) {
  const InterruptScope interrupt;
  const auto lines = MakePlainLines(ends_[0], /*has_prompt=*/false);
  raise(SIGINT);
  EXPECT_EQ(lines->Next().status().code(), StatusCode::kCancelled);
  ClearInterrupt();
  {
    // To a thread that reads nothing: the read is not ended by the signal itself.
    const InterruptScope again;
    std::jthread other([] { raise(SIGTERM); });
    EXPECT_EQ(lines->Next().status().code(), StatusCode::kCancelled);
  }
  ClearInterrupt();
  Type("still there\n");
  EXPECT_EQ(*lines->Next(), "still there");
}

}  // namespace
}  // namespace attndb::cli
