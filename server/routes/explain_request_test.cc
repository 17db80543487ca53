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

Result<ExplainRequest> Parse(const Json& body) {
  return ParseExplain(body, [](const std::string& id) -> Result<ChatMessages> {
    if (id != "resp_1") return Status::NotFound("there is no response " + id);
    return ChatMessages{{"user", "Before"}, {"assistant", "Yes"}};
  });
}

TEST(ExplainRequestTest, ItMayBeABodyOfAnotherInterface) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ExplainRequest message, Parse(Json::parse(R"({
      "interface": "messages", "system": "S", "token": 1, "context": "c", "plan": "full",
      "messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]})")));
  ASSERT_EQ(message.text.messages.size(), 3u);
  EXPECT_EQ(message.text.messages[0].content, "S");
  EXPECT_EQ(message.text.messages[2].role, "assistant");
  EXPECT_FALSE(message.text.chat.continues_last);
  EXPECT_EQ(message.text.context, "c");
  EXPECT_EQ(message.text.plan, "full");
  EXPECT_EQ(message.token, 1u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ExplainRequest response, Parse(Json::parse(R"({
      "interface": "responses", "instructions": "S", "input": "U",
      "previous_response_id": "resp_1"})")));
  ASSERT_EQ(response.text.messages.size(), 4u);
  EXPECT_EQ(response.text.messages[1].content, "Before");
  EXPECT_EQ(response.text.messages[3].content, "U");
  EXPECT_THAT(Parse(Json::parse(R"({"interface": "responses", "input": "U",
                                    "previous_response_id": "resp_2"})")),
              FailsWith(StatusCode::kNotFound, HasSubstr("resp_2")));
  EXPECT_THAT(Parse(Chat(R"(, "interface": "chats")")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'interface'")));
  EXPECT_THAT(Parse(Chat(R"(, "interface": "messages", "edits": "cut")")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'edits'")));
}

TEST(ExplainRequestTest, AChatsTokenAndItsLengthAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ExplainRequest bare, Parse(Chat("")));
  EXPECT_EQ(bare.token, 0u);
  EXPECT_EQ(bare.num_listed, 32u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const ExplainRequest full,
      Parse(Chat(R"(, "token": 3, "top": 1024, "context": "c", "plan": "full")")));
  EXPECT_EQ(full.token, 3u);
  EXPECT_EQ(full.num_listed, 1024u);
  EXPECT_EQ(full.text.context, "c");
  EXPECT_EQ(full.text.plan, "full");
  for (const char* const field : {R"("top": 0)", R"("top": 1025)", R"("token": -1)",
                                  R"("token": 65537)", R"("token": "first")"}) {
    EXPECT_THAT(Parse(Chat(", " + std::string(field))),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr("expected an integer")))
        << field;
  }
  EXPECT_THAT(Parse(Chat(R"(, "n": 2)")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'n' is 2, expected 1")));
  EXPECT_THAT(Parse(Json::parse(R"({"messages": []})")),
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
