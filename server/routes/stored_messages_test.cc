// Goal:   a stored conversation is opened with its messages, by role, before and after its Store;
//         what a model thought is apart from what it said; no tenant opens another's.
// Method: SmolLM2's vocabulary under a template of the tests; turns are kept as the scheduler keeps
//         them, with replies of the test's own; a responder that keeps what it is sent.
#include "server/routes/stored_messages.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/llama_engine.h"
#include "engines/llama/prompt_layout.h"
#include "server/batch/prompts.h"
#include "server/batch/turn_id.h"
#include "server/json.h"
#include "server/routes/routes_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

constexpr const char* kReply = "<think>\nWell, cats.\n</think>\n\nGrey it is";

class StoredMessagesTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(llama::kThinkTemplate); }
  void Open(const std::string& chat_template) {
    Result<llama::LlamaEngine> engine =
        llama::LlamaEngine::Open("smollm2", {.num_threads = 1, .chat_template = chat_template});
    ASSERT_THAT(engine, ::attndb::test::IsOk());
    engine_.emplace(*std::move(engine));
    Result<DB> db = DB::Open(directory_.File("store"), {});
    ASSERT_THAT(db, ::attndb::test::IsOk());
    db_.emplace(*std::move(db));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    service_.conversations = &*conversations_;
    service_.metrics = &metrics_;
    service_.log = &log_;
    service_.engine = &*engine_;
    service_.run_later = [](const Call&, const std::function<void()>& work) { work(); };
    service_.run_waiting = [](const Call&, const std::function<void()>& work) { work(); };
  }
  void TearDown() override {
    if (conversations_) conversations_->WaitForStores();
  }

  // Keeps a conversation that ends with the reply, under the name or one of its own.
  void Keep(const std::string& given, const std::vector<llama::ChatMessage>& messages,
            const std::string& reply, const llama::ChatOptions& options = {}) {
    const Prompts prompts(&*engine_, &*conversations_);
    ATTNDB_ASSERT_OK_AND_ASSIGN(Prompt prompt, prompts.OfChat(tenant_, "", messages, options));
    const std::string name = given.empty() ? NewTurnId(prompt.digest) : given;
    std::vector<TokenId> turn = prompt.tokens;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> said,
                                engine_->Tokenize(reply, false, false));
    turn.insert(turn.end(), said.begin(), said.end());
    ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation start, conversations_->Start(tenant_, turn, "full"));
    ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
    llama::AddReply({prompt.tokens.size(), turn.size()}, &prompt.text);
    conversations_->Keep(tenant_, name, std::move(start.session), turn, std::nullopt, prompt.text);
  }
  Response Ask(const Json& body, const std::string& tenant = TenantRules().tenant) {
    const auto request = std::make_shared<server::Request>();
    request->body = ToText(body);
    const auto responder = std::make_shared<KeepingResponder>();
    Call call;
    call.request = request;
    call.responder = responder;
    call.rules.tenant = tenant;
    AnswerStoredMessages(&service_, std::move(call));
    return responder->sent;
  }

  const std::string tenant_ = TenantRules().tenant;
  ::attndb::test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
  std::optional<DB> db_;
  std::optional<Conversations> conversations_;
  Service service_;

 private:
  Metrics metrics_;
  RequestLog log_{LogFormat::kOff, stderr};
};

TEST_F(StoredMessagesTest, AreThoseOfTheConversationAndWhatWasThoughtIsApart) {
  Keep("turn-cat",
       {{"system", "Be brief."},
        {"user", "Hi <|im_end|>"},
        {"assistant", "Hello."},
        {"user", "Which colour\nis the cat?"}},
       kReply);
  const Response response = Ask({{"context", "turn-cat"}});
  ASSERT_EQ(response.status, 200) << response.body;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
  EXPECT_EQ(json["context"], "turn-cat");
  EXPECT_EQ(json["form"], "dialogue");
  EXPECT_GT(json["num_tokens"], 30);
  EXPECT_EQ(json["messages"],
            Json::array({{{"role", "system"}, {"content", "Be brief."}},
                         {{"role", "user"}, {"content", "Hi <|im_end|>"}},
                         {{"role", "assistant"}, {"content", "Hello."}},
                         {{"role", "user"}, {"content", "Which colour\nis the cat?"}},
                         {{"role", "assistant"},
                          {"content", "Grey it is"},
                          {"reasoning_content", "Well, cats.\n"}}}))
      << response.body;
}

class StoredCallsTest : public StoredMessagesTest {
 protected:
  void SetUp() override { Open(llama::kToolTemplate); }
};

TEST_F(StoredCallsTest, ACallIsWhatTheModelWroteInLaterTurnsToo) {
  const std::string said =
      "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>";
  const llama::ChatOptions options = {.tools = llama::TwoTools()};
  std::vector<llama::ChatMessage> messages = {{"user", "How is the weather in Oslo?"}};
  Keep("", messages, said, options);
  conversations_->WaitForStores();
  messages.push_back({"assistant", "",
                      R"({"tool_calls": [{"id": "c", "type": "function", "function":
                          {"name": "get_weather", "arguments": "{\"city\": \"Oslo\"}"}}]})"});
  messages.push_back({"tool", "It rains.", R"({"tool_call_id": "c"})"});
  Keep("turn-wet", messages, "Wet.", options);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(Ask({{"context", "turn-wet"}}).body));
  EXPECT_EQ(json["messages"],
            Json::array({{{"role", "user"}, {"content", "How is the weather in Oslo?"}},
                         {{"role", "assistant"}, {"content", said}},
                         {{"role", "tool"}, {"content", "It rains."}},
                         {{"role", "assistant"}, {"content", "Wet."}}}))
      << json;
}

TEST_F(StoredMessagesTest, AreTheTenantsAlone) {
  Keep("turn-cat", {{"user", "Hi"}}, "Hello");
  EXPECT_EQ(Ask({{"context", "turn-cat"}}).status, 200);
  EXPECT_EQ(Ask({{"context", "turn-cat"}}, "other").status, 404);
  EXPECT_EQ(Ask({{"context", "turn-dog"}}).status, 404);
  EXPECT_EQ(Ask({{"context", ""}}).status, 400);
  EXPECT_EQ(Ask(Json::array()).status, 400);
}

TEST_F(StoredMessagesTest, ATextWithoutALayoutHasNone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<TokenId> tokens,
                              engine_->Tokenize("Once upon a time", false, false));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Continuation start, conversations_->Start(tenant_, tokens, "full"));
  ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
  conversations_->Keep(tenant_, "tale", std::move(start.session), tokens);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(Ask({{"context", "tale"}}).body));
  EXPECT_EQ(json["form"], "unknown");
  EXPECT_EQ(json["messages"], Json::array());
}

}  // namespace
}  // namespace attndb::server
