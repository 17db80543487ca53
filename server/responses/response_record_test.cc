// Goal:   what is stored of a response gives it back, and no other note is taken for one.
// Method: a record is written and read; notes that are none.
#include "server/responses/response_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::IsOk;

TEST(ResponseRecordTest, ARecordIsReadAsItWasWritten) {
  const Result<Json> body =
      ParseJson(R"({"input":[{"role":"user","content":"And \"then\"?"}],"instructions":"S",)"
                R"("tools":[{"type":"function","name":"get","parameters":{"b":{},"a":{}}}],)"
                R"("metadata":{"k":"v"},"previous_response_id":"resp_turn-0"})");
  ASSERT_THAT(body, IsOk());
  Result<ResponseRequest> request = ParseResponse(*body);
  ASSERT_THAT(request, IsOk());
  const ChatMessages before = {{"user", "Hi"},
                               {"assistant", "Ho", R"({"reasoning_content":"Hm"})"}};
  ASSERT_THAT(TakeConversation(before, &*request), IsOk());

  ResponseRecord record;
  record.request = *request;
  record.frame = {.context = "", .model = "m", .created = 17, .settings = request->settings};
  record.reply = "<think>x</think>Yes.";
  record.status = kIncomplete;
  record.usage = Json{{"input_tokens", 3}};
  const Result<ResponseRecord> again =
      ParseRecord("turn-1", RecordFront(record.frame, record.request, before) + RecordEnd(record));
  ASSERT_THAT(again, IsOk());
  EXPECT_EQ(again->frame.context, "turn-1");
  EXPECT_EQ(again->frame.model, "m");
  EXPECT_EQ(again->frame.created, 17);
  EXPECT_EQ(again->reply, record.reply);
  EXPECT_EQ(again->status, record.status);
  EXPECT_EQ(ToText(again->usage), ToText(record.usage));
  EXPECT_EQ(ToText(again->frame.settings), ToText(record.frame.settings));
  EXPECT_EQ(again->request.text.chat.tools, request->text.chat.tools);
  EXPECT_EQ(ToText(JsonOfMessages(again->request.text.messages)),
            ToText(JsonOfMessages(request->text.messages)));
  EXPECT_EQ(again->request.conversation.size(), 3u);
}

TEST(ResponseRecordTest, OtherNotesAreNone) {
  for (const char* const note :
       {"", "words", "[]", "{}", R"({"attndb":{"version":2}})", R"({"attndb":{"version":1}})",
        R"({"input":"Hi","attndb":{"version":1}})",
        R"({"input":7,"attndb":{"version":1,"before":[]}})"}) {
    EXPECT_EQ(ParseRecord("turn-1", note).status().code(), StatusCode::kNotFound) << note;
  }
}

TEST(ResponseRecordTest, ReasoningIsCountedWhereTheRecordDoesNot) {
  const auto counted = [](uint64_t num_kept, uint64_t num_tokens) {
    ResponseRecord record;
    record.usage =
        Json{{"output_tokens", 9}, {"output_tokens_details", Json{{"reasoning_tokens", num_kept}}}};
    CountReasoning(num_tokens, &record);
    return record.usage["output_tokens_details"]["reasoning_tokens"].get<uint64_t>();
  };
  EXPECT_EQ(counted(0, 4), 4u);
  EXPECT_EQ(counted(0, 10), 9u) << "no more than there are";
  EXPECT_EQ(counted(3, 4), 3u) << "the marks were known";
  ResponseRecord none;
  CountReasoning(4, &none);
  EXPECT_TRUE(none.usage.is_null());
}

TEST(ResponseRecordTest, AReplyIsAMessageOfTheNextRequest) {
  llama::ReadReply reply = {.content = "C", .reasoning = "R", .calls = {}};
  reply.calls.push_back({.id = "", .name = "get", .arguments = "{}"});
  reply.calls.push_back({.id = "own", .name = "now", .arguments = ""});
  NameCalls("turn-1", &reply);
  const llama::ChatMessage message = MessageOf(reply);
  EXPECT_EQ(message.role, "assistant");
  EXPECT_EQ(message.content, "C");
  EXPECT_EQ(message.more,
            R"({"reasoning_content":"R","tool_calls":[{"id":"call_turn-1_0","type":"function",)"
            R"("function":{"name":"get","arguments":"{}"}},{"id":"own","type":"function",)"
            R"("function":{"name":"now","arguments":""}}]})");
  EXPECT_EQ(MessageOf({.content = "C", .reasoning = "", .calls = {}}).more, "");
}

}  // namespace
}  // namespace attndb::server
