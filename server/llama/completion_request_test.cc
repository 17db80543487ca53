// Goal:   requests in the form of llama.cpp's server are read whole, and what is wrong is refused
//         by its field.
// Method: bodies as its clients send them.
#include "server/llama/completion_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Result<LlamaCompletion> Completion(const std::string& text) {
  return ParseLlamaCompletion(Json::parse(text));
}

TEST(LlamaCompletionTest, APromptIsATextOrIdsOrBothInTurn) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaCompletion text, Completion(R"({"prompt": "One"})"));
  ASSERT_EQ(text.prompt.size(), 1u);
  EXPECT_EQ(text.prompt[0].text, "One");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaCompletion ids, Completion(R"({"prompt": [7, 8]})"));
  ASSERT_EQ(ids.prompt.size(), 1u);
  EXPECT_THAT(ids.prompt[0].ids, ElementsAre(7, 8));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const LlamaCompletion mixed,
                              Completion(R"({"prompt": [[7, "two", "three", 8, 9]]})"));
  ASSERT_EQ(mixed.prompt.size(), 4u);
  EXPECT_THAT(mixed.prompt[0].ids, ElementsAre(7));
  EXPECT_EQ(mixed.prompt[1].text, "two");
  EXPECT_EQ(mixed.prompt[2].text, "three");
  EXPECT_THAT(mixed.prompt[3].ids, ElementsAre(8, 9));
}

TEST(LlamaCompletionTest, ChoicesHaveTwoNames) {
  EXPECT_EQ(Completion(R"({"prompt": "x"})")->text.num_choices, 1u);
  EXPECT_EQ(Completion(R"({"prompt": "x", "n": 2})")->text.num_choices, 2u);
  EXPECT_EQ(Completion(R"({"prompt": "x", "n": 2, "n_cmpl": 3})")->text.num_choices, 3u);
  EXPECT_THAT(Completion(R"({"prompt": "x", "n_cmpl": 0})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'n'")));
}

TEST(LlamaCompletionTest, IdsOfTokensAreToldInStreamsOrIfAskedFor) {
  EXPECT_FALSE(Completion(R"({"prompt": "x"})")->text.tells_tokens);
  EXPECT_TRUE(Completion(R"({"prompt": "x", "return_tokens": true})")->text.tells_tokens);
  EXPECT_TRUE(Completion(R"({"prompt": "x", "stream": true})")->text.tells_tokens);
  EXPECT_THAT(Completion(R"({"prompt": "x", "return_tokens": 1})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'return_tokens'")));
}

TEST(ChatControlTest, NamesTheTurnInTheIdOfAnAnswer) {
  const auto parse = [](const char* text) { return ParseChatControl(Json::parse(text)); };
  EXPECT_EQ(*parse(R"({"id": "chatcmpl-turn-1", "action": "reasoning_end", "model": "m"})"),
            "turn-1");
  EXPECT_EQ(*parse(R"({"id": "other", "action": "reasoning_end"})"), "other");
  for (const auto& [text, says] :
       {std::pair("[]", "no JSON object"), std::pair(R"({"action": "reasoning_end"})", "'id'"),
        std::pair(R"({"id": "", "action": "reasoning_end"})", "'id'"),
        std::pair(R"({"id": "x"})", "'action'"),
        std::pair(R"({"id": "x", "action": "stop"})", "expected reasoning_end")}) {
    EXPECT_THAT(parse(text), FailsWith(StatusCode::kInvalidArgument, HasSubstr(says))) << text;
  }
}

TEST(LlamaCompletionTest, WithoutANumberTheReplyFillsTheWindow) {
  EXPECT_TRUE(Completion(R"({"prompt": "x"})")->text.fills_window);
  EXPECT_TRUE(Completion(R"({"prompt": "x", "n_predict": -1})")->text.fills_window);
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const LlamaCompletion some,
      Completion(R"({"prompt": "x", "n_predict": 5, "stop": ["a"], "cache_prompt": true})"));
  EXPECT_FALSE(some.text.fills_window);
  EXPECT_EQ(some.text.max_tokens, 5u);
  EXPECT_THAT(some.text.stop, ElementsAre("a"));
  EXPECT_THAT(some.text.prompt, IsEmpty());
}

TEST(LlamaCompletionTest, WrongPromptsAreRefused) {
  for (const char* const body : {R"({})", R"({"prompt": ""})", R"({"prompt": []})",
                                 R"({"prompt": null})", R"({"prompt": 7})", R"({"prompt": [-1]})",
                                 R"({"prompt": [[1], [2]]})", R"({"prompt": [{"a": 1}]})"}) {
    EXPECT_THAT(Completion(body), FailsWith(StatusCode::kInvalidArgument, HasSubstr("'prompt")))
        << body;
  }
  EXPECT_THAT(Completion("[]"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("no JSON object")));
  EXPECT_THAT(Completion(R"({"prompt": "x", "temperature": -1})"),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("'temperature'")));
}

TEST(InfillRequestTest, TextsAndFilesAreRead) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const InfillRequest request,
      ParseInfill(Json::parse(R"({"input_prefix": "P", "input_suffix": "", "prompt": "Q",
          "input_extra": [{"filename": "a.py", "text": "A"}, {"text": "B"}]})")));
  EXPECT_EQ(request.prefix, "P");
  EXPECT_EQ(request.suffix, "");
  EXPECT_EQ(request.prompt, "Q");
  ASSERT_EQ(request.files.size(), 2u);
  EXPECT_EQ(request.files[0].name, "a.py");
  EXPECT_EQ(request.files[0].text, "A");
  EXPECT_EQ(request.files[1].name, "tmp");
}

TEST(InfillRequestTest, WrongFieldsAreRefused) {
  const struct {
    const char* body;
    const char* says;
  } kWrong[] = {
      {R"({"input_suffix": "S"})", "'input_prefix'"},
      {R"({"input_prefix": "P"})", "'input_suffix'"},
      {R"({"input_prefix": "P", "input_suffix": 3})", "'input_suffix'"},
      {R"({"input_prefix": "P", "input_suffix": "S", "prompt": 3})", "'prompt'"},
      {R"({"input_prefix": "P", "input_suffix": "S", "input_extra": {}})", "'input_extra'"},
      {R"({"input_prefix": "P", "input_suffix": "S", "input_extra": ["x"]})", "input_extra[0]"},
      {R"({"input_prefix": "P", "input_suffix": "S", "input_extra": [{}]})", "input_extra[0]"},
      {R"({"input_prefix": "P", "input_suffix": "S",
           "input_extra": [{"text": "t", "filename": 1}]})",
       "'filename'"},
  };
  for (const auto& [body, says] : kWrong) {
    EXPECT_THAT(ParseInfill(Json::parse(body)),
                FailsWith(StatusCode::kInvalidArgument, HasSubstr(says)))
        << body;
  }
}

TEST(DetokenizeRequestTest, IdsAreRead) {
  EXPECT_THAT(*ParseDetokenize(Json::parse(R"({"tokens": [1, 2]})")), ElementsAre(1, 2));
  EXPECT_THAT(*ParseDetokenize(Json::parse("{}")), IsEmpty());
  for (const char* const body : {R"({"tokens": "x"})", R"({"tokens": [-1]})", "[]"}) {
    EXPECT_FALSE(ParseDetokenize(Json::parse(body)).ok()) << body;
  }
}

}  // namespace
}  // namespace attndb::server
