// Goal:   a frame arrives as it was sent, whatever bytes it holds; damaged and cut frames are
//         errors.
// Method: frames over a socket pair; bodies cut at every byte, and with wrong counts.
#include "engines/llama/chat/chat_frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "testing/matchers.h"

namespace attndb::llama {
namespace {

using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::HasSubstr;

class ChatFramesTest : public ::testing::Test {
 protected:
  ChatFramesTest() { EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets_.data()), 0); }
  ~ChatFramesTest() override {
    CloseFirst();
    close(sockets_[1]);
  }

  void CloseFirst() {
    if (sockets_[0] >= 0) close(sockets_[0]);
    sockets_[0] = -1;
  }

  std::array<int, 2> sockets_;
};

TEST_F(ChatFramesTest, FieldsComeBackByteForByte) {
  std::string all_bytes;
  for (int i = 0; i < 256; ++i) all_bytes += static_cast<char>(i);
  const ChatFields fields = {{"", "no name"}, {"none", ""}, {"bytes", all_bytes}};
  ATTNDB_ASSERT_OK(WriteFrame(sockets_[0], fields));
  ATTNDB_ASSERT_OK(WriteFrame(sockets_[0], {}));
  EXPECT_EQ(*ReadFrame(sockets_[1]), fields);
  EXPECT_EQ(*ReadFrame(sockets_[1]), ChatFields());
}

TEST_F(ChatFramesTest, AFrameLargerThanTheSocketTakesArrives) {
  const ChatFields fields = {{"text", std::string(8 << 20, 'x')}};
  std::thread writer([&] { ATTNDB_EXPECT_OK(WriteFrame(sockets_[0], fields)); });
  const Result<ChatFields> read = ReadFrame(sockets_[1]);
  writer.join();
  EXPECT_EQ(*read, fields);
}

TEST_F(ChatFramesTest, ABodyThatIsCutIsAnError) {
  const ChatFields fields = {{"a", "bc"}, {"d", ""}};
  const std::string body = PackFields(fields);
  EXPECT_EQ(*UnpackFields(body), fields);
  const size_t first_field = PackFields({{"a", "bc"}}).size();
  for (size_t length = 1; length < body.size(); ++length) {
    if (length == first_field) continue;  // A list of one field.
    EXPECT_THAT(UnpackFields(body.substr(0, length)),
                FailsWith(StatusCode::kCorruption, HasSubstr("longer than the frame")))
        << length;
  }
}

TEST_F(ChatFramesTest, AFieldThatIsThereTwiceIsAnError) {
  const std::string once = PackFields({{"a", "b"}});
  EXPECT_THAT(UnpackFields(once + once), FailsWith(StatusCode::kCorruption, HasSubstr("'a'")));
}

TEST_F(ChatFramesTest, AFrameThatIsTooLongIsRefusedOnBothSides) {
  const std::string whole(kMaxFrameBytes, 'x');
  EXPECT_THAT(WriteFrame(sockets_[0], {{"a", whole}}),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("at most 67108864")));
  const uint32_t size = kMaxFrameBytes + 1;
  ASSERT_EQ(send(sockets_[0], &size, sizeof(size), 0), 4);
  EXPECT_THAT(ReadFrame(sockets_[1]),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("67108865 bytes")));
}

TEST_F(ChatFramesTest, APeerThatIsGoneIsAnErrorAndNoSignal) {
  const uint32_t size = 100;
  ASSERT_EQ(send(sockets_[0], &size, sizeof(size), 0), 4);
  CloseFirst();
  EXPECT_THAT(ReadFrame(sockets_[1]), FailsWith(StatusCode::kIoError, HasSubstr("closed")));
  EXPECT_THAT(WriteFrame(sockets_[1], {{"a", "b"}}), FailsWith(StatusCode::kIoError, _));
}

TEST_F(ChatFramesTest, APeerThatReadsNothingIsNotWaitedForWithoutEnd) {
  EXPECT_THAT(WriteFrame(sockets_[0], {{"a", std::string(8 << 20, 'x')}}, /*timeout_ms=*/1),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("in time")));
}

TEST_F(ChatFramesTest, AWaitEnds) {
  EXPECT_THAT(ReadFrame(sockets_[1], /*timeout_ms=*/1),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("in time")));
}

}  // namespace
}  // namespace attndb::llama
