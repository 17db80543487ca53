// Goal:   events are the same however their bytes are cut, and none is longer than the limit.
// Method: one stream, in pieces of each size.
#include "server/http/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/http/event_text.h"

namespace attndb::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> EventsOf(const std::string& bytes, size_t piece_bytes) {
  std::vector<std::string> events;
  EventReader reader;
  for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
    const Status status = reader.Take(bytes.substr(at, piece_bytes), [&](std::string_view data) {
      events.emplace_back(data);
      return Status::Ok();
    });
    EXPECT_TRUE(status.ok()) << status;
  }
  return events;
}

TEST(EventReaderTest, EventsAreTheSameHoweverTheyAreCut) {
  const std::string bytes =
      ":\n\ndata: {\"a\": 1}\n\nevent: x\r\ndata:two\r\ndata:  lines\r\n\r\n\n\ndata:\n\ndata: "
      "half";
  for (size_t piece_bytes = 1; piece_bytes <= bytes.size(); ++piece_bytes) {
    EXPECT_THAT(EventsOf(bytes, piece_bytes), ElementsAre("{\"a\": 1}", "two\n lines", ""));
  }
}

TEST(EventReaderTest, EventsAreReadAsTheyAreWritten) {
  const std::string bytes = EventText("{\"a\": 1}") + EventText("named", "two");
  EXPECT_EQ(bytes, "data: {\"a\": 1}\n\nevent: named\ndata: two\n\n");
  EXPECT_THAT(EventsOf(bytes + std::string(kDoneEvent), 3),
              ElementsAre("{\"a\": 1}", "two", "[DONE]"));
}

TEST(EventReaderTest, AnErrorOfTheReaderEndsTheCall) {
  EventReader reader;
  int num_events = 0;
  const Status status = reader.Take("data: 1\n\ndata: 2\n\n", [&](std::string_view) {
    ++num_events;
    return Status::Corruption("enough");
  });
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_EQ(num_events, 1);
}

TEST(EventReaderTest, AnEventWithoutEndIsRefused) {
  for (const bool has_lines : {false, true}) {
    EventReader reader;
    Status status;
    const std::string piece =
        (has_lines ? "data: " : "") + std::string(1 << 20, 'x') + (has_lines ? "\n" : "");
    int num_pieces = 0;
    while (status.ok() && num_pieces < 100) {
      status = reader.Take(piece, [](std::string_view) { return Status::Ok(); });
      ++num_pieces;
    }
    EXPECT_EQ(status.code(), StatusCode::kIoError);
    EXPECT_THAT(status.message(), HasSubstr("16 MiB"));
    EXPECT_LE(num_pieces, 17);
  }
}

}  // namespace
}  // namespace attndb::server
