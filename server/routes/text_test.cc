// Goal:   clients get what they ask for in the forms in which they ask.
// Method: a server on a tiny random model, asked over HTTP with ids of tokens, so that each prompt
//         has an exact length.
#include "server/routes/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

constexpr uint64_t kWindow = 64;

class TextTest : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    std::map<std::string, std::string> headers;
    std::string body;

    Json json() const {
      const Result<Json> parsed = ParseJson(body);
      EXPECT_THAT(parsed, ::attndb::test::IsOk()) << body;
      return parsed.ok() ? *parsed : Json::object();
    }
    std::string error() const { return json()["error"]["message"].get<std::string>(); }
    uint64_t usage(const char* field) const { return json()["usage"][field].get<uint64_t>(); }
    uint64_t cached() const {
      return json()["usage"]["prompt_tokens_details"]["cached_tokens"].get<uint64_t>();
    }
    std::string finish() const { return json()["choices"][0]["finish_reason"].get<std::string>(); }
  };

  void Start(uint64_t window_tokens = kWindow, uint64_t memory_bytes = 0) {
    llama::EngineOptions engine = llama::TinyOptions(llama::HookVariant::kRewrite);
    engine.cache_dir = directory_.File("cache");
    ServerOptions options;
    options.listener.port = 0;
    options.plan = "full";
    options.model_id = "tiny/model";
    options.window_tokens = window_tokens;
    DBOptions db = {.host_memory_bytes = memory_bytes};
    if (memory_bytes > 0) db.query_sample = 0;
    auto server = Server::Start(*llama::LlamaEngine::Open(llama::TinyModel("llama_spm"), engine),
                                *DB::Open(directory_.File("store"), db), options);
    ATTNDB_ASSERT_OK(server.status());
    server_ = *std::move(server);
  }
  void Restart(uint64_t window_tokens) {
    server_->Stop(kPatience);
    server_.reset();
    Start(window_tokens);
  }

  Answer Ask(const std::string& method, const std::string& path, const std::string& body) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .silence_timeout = kPatience});
    EXPECT_THAT(client, ::attndb::test::IsOk());
    Result<ClientAnswer> sent = (*client)->Send({.method = method, .path = path, .body = body});
    EXPECT_THAT(sent, ::attndb::test::IsOk());
    return {sent->status, std::move(sent->headers), std::move(sent->body)};
  }
  Answer Complete(const std::vector<TokenId>& prompt, Json fields) const {
    fields["prompt"] = prompt;
    fields["ignore_eos"] = true;
    fields["temperature"] = 0;
    return Ask("POST", "/v1/completions", ToText(fields));
  }
  Answer Chat(const Json& messages, Json fields) const {
    fields["messages"] = messages;
    fields["ignore_eos"] = true;
    fields["temperature"] = 0;
    return Ask("POST", "/v1/chat/completions", ToText(fields));
  }
  // Ids of a prompt, other ones for another seed.
  static std::vector<TokenId> Ids(size_t count, uint64_t seed = 1) {
    return llama::RandomIds(count, seed, 250);
  }

  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(TextTest, AReplyMayGoOnUntilTheWindowIsFull) {
  Start();
  for (const char* const number : {"-1", "-1.0"}) {
    const Answer answer = Complete(Ids(20), {{"max_tokens", *ParseJson(number)}});
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(answer.usage("completion_tokens"), kWindow - 20);
    EXPECT_EQ(answer.finish(), "length");
    EXPECT_FALSE(answer.headers.contains("x-attndb-dropped"));
  }
}

TEST_F(TextTest, APromptCanBeReadAndStoredWithoutAReply) {
  Start();
  const Answer answer = Complete(Ids(30), {{"max_tokens", 0}});
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.usage("completion_tokens"), 0u);
  EXPECT_EQ(answer.finish(), "length");
  EXPECT_EQ(answer.json()["choices"][0]["text"], "");
  std::vector<TokenId> longer = Ids(30);
  longer.push_back(7);
  EXPECT_EQ(Complete(longer, {{"max_tokens", 1}}).cached(), 30u);

  const Json question = Json::array({{{"role", "user"}, {"content", "Who?"}}});
  const Answer named = Chat(question, {{"max_tokens", 0}, {"store_as", "read"}});
  ASSERT_EQ(named.status, 200) << named.body;
  EXPECT_EQ(named.json()["choices"][0]["message"]["content"], "");
  const uint64_t num_prompt = named.usage("prompt_tokens");
  const Answer streamed = Chat(question, {{"max_tokens", 0}, {"stream", true}});
  EXPECT_THAT(streamed.body, HasSubstr(R"("finish_reason":"length")"));
  EXPECT_THAT(streamed.body, HasSubstr("[DONE]"));

  Restart(kWindow);
  const Answer info = Ask("GET", "/attndb/v1/contexts/read", "");
  EXPECT_EQ(info.json()["num_tokens"], num_prompt) << info.body;
  EXPECT_EQ(Chat(question, {{"max_tokens", 1}}).cached(), num_prompt - 1);
}

TEST_F(TextTest, TheModelIsFoundByItsId) {
  Start();
  const Json listed = Ask("GET", "/v1/models", "").json()["data"][0];
  for (const char* const path : {"/v1/models/tiny/model", "/models/tiny/model",
                                 "/v1/models/tiny%2Fmodel", "/v1/models/tiny/model/"}) {
    const Answer answer = Ask("GET", path, "");
    EXPECT_EQ(answer.status, 200) << path;
    EXPECT_EQ(answer.json(), listed) << path;
  }
  const Answer other = Ask("GET", "/v1/models/gpt-4", "");
  EXPECT_EQ(other.status, 404);
  EXPECT_THAT(other.error(), HasSubstr(R"("gpt-4")"));
  EXPECT_THAT(other.error(), HasSubstr(R"("tiny/model")"));
  EXPECT_EQ(Ask("DELETE", "/v1/models/tiny/model", "").status, 405);
}

TEST_F(TextTest, ASlashBehindAPathChangesNothing) {
  Start();
  for (const char* const path :
       {"//", "/health/", "/v1/models/", "/models//", "/attndb/v1/contexts/"}) {
    EXPECT_EQ(Ask("GET", path, "").status, 200) << path;
  }
  const std::string body = ToText({{"prompt", Ids(5)}, {"max_tokens", 1}});
  EXPECT_EQ(Ask("POST", "/v1/completions/", body).status, 200);
  EXPECT_EQ(Ask("GET", "/v1/completions/", "").status, 405);
  EXPECT_EQ(Ask("GET", "/nothing/", "").status, 404);
}

TEST_F(TextTest, NumbersMayBeWrittenWithAPointAndTopKBeOff) {
  Start();
  const std::string body =
      R"({"prompt":[5.0,6,7],"max_tokens":3.0,"top_k":-1,"n":1.0,"seed":5.0,"ignore_eos":true})";
  const Answer answer = Ask("POST", "/v1/completions", body);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.usage("completion_tokens"), 3u);
  EXPECT_EQ(answer.usage("prompt_tokens"), 3u);
}

}  // namespace
}  // namespace attndb::server
