// A responder that writes down what it is told. A second answer is a failure of the test, and so is
// a piece of a stream that has not begun, or has ended.
//
// Threads: one.
#ifndef ATTNDB_SERVER_HTTP_RECORDING_RESPONDER_TEST_UTIL_H_
#define ATTNDB_SERVER_HTTP_RECORDING_RESPONDER_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/exchange.h"
#include "server/json.h"
#include "testing/matchers.h"

namespace attndb::server {

class RecordingResponder final : public Responder {
 public:
  void Send(Response response) override {
    EXPECT_FALSE(sent || begun || ended) << "answered twice";
    sent = std::move(response);
  }
  void Begin(Response response) override {
    EXPECT_FALSE(sent || begun || ended) << "answered twice";
    begun = std::move(response);
  }
  void Write(std::string piece) override {
    EXPECT_TRUE(begun && !ended);
    pieces.push_back(std::move(piece));
  }
  void End() override {
    EXPECT_TRUE(begun && !ended);
    ended = true;
  }
  bool closed() const override { return false; }
  void OnClosed(std::function<void()> /*then*/) override {}

  // The data of a stream's events, which have no type.
  std::vector<std::string> Events() const {
    std::vector<std::string> events;
    std::string rest = begun ? begun->body : "";
    for (const std::string& piece : pieces) rest += piece;
    while (!rest.empty()) {
      const size_t end = rest.find("\n\n");
      EXPECT_TRUE(rest.starts_with("data: ") && end != std::string::npos) << rest;
      if (end == std::string::npos) break;
      events.push_back(rest.substr(6, end - 6));
      EXPECT_EQ(events.back().find('\n'), std::string::npos) << events.back();
      rest.erase(0, end + 2);
    }
    return events;
  }

  struct TypedEvent {
    std::string type;
    std::string data;
  };
  // The events of a stream whose pieces are an event each.
  std::vector<TypedEvent> TypedEvents() const {
    std::vector<TypedEvent> events;
    for (const std::string& piece : pieces) {
      const size_t line = piece.find('\n');
      EXPECT_TRUE(piece.starts_with("event: ") && piece.ends_with("\n\n")) << piece;
      EXPECT_EQ(piece.substr(line + 1, 6), "data: ") << piece;
      events.push_back(
          {piece.substr(7, line - 7), piece.substr(line + 7, piece.size() - line - 9)});
    }
    return events;
  }

  std::optional<Response> sent;
  std::optional<Response> begun;
  std::vector<std::string> pieces;  // All that was written to the stream.
  bool ended = false;
};

// The JSON of a body or of an event.
inline Json Parsed(const std::string& text) {
  const Result<Json> json = ParseJson(text);
  EXPECT_THAT(json, ::attndb::test::IsOk()) << text;
  return json.ok() ? *json : Json();
}

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_HTTP_RECORDING_RESPONDER_TEST_UTIL_H_
