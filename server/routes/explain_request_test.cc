// Goal:   each form of a request to explain is read whole, and what is wrong is refused by its
//         field.
// Method: bodies as clients send them.
#include "server/routes/explain_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

Json Chat(const std::string& more) {
  return Json::parse(R"({"messages": [{"role": "user", "content": "U"}])" + more + "}");
}

TEST(ExplainRequestTest, AChatsTokenAndItsLengthAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ExplainRequest bare, ParseExplain(Chat("")));
  EXPECT_EQ(bare.token, 0u);
  EXPECT_EQ(bare.num_listed, 32u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ExplainRequest full,
      ParseExplain(Chat(R"(, "token": 3, "top": 1024, "context": "c", "plan": "full")")));
  EXPECT_EQ(full.token, 3u);
  EXPECT_EQ(full.num_listed, 1024u);
  EXPECT_EQ(full.text.context, "c");
  EXPECT_EQ(full.text.plan, "full");
  for (const char* const field : {R"("top": 0)", R"("top": 1025)", R"("token": -1)",
                                  R"("token": 65537)", R"("token": "first")"}) {
    EXPECT_THAT(ParseExplain(Chat(", " + std::string(field))),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected an integer")))
        << field;
  }
  EXPECT_THAT(ParseExplain(Chat(R"(, "n": 2)")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'n' is 2, expected 1")));
  EXPECT_THAT(ParseExplain(Json::parse(R"({"messages": []})")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("messages")));
}

TEST(ExplainRequestTest, AContextNeedsNoMessages) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const TextRequest request,
      ParseExplainContext(Json::parse(R"({"context": "c", "plan": "full"})")));
  EXPECT_EQ(request.context, "c");
  EXPECT_EQ(request.plan, "full");
  EXPECT_THAT(ParseExplainContext(Json::parse(R"({"context": 3})")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("context")));
  EXPECT_THAT(ParseExplainContext(Json::parse("[]")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
}

TEST(ExplainRequestTest, ATextIsReadWithWhatStandsInFrontOfIt) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ExplainTextRequest request,
                              ParseExplainText(Json::parse(
                                  R"({"text": "T", "system": "S", "raw": true, "context": "c"})")));
  EXPECT_EQ(request.text, "T");
  EXPECT_EQ(request.system, "S");
  EXPECT_EQ(request.context, "c");
  EXPECT_TRUE(request.raw);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ExplainTextRequest stored,
                              ParseExplainText(Json::parse(R"({"prompt_of": "p"})")));
  EXPECT_EQ(stored.prompt_of, "p");
  EXPECT_EQ(stored.text, "");
  EXPECT_THAT(ParseExplainText(Json::parse(R"({"text": "T", "prompt_of": "p"})")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("exclude each other")));
  EXPECT_THAT(ParseExplainText(Json::parse(R"({"text": "T", "raw": "yes"})")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("raw")));
}

}  // namespace
}  // namespace attndb::server
