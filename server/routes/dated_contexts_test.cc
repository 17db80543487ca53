// Goal:   with a template that shows the date, documents, conversations and responses of yesterday
//         go on today, and after a restart, without a token of them being run again.
// Method: a server on a tiny random model, asked over HTTP; its engine has a clock of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "engines/llama/chat/chat_test_util.h"
#include "engines/llama/engine_test_util.h"
#include "server/http/client.h"
#include "server/http/http_test_util.h"
#include "server/json.h"
#include "server/server.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDay = 86'400;
constexpr char kChat[] = "/v1/chat/completions";

class DatedContextsTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  void Start() {
    llama::EngineOptions engine = llama::TinyOptions(llama::HookVariant::kRewrite);
    engine.cache_dir = directory_.File("cache");
    engine.chat_template = llama::kDatedTemplate;
    engine.clock = [this] { return now_.load(); };
    ServerOptions options;
    options.listener.port = 0;
    options.plan = "full";
    options.window_tokens = 4096;
    auto server = Server::Start(*llama::LlamaEngine::Open(llama::TinyModel("llama_bpe"), engine),
                                *DB::Open(directory_.File("store"), {}), options);
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }
  // A day later.
  void Restart() {
    server_->Stop(kPatience);
    server_.reset();
    now_ += kDay;
    Start();
  }

  Json Ask(const std::string& path, const Json& body) const { return Send("POST", path, body); }
  Json Send(const std::string& method, const std::string& path, const Json& body) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .silence_timeout = kPatience});
    EXPECT_THAT(client, ::attndb::test::IsOk());
    Result<ClientAnswer> sent =
        (*client)->Send({.method = method, .path = path, .body = ToText(body)});
    EXPECT_THAT(sent, ::attndb::test::IsOk());
    EXPECT_EQ(sent->status, 200) << sent->body;
    return *ParseJson(sent->body);
  }
  static Json Asking(const Json& messages) {
    return {{"messages", messages}, {"max_tokens", 4}, {"temperature", 0}, {"ignore_eos", true}};
  }
  static uint64_t Cached(const Json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<uint64_t>();
  }

  std::atomic<int64_t> now_ = 1'764'590'400;
  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(DatedContextsTest, ADocumentIsAskedTomorrow) {
  const Json document = {{"name", "cat"}, {"text", "The cat is grey. It sleeps on the roof."}};
  const uint64_t num_tokens = Ask("/attndb/v1/contexts", document)["num_tokens"].get<uint64_t>();
  for (int day = 0; day < 2; ++day) {
    Json asked = Asking(Json::array({{{"role", "user"}, {"content", "Which colour?"}}}));
    asked["context"] = "cat";
    EXPECT_GE(Cached(Ask(kChat, asked)), num_tokens) << day;
    EXPECT_EQ(Ask("/attndb/v1/contexts", document)["already_imported"], true);
    Restart();
  }
}

// The words of a random model's reply need not be those of its tokens: these may be run again.
TEST_F(DatedContextsTest, AConversationGoesOnTomorrow) {
  Json messages = Json::array({{{"role", "user"}, {"content", "Which colour is the cat?"}}});
  for (int day = 0; day < 3; ++day) {
    const Json answer = Ask(kChat, Asking(messages));
    const uint64_t num_asked = answer["usage"]["prompt_tokens"].get<uint64_t>();
    messages.push_back(answer["choices"][0]["message"]);
    messages.push_back({{"role", "user"}, {"content", "Sure?"}});
    if (day == 1) {
      Restart();
    } else {
      now_ += kDay;
    }
    const Json next = Ask(kChat, Asking(messages));
    EXPECT_GE(Cached(next), num_asked) << day;
    messages.push_back(next["choices"][0]["message"]);
    messages.push_back({{"role", "user"}, {"content", "Really?"}});
  }
}

TEST_F(DatedContextsTest, AResponseGoesOnTomorrow) {
  Json asked = {{"input", "Which colour is the cat?"}, {"max_output_tokens", 4}};
  Json answer = Ask("/v1/responses", asked);
  for (int day = 0; day < 2; ++day) {
    const uint64_t num_asked = answer["usage"]["input_tokens"].get<uint64_t>();
    asked["input"] = "Sure?";
    asked["previous_response_id"] = answer["id"];
    Restart();
    answer = Ask("/v1/responses", asked);
    const Json& details = answer["usage"]["input_tokens_details"];
    EXPECT_GE(details["cached_tokens"].get<uint64_t>(), num_asked) << day;
  }
}

TEST_F(DatedContextsTest, ANewConversationShowsTheDateOfToday) {
  const Json asked = {{"messages", Json::array({{{"role", "user"}, {"content", "Hello"}}})}};
  EXPECT_THAT(Ask("/apply-template", asked)["prompt"], HasSubstr("01 December 2025"));
  now_ += kDay;
  EXPECT_THAT(Ask("/apply-template", asked)["prompt"], HasSubstr("02 December 2025"));
}

}  // namespace
}  // namespace attndb::server
