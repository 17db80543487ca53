// Goal:   errors are those that Anthropic's clients know, on the routes of its interface alone.
// Method: statuses and paths, one by one.
#include "server/anthropic/error_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "server/json.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

TEST(ErrorFormTest, APathIsOfAnInterface) {
  EXPECT_TRUE(IsOfAnthropic("/v1/messages"));
  EXPECT_TRUE(IsOfAnthropic("/v1/messages/"));
  EXPECT_TRUE(IsOfAnthropic("/v1/messages/count_tokens"));
  EXPECT_TRUE(IsOfAnthropic("/v1/messages/batches"));
  EXPECT_FALSE(IsOfAnthropic("/v1/messagesX"));
  EXPECT_FALSE(IsOfAnthropic("/v1/chat/completions"));
  EXPECT_FALSE(IsOfAnthropic(""));
}

TEST(ErrorFormTest, AnErrorHasTypeMessageAndRequest) {
  EXPECT_EQ(AnthropicError(400, "bad \"x\"", "r1"),
            R"({"type":"error","error":{"type":"invalid_request_error","message":"bad \"x\""},)"
            R"("request_id":"r1"})");
  EXPECT_EQ(AnthropicError(500, "bug", ""),
            R"({"type":"error","error":{"type":"api_error","message":"bug"},"request_id":null})");
}

TEST(ErrorFormTest, TypesAreThoseOfTheClient) {
  const std::pair<int, const char*> types[] = {
      {400, "invalid_request_error"}, {401, "authentication_error"},
      {403, "permission_error"},      {404, "not_found_error"},
      {405, "invalid_request_error"}, {408, "timeout_error"},
      {409, "conflict_error"},        {413, "request_too_large"},
      {429, "rate_limit_error"},      {500, "api_error"},
      {503, "overloaded_error"},      {507, "api_error"}};
  for (const auto& [status, type] : types) {
    const Result<Json> json = ParseJson(AnthropicError(status, "m", "r"));
    ASSERT_THAT(json, ::attndb::test::IsOk());
    EXPECT_EQ((*json)["error"]["type"], type) << status;
  }
}

TEST(ErrorFormTest, AnErrorOfAStreamIsAnEvent) {
  EXPECT_EQ(AnthropicErrorEvent(Status::IoError("disk"), "r1"),
            "event: error\ndata: "
            R"({"type":"error","error":{"type":"api_error","message":"disk"},"request_id":"r1"})"
            "\n\n");
}

}  // namespace
}  // namespace attndb::server
