// Goal:   with a template that shows the date, documents, conversations and responses of yesterday
//         go on today, and after a restart, without a token of them being run again.
// Method: a server on a tiny random model, asked over HTTP; its engine has a clock of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "engines/llama/chat/chat_test_util.h"
#include "server/routes/tiny_server_test_util.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDay = 86'400;
constexpr char kChat[] = "/v1/chat/completions";

class DatedContextsTest : public TinyServerTest {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { server_.reset(); }  // It has a clock of this object.

  void Start() {
    llama::EngineOptions engine = Engine();
    engine.chat_template = llama::kDatedTemplate;
    engine.clock = [this] { return now_.load(); };
    StartServer(engine, Options());
  }
  // A day later.
  void Restart() {
    server_->Stop(kPatience);
    now_ += kDay;
    Start();
  }

  static Json Asking(const Json& messages) {
    return {{"messages", messages}, {"max_tokens", 4}, {"temperature", 0}, {"ignore_eos", true}};
  }
  static uint64_t Cached(const Json& answer) {
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<uint64_t>();
  }

  std::atomic<int64_t> now_ = 1'764'590'400;
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
