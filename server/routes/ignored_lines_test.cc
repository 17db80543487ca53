// Goal:   with ServerOptions::ignored_lines, a line that changes with each request keeps nothing
//         behind it from being reused, by any interface; without it, it does.
// Method: a server on a tiny random model, asked over HTTP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/routes/tiny_server_test_util.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

class IgnoredLinesTest : public TinyServerTest {
 protected:
  void Start(const std::vector<std::string>& ignored_lines) {
    llama::EngineOptions engine = Engine();
    engine.chat_template = llama::kChatMl;
    ServerOptions options = Options();
    options.ignored_lines = ignored_lines;
    options.pinned_prompts = {"id: 7\nBe kind."};
    StartServer(engine, options);
    while (Try("GET", "/ready", {}).status != 200) std::this_thread::yield();
  }
  // A system message as clients of agents send it.
  static std::string System(int request) {
    return "You are an agent.\r\nid: " + std::to_string(request) + "\r\nBe brief, always.";
  }
  static Json User(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
  // The tokens that a chat has, and those of it that were reused.
  std::pair<uint64_t, uint64_t> Chat(int request, const std::string& role, Json content) const {
    const Json system = {{"role", role}, {"content", std::move(content)}};
    const Json usage =
        Ask("/v1/chat/completions", {{"messages", Json::array({system, User("Which colour?")})},
                                     {"max_tokens", 2},
                                     {"temperature", 0},
                                     {"seed", request}})["usage"];
    return {usage["prompt_tokens"].get<uint64_t>(),
            usage["prompt_tokens_details"]["cached_tokens"].get<uint64_t>()};
  }
};

// The last token of a prompt is run in any case.
TEST_F(IgnoredLinesTest, WhatComesBehindALineIsReused) {
  Start({"^id: [0-9]+$"});
  const uint64_t num_tokens = Chat(1, "system", System(1)).first;
  for (const int request : {2, 3}) {
    const auto [num_prompt, num_cached] = Chat(request, "system", System(request));
    EXPECT_EQ(num_prompt, num_tokens);
    EXPECT_EQ(num_cached, num_tokens - 1);
  }
  const Json parts = Json::array({{{"type", "text"}, {"text", System(4)}}});
  EXPECT_EQ(Chat(4, "system", parts).second, num_tokens - 1);
  EXPECT_THAT(Send("GET", "/metrics", {}).body, HasSubstr("attndb_ignored_lines_total 4\n"));
}

TEST_F(IgnoredLinesTest, WithoutTheFlagNothingBehindTheLineIsReused) {
  Start({});
  const uint64_t num_tokens = Chat(1, "system", System(1)).first;
  const auto [num_prompt, num_cached] = Chat(2, "system", System(2));
  EXPECT_EQ(num_prompt, num_tokens);
  EXPECT_LT(num_cached, num_tokens - System(2).size() / 2);
  EXPECT_THAT(Send("GET", "/metrics", {}).body, HasSubstr("attndb_ignored_lines_total 0\n"));
}

TEST_F(IgnoredLinesTest, AllInterfacesLeaveTheLineOut) {
  Start({"^id: [0-9]+$"});
  const Json messages = {
      {"messages", Json::array({{{"role", "developer"}, {"content", System(1)}}, User("id: 2")})}};
  const std::string prompt = Ask("/apply-template", messages)["prompt"].get<std::string>();
  EXPECT_THAT(prompt, HasSubstr("You are an agent.\r\nBe brief, always."));
  EXPECT_THAT(prompt, HasSubstr("user\nid: 2<")) << "it is the user's";

  const auto anthropic = [this](int request) {
    const Json blocks = Json::array({{{"type", "text"}, {"text", "id: " + std::to_string(request)}},
                                     {{"type", "text"}, {"text", "Be brief, always."}}});
    return Ask("/v1/messages", {{"model", "m"},
                                {"system", blocks},
                                {"messages", Json::array({User("Which colour?")})},
                                {"max_tokens", 2}})["usage"]["cache_read_input_tokens"]
        .get<uint64_t>();
  };
  EXPECT_LT(anthropic(1), 30u);
  EXPECT_GT(anthropic(20), 30u);

  const auto response = [this](int request, const Json& previous) {
    Json body = {
        {"instructions", System(request)}, {"input", "Which shape?"}, {"max_output_tokens", 2}};
    if (!previous.is_null()) body["previous_response_id"] = previous;
    return Ask("/v1/responses", body);
  };
  const Json first = response(1, {});
  const Json next = response(30, first["id"]);
  EXPECT_GE(next["usage"]["input_tokens_details"]["cached_tokens"].get<uint64_t>(),
            first["usage"]["input_tokens"].get<uint64_t>());
  const Json count = {{"messages", Json::array({User("Hi")})}, {"system", "id: 1\nBe"}};
  Json longer = count;
  longer["system"] = "id: 123456789\nBe";
  EXPECT_EQ(Ask("/v1/messages/count_tokens", count), Ask("/v1/messages/count_tokens", longer));
}

// The place is one of what the template was given.
TEST_F(IgnoredLinesTest, APlaceCountsWithoutTheLines) {
  Start({"^id: [0-9]+$"});
  Json messages =
      Json::array({{{"role", "system"}, {"content", System(1)}}, User("Which colour?")});
  const Json body = {{"max_tokens", 2}, {"temperature", 0}};
  const auto send = [&] {
    Json asked = body;
    asked["messages"] = messages;
    return Send("POST", "/v1/chat/completions", asked);
  };
  const Json reply = (*ParseJson(send().body))["choices"][0]["message"];
  messages.push_back(reply);
  messages.push_back(User("Sure?"));
  messages[0]["content"] = System(123456);
  ClientAnswer answer = send();
  EXPECT_EQ(answer.headers.count("x-attndb-parted"), 0u) << answer.headers["x-attndb-parted"];
  messages[0]["content"] = "You are an agent.\r\nid: 5\r\nBe brief. Always.";
  messages.push_back((*ParseJson(answer.body))["choices"][0]["message"]);
  messages.push_back(User("Really?"));
  const Json explained =
      *ParseJson(Send("POST", "/attndb/v1/explain", {{"messages", messages}}).body);
  EXPECT_EQ(explained["parted"]["message"], 0) << explained["parted"];
  EXPECT_EQ(explained["parted"]["character"], std::string("You are an agent.\r\nBe brief").size());
}

TEST_F(IgnoredLinesTest, PinnedPromptsAreKeptWithoutTheLines) {
  Start({"^id: [0-9]+$"});
  const auto [num_prompt, num_cached] = Chat(1, "system", "id: 8\nBe kind.");
  EXPECT_GT(num_cached, std::string("Be kind.").size() / 2);
  EXPECT_LT(num_cached, num_prompt);
}

}  // namespace
}  // namespace attndb::server
