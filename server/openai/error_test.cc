// Goal:   errors are what clients of OpenAI's interface take apart, with the status that lets them
//         do the right thing: try again, or not.
// Method: each code, each status.
#include "server/openai/error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(ErrorTest, EachCodeHasItsStatus) {
  const std::vector<std::pair<Status, int>> expected = {{Status::Ok(), 200},
                                                        {Status::InvalidArgument(""), 400},
                                                        {Status::Unsupported(""), 400},
                                                        {Status::ReadOnly(""), 403},
                                                        {Status::NotFound(""), 404},
                                                        {Status::AlreadyExists(""), 409},
                                                        {Status::FailedPrecondition(""), 409},
                                                        {Status::OtherModel(""), 409},
                                                        {Status::Corruption(""), 500},
                                                        {Status::IoError(""), 500},
                                                        {Status::Internal(""), 500},
                                                        {Status::ResourceExhausted(""), 503},
                                                        {Status::Busy(""), 503},
                                                        {Status::Cancelled(""), 503}};
  for (const auto& [status, http_status] : expected) {
    EXPECT_EQ(HttpStatusOf(status), http_status) << status.ToString();
  }
}

TEST(ErrorTest, IsAnObjectWithMessageTypeAndCode) {
  EXPECT_EQ(ToText(ErrorJson(400, "'n' is 2")),
            R"({"error":{"message":"'n' is 2","type":"invalid_request_error","param":null,)"
            R"("code":400}})");
}

TEST(ErrorTest, TypesAreOpenAis) {
  const std::map<int, std::string> types = {
      {400, "invalid_request_error"}, {401, "authentication_error"},  {403, "permission_error"},
      {404, "not_found_error"},       {405, "invalid_request_error"}, {429, "rate_limit_error"},
      {500, "server_error"},          {503, "unavailable_error"},     {507, "server_error"}};
  for (const auto& [status, type] : types) {
    EXPECT_EQ(ErrorJson(status, "")["error"]["type"], type) << status;
  }
}

TEST(ErrorTest, AResponseSaysWhenToTryAgainAndHowToBeLetIn) {
  EXPECT_THAT(ErrorResponse(503, "full").headers, Contains(Pair("Retry-After", "1")));
  EXPECT_THAT(ErrorResponse(401, "who").headers, ElementsAre(Pair("WWW-Authenticate", "Bearer")));
  EXPECT_THAT(ErrorResponse(400, "no").headers, IsEmpty());
}

TEST(ErrorTest, AStatusBecomesAResponse) {
  const Response response = ErrorResponse(Status::NotFound("context 'a' is not there"));
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.content_type, "application/json");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
  EXPECT_EQ(json["error"]["message"], "context 'a' is not there");
}

TEST(ErrorTest, WantOfRoomKeepsItsCodeAndNamesNoTimeToTryAgain) {
  const Status status = Status::ResourceExhausted("the quota is full");
  EXPECT_THAT(ErrorResponse(status).headers, Contains(Pair("Retry-After", "1")));
  const Response response = ErrorResponse(507, status);
  EXPECT_EQ(response.status, 507);
  EXPECT_THAT(response.headers, IsEmpty());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
  EXPECT_EQ(json["error"]["code"], 507);
  EXPECT_EQ(json["error"]["status"], "resource exhausted");
  EXPECT_EQ(json["error"]["message"], "the quota is full");
}

TEST(ErrorTest, AMessageOfAnyBytesIsJson) {
  ATTNDB_EXPECT_OK(ParseJson(ErrorResponse(400, "'\xff\n\"\x01' is cut: \xc3").body));
}

}  // namespace
}  // namespace attndb::server
