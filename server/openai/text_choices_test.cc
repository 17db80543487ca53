// Goal:   the choices of an answer come together as clients of OpenAI's interface expect them: each
//         with its index, its own end and its own context; one usage for all; one error only if all
//         have failed.
// Method: a responder that writes down what it is told; turns are told by hand.
#include "server/openai/text_choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/chat/turn_headers.h"
#include "server/http/recording_responder_test_util.h"
#include "server/openai/text_answer.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

TurnEnd Ended(uint64_t num_tokens) {
  return {.finish = llama::FinishReason::kEnd, .num_tokens = num_tokens};
}

class TextChoicesTest : public ::testing::Test {
 protected:
  // Choices that have begun.
  std::vector<std::unique_ptr<TextAnswer>> Begin(size_t count, AnswerStyle style) {
    style.model = "tiny";
    style.num_choices = count;
    const auto answer = std::make_shared<TextChoices>(responder_, std::move(style));
    std::vector<std::unique_ptr<TextAnswer>> choices;
    for (size_t i = 0; i < count; ++i) {
      choices.push_back(std::make_unique<TextAnswer>(answer, i));
      choices.back()->OnStart(
          {.id = "turn-" + std::to_string(i), .num_prompt_tokens = 10, .num_cached_tokens = 4});
    }
    return choices;
  }
  // The choices of all events that have one: "index:delta:reason".
  std::vector<std::string> Choices() const {
    std::vector<std::string> texts;
    for (const std::string& event : responder_->Events()) {
      if (event == "[DONE]") continue;
      const Json json = Parsed(event);
      if (!json.contains("choices") || json["choices"].empty()) continue;
      EXPECT_EQ(json["choices"].size(), 1u) << event;
      EXPECT_EQ(json["id"], "chatcmpl-turn-0");
      const Json& choice = json["choices"][0];
      texts.push_back(ToText(choice["index"]) + ":" + ToText(choice["delta"]) + ":" +
                      ToText(choice["finish_reason"]));
    }
    return texts;
  }

  const std::shared_ptr<RecordingResponder> responder_ = std::make_shared<RecordingResponder>();
};

TEST_F(TextChoicesTest, AWholeAnswerHasTheChoicesInTheirOrder) {
  const auto choices = Begin(3, {});
  for (const size_t i : {2u, 0u, 1u}) {
    EXPECT_FALSE(responder_->sent) << "it waits for the last";
    choices[i]->OnDelta({.content = "says " + std::to_string(i)});
    choices[i]->OnEnd(Ended(i + 1), /*num_calls=*/0);
  }
  ASSERT_TRUE(responder_->sent);
  EXPECT_THAT(responder_->sent->headers, ElementsAre(Pair(kContextHeader, "turn-0")));
  EXPECT_EQ(responder_->sent->body,
            R"({"id":"chatcmpl-turn-0","object":"chat.completion","created":0,"model":"tiny",)"
            R"("system_fingerprint":null,"choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"says 0"},"logprobs":null,)"
            R"("finish_reason":"stop","attndb":{"context":"turn-0"}},)"
            R"({"index":1,"message":{"role":"assistant","content":"says 1"},"logprobs":null,)"
            R"("finish_reason":"stop","attndb":{"context":"turn-1"}},)"
            R"({"index":2,"message":{"role":"assistant","content":"says 2"},"logprobs":null,)"
            R"("finish_reason":"stop","attndb":{"context":"turn-2"}}],)"
            R"("usage":{"prompt_tokens":10,"completion_tokens":6,"total_tokens":16,)"
            R"("prompt_tokens_details":{"cached_tokens":4},)"
            R"("completion_tokens_details":{"reasoning_tokens":0}}})");
}

TEST_F(TextChoicesTest, EachChoiceHasItsOwnCallsReasonsAndLogprobs) {
  const auto choices = Begin(3, {.logprobs = LogprobForm::kContent});
  llama::ReplyToken token;
  token.token = 5;
  token.text = R"("logprobs":null)";
  token.chance = -0.5;
  choices[0]->OnChances({token});
  choices[0]->OnDelta({.content = token.text});
  choices[1]->OnDelta({.calls = {{.id = "c0", .name = "now", .arguments = "{}"}}});
  for (size_t i = 0; i < 3; ++i) {
    TurnEnd end = Ended(1);
    if (i == 2) end.finish = llama::FinishReason::kMaxTokens;
    choices[i]->OnEnd(end, /*num_calls=*/i == 1 ? 1 : 0);
  }
  const Json json = Parsed(responder_->sent->body)["choices"];
  EXPECT_EQ(json[0]["message"]["content"], token.text);
  EXPECT_EQ(json[0]["logprobs"]["content"][0]["id"], 5);
  EXPECT_EQ(json[1]["message"]["tool_calls"][0]["function"]["name"], "now");
  EXPECT_THAT(json[1]["logprobs"]["content"], IsEmpty());
  EXPECT_EQ(json[0]["finish_reason"], "stop");
  EXPECT_EQ(json[1]["finish_reason"], "tool_calls");
  EXPECT_EQ(json[2]["finish_reason"], "length");
}

TEST_F(TextChoicesTest, AStreamHasTheDeltasAsTheyCome) {
  const auto choices = Begin(2, {.stream = true, .include_usage = true});
  EXPECT_FALSE(responder_->begun);
  choices[1]->OnDelta({.content = "b"});
  choices[0]->OnDelta({.content = "a"});
  choices[1]->OnDelta({.content = "B"});
  choices[1]->OnEnd(Ended(2), /*num_calls=*/0);
  EXPECT_FALSE(responder_->ended);
  choices[0]->OnDelta({.content = "A"});
  choices[0]->OnEnd(Ended(3), /*num_calls=*/0);
  EXPECT_TRUE(responder_->ended);
  EXPECT_THAT(responder_->begun->headers, Contains(Pair(kContextHeader, "turn-0")));
  EXPECT_THAT(Choices(), ElementsAre(R"(0:{"content":"","role":"assistant"}:null)",
                                     R"(1:{"content":"","role":"assistant"}:null)",
                                     R"(1:{"content":"b"}:null)", R"(0:{"content":"a"}:null)",
                                     R"(1:{"content":"B"}:null)", R"(1:{}:"stop")",
                                     R"(0:{"content":"A"}:null)", R"(0:{}:"stop")"));
  const std::vector<std::string> events = responder_->Events();
  EXPECT_EQ(Parsed(events[5])["choices"][0]["attndb"]["context"], "turn-1");
  EXPECT_EQ(events.back(), "[DONE]");
  const Json usage = Parsed(events[events.size() - 2])["usage"];
  EXPECT_EQ(usage["prompt_tokens"], 10);
  EXPECT_EQ(usage["completion_tokens"], 5);
}

TEST_F(TextChoicesTest, AChoiceThatFailsLeavesTheOthersTheirAnswer) {
  for (const bool fails_last : {false, true}) {
    responder_->sent.reset();
    const auto choices = Begin(2, {});
    const auto fail = [&] { choices[0]->OnError(Status::ResourceExhausted("no room in /secret")); };
    choices[0]->OnDelta({.content = "so far"});
    if (!fails_last) fail();
    choices[1]->OnDelta({.content = "all"});
    choices[1]->OnEnd(Ended(3), /*num_calls=*/0);
    if (fails_last) fail();
    ASSERT_TRUE(responder_->sent);
    EXPECT_EQ(responder_->sent->status, 200);
    EXPECT_THAT(responder_->sent->body, Not(HasSubstr("secret")));
    const Json json = Parsed(responder_->sent->body);
    EXPECT_EQ(json["choices"][0]["message"]["content"], "so far");
    EXPECT_EQ(json["choices"][0]["finish_reason"], "error");
    EXPECT_EQ(json["choices"][0]["attndb"]["error"]["code"], 503);
    EXPECT_EQ(json["choices"][1]["finish_reason"], "stop");
    EXPECT_EQ(json["usage"]["completion_tokens"], 3);
  }
}

TEST_F(TextChoicesTest, AStreamGoesOnWithoutTheChoiceThatFailed) {
  const auto choices = Begin(3, {.stream = true});
  choices[2]->OnError(Status::Internal("before any text"));
  EXPECT_FALSE(responder_->begun || responder_->sent);
  choices[0]->OnDelta({.content = "a"});
  choices[0]->OnError(Status::Internal("behind it"));
  choices[1]->OnDelta({.content = "b"});
  choices[1]->OnEnd(Ended(1), /*num_calls=*/0);
  EXPECT_THAT(Choices(),
              ElementsAre(R"(0:{"content":"","role":"assistant"}:null)",
                          R"(1:{"content":"","role":"assistant"}:null)",
                          R"(2:{"content":"","role":"assistant"}:null)", R"(2:{}:"error")",
                          R"(0:{"content":"a"}:null)", R"(0:{}:"error")",
                          R"(1:{"content":"b"}:null)", R"(1:{}:"stop")"));
  EXPECT_EQ(responder_->Events().back(), "[DONE]");
}

TEST_F(TextChoicesTest, IfAllChoicesFailTheAnswerIsTheFirstError) {
  for (const bool stream : {false, true}) {
    responder_->sent.reset();
    const auto choices = Begin(2, {.stream = stream});
    choices[1]->OnError(Status::ResourceExhausted("no memory"));
    choices[0]->OnError(Status::Internal("later"));
    ASSERT_TRUE(responder_->sent) << stream;
    EXPECT_EQ(responder_->sent->status, 503);
    EXPECT_THAT(responder_->sent->body, HasSubstr("no memory"));
  }
}

TEST_F(TextChoicesTest, AStreamWhoseChoicesAllFailEndsWithAnError) {
  const auto choices = Begin(2, {.stream = true});
  choices[0]->OnDelta({.content = "a"});
  choices[0]->OnError(Status::IoError("the disk is gone"));
  choices[1]->OnError(Status::Internal("later"));
  EXPECT_TRUE(responder_->ended);
  const std::vector<std::string> events = responder_->Events();
  EXPECT_EQ(Parsed(events.back())["error"]["message"], "the disk is gone");
  EXPECT_THAT(events, Not(Contains("[DONE]")));
}

TEST_F(TextChoicesTest, ATurnThatIsNotStoredNamesNoContext) {
  const auto answer = std::make_shared<TextChoices>(responder_, AnswerStyle{.num_choices = 2});
  for (size_t i = 0; i < 2; ++i) {
    TextAnswer choice(answer, i);
    choice.OnStart({.id = "turn", .is_kept = false});
    choice.OnEnd(Ended(1), /*num_calls=*/0);
  }
  EXPECT_THAT(responder_->sent->body, Not(HasSubstr("attndb")));
}

TEST_F(TextChoicesTest, ThreadsMayWriteTheirChoicesAtOnce) {
  constexpr size_t kDeltas = 50;
  const auto choices = Begin(4, {.stream = true, .include_usage = true});
  std::vector<std::thread> threads;
  for (const auto& choice : choices) {
    threads.emplace_back([&choice] {
      for (size_t i = 0; i < kDeltas; ++i) choice->OnDelta({.content = std::to_string(i) + " "});
      choice->OnEnd(Ended(kDeltas), /*num_calls=*/0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (size_t i = 0; i < kDeltas; ++i) expected += std::to_string(i) + " ";
  std::map<int, std::string> texts;
  const std::vector<std::string> events = responder_->Events();
  for (const std::string& event : events) {
    if (event == "[DONE]") continue;
    const Json json = Parsed(event);
    if (json["choices"].empty()) continue;
    const Json& choice = json["choices"][0];
    if (choice["delta"].contains("content")) {
      texts[choice["index"].get<int>()] += choice["delta"]["content"].get<std::string>();
    }
  }
  EXPECT_THAT(texts, ElementsAre(Pair(0, expected), Pair(1, expected), Pair(2, expected),
                                 Pair(3, expected)));
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(Parsed(events[events.size() - 2])["usage"]["completion_tokens"], 4 * kDeltas);
}

}  // namespace
}  // namespace attndb::server
