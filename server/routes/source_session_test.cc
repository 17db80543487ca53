// Goal:   a request that is asked of several contexts, of some tokens of one, or of contexts that
//         are found, is answered as `attndb ask` answers; its turn is stored nowhere; no other turn
//         takes its session. Plans by layer reach the session as they are.
// Method: a server on a tiny random model, asked over HTTP; the same sessions made on its store.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/prompt_layout.h"
#include "engines/llama/token_ranges.h"
#include "server/http/client.h"
#include "server/http/http_test_util.h"
#include "server/json.h"
#include "server/server.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::testing::HasSubstr;

constexpr const char* kQuestion = "Where does the keeper keep the key?";
constexpr uint32_t kNumTokens = 12;

class SourceSessionTest : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    std::map<std::string, std::string> headers;
    Json json;
    std::string text() const { return json["choices"][0]["message"]["content"].get<std::string>(); }
    std::string error() const { return json["error"]["message"].get<std::string>(); }
    bool names_context() const { return headers.contains("x-attndb-context"); }
  };

  SourceSessionTest() { Start(); }

  void Start(uint64_t window_tokens = 4096) {
    ServerOptions options;
    options.listener.port = 0;
    options.plan = "full";
    options.model_id = "tiny";
    options.window_tokens = window_tokens;
    auto server = Server::Start(OpenEngine(), OpenStore(), options);
    EXPECT_THAT(server, ::attndb::test::IsOk());
    server_ = *std::move(server);
  }
  void Stop() {
    server_->Stop(kPatience);
    server_.reset();
  }
  llama::LlamaEngine OpenEngine() const {
    llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    return *llama::LlamaEngine::Open(llama::TinyModel("llama_spm"), options);
  }
  DB OpenStore() const { return *DB::Open(directory_.File("store"), {}); }

  Answer Post(const std::string& path, const Json& body) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .silence_timeout = kPatience});
    EXPECT_THAT(client, ::attndb::test::IsOk());
    Result<ClientAnswer> sent =
        (*client)->Send({.method = "POST", .path = path, .body = ToText(body)});
    EXPECT_THAT(sent, ::attndb::test::IsOk());
    return {sent->status, std::move(sent->headers), *ParseJson(sent->body)};
  }
  Answer Chat(Json fields) const {
    if (!fields.contains("messages")) {
      fields["messages"] = Json::array({{{"role", "user"}, {"content", kQuestion}}});
    }
    fields["max_tokens"] = kNumTokens;
    fields["ignore_eos"] = true;
    fields["temperature"] = 0;
    return Post("/v1/chat/completions", fields);
  }
  void Import(const std::string& name, uint64_t seed) const {
    std::string text;
    for (const TokenId id : llama::RandomIds(60, seed, 5000)) text += " w" + std::to_string(id);
    ASSERT_EQ(Post("/attndb/v1/contexts", {{"name", name}, {"text", text}}).status, 200);
  }
  size_t NumContexts() const { return OpenReading().List()->size(); }
  DB OpenReading() const {
    DBOptions options;
    options.read_only = true;
    return *DB::Open(directory_.File("store"), options);
  }

  // Returns the model's answer to the question behind `stored`, in this session, as `attndb ask`
  // has it.
  static std::string Alone(llama::LlamaEngine* engine, const llama::StoredContext& stored,
                           Session session) {
    const Result<llama::PromptText> prompt =
        llama::QuestionBehind(*engine, stored, kQuestion, /*keeps_before=*/true);
    const auto rest = std::span<const TokenId>(prompt->tokens).subspan(stored.tokens.size());
    const Result<llama::Generation> said =
        engine->Generate(session, rest, {.max_tokens = kNumTokens, .ignore_end = true});
    EXPECT_THAT(said, ::attndb::test::IsOk());
    return ReadOwnJson(ToText(Json(said->text))).get<std::string>();  // As JSON tells it.
  }

  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(SourceSessionTest, SeveralContextsAreAskedTogether) {
  Import("one", 1);
  Import("two", 2);
  const Answer answer = Chat({{"contexts", {"one", "two"}}});
  ASSERT_EQ(answer.status, 200) << answer.json;
  EXPECT_FALSE(answer.names_context());
  EXPECT_EQ(NumContexts(), 2u);
  Stop();
  llama::LlamaEngine engine = OpenEngine();
  const DB db = OpenStore();
  const std::vector<std::string> names = {"one", "two"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, db.CreateSessionOver(engine.spec(), names));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto stored, llama::OpenContext(engine, db, "two"));
  const uint64_t num_held = session.num_tokens();
  EXPECT_EQ(answer.text(), Alone(&engine, stored, std::move(session)));
  const Json& usage = answer.json["usage"];
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], num_held);
}

TEST_F(SourceSessionTest, SomeTokensOfAContextAreAsked) {
  Import("one", 1);
  const Answer answer = Chat({{"context", "one"}, {"tokens", "20-60,90-120"}});
  ASSERT_EQ(answer.status, 200) << answer.json;
  EXPECT_FALSE(answer.names_context());
  EXPECT_NE(answer.text(), Chat({{"context", "one"}}).text());
  Stop();
  llama::LlamaEngine engine = OpenEngine();
  const DB db = OpenStore();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto stored, llama::OpenContext(engine, db, "one"));
  const std::vector<std::string> names = {"one"};
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, db.CreateSessionOver(engine.spec(), names));
  ATTNDB_ASSERT_OK(
      session.SetFilter(llama::WithFirstTokens(*llama::ParseTokenRanges("20-60,90-120"))));
  EXPECT_EQ(answer.text(), Alone(&engine, stored, std::move(session)));
}

TEST_F(SourceSessionTest, NoOtherTurnTakesSuchASession) {
  Import("one", 1);
  const std::string whole = Chat({{"context", "one"}}).text();
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Chat({{"context", "one"}, {"tokens", "20-60"}}).status, 200);
    EXPECT_EQ(Chat({{"context", "one"}}).text(), whole);
  }
}

TEST_F(SourceSessionTest, TheContextsThatAreFoundAreAsked) {
  Import("one", 1);
  Import("two", 2);
  Import("three", 3);
  const Answer found = Post("/attndb/v1/find", {{"question", kQuestion}, {"top", 10'000}});
  ASSERT_EQ(found.status, 200);
  const std::string best = found.json["passages"][0]["context"].get<std::string>();
  const Answer answer = Chat({{"find", 1}});
  ASSERT_EQ(answer.status, 200) << answer.json;
  EXPECT_TRUE(answer.names_context()) << "one context is asked as any context";
  EXPECT_EQ(answer.text(), Chat({{"context", best}}).text());
  const Answer among = Chat({{"contexts", {"two", "three"}}, {"find", 2}});
  ASSERT_EQ(among.status, 200) << among.json;
  EXPECT_FALSE(among.names_context());
}

TEST_F(SourceSessionTest, ACompletionGoesOnBehindAllContexts) {
  Import("one", 1);
  Import("two", 2);
  const Json fields = {{"contexts", {"one", "two"}}, {"prompt", " and so"}, {"max_tokens", 3}};
  const Answer answer = Post("/v1/completions", fields);
  ASSERT_EQ(answer.status, 200) << answer.json;
  EXPECT_FALSE(answer.names_context());
}

TEST_F(SourceSessionTest, AConversationGoesOnBehindAllContexts) {
  Import("one", 1);
  Import("two", 2);
  const Json first = {{"role", "user"}, {"content", kQuestion}};
  const Answer said = Chat({{"contexts", {"one", "two"}}});
  const Json messages =
      Json::array({first, {{"role", "assistant"}, {"content", said.text()}}, first});
  const Answer next = Chat({{"contexts", {"one", "two"}}, {"messages", messages}});
  ASSERT_EQ(next.status, 200) << next.json;
  EXPECT_GT(next.json["usage"]["prompt_tokens"], said.json["usage"]["prompt_tokens"]);
}

TEST_F(SourceSessionTest, WhatDoesNotGoTogetherIsRefused) {
  Import("one", 1);
  Import("two", 2);
  const struct {
    Json fields;
    int status;
    const char* says;
  } kWrong[] = {
      {{{"contexts", {"one", "two"}}, {"store_as", "s"}}, 400, "store_as"},
      {{{"contexts", {"one", "nobody-wrote-this"}}}, 404, "nobody-wrote-this"},
      {{{"context", "one"}, {"tokens", "20-99999"}}, 400, "'tokens'"},
      {{{"context", "one"}, {"tokens", "20"}}, 400, "tokens '20'"},
      {{{"tokens", "20-30"}}, 400, "name it in 'context'"},
  };
  for (const auto& [fields, status, says] : kWrong) {
    const Answer answer = Chat(fields);
    EXPECT_EQ(answer.status, status) << fields;
    EXPECT_THAT(answer.error(), HasSubstr(says));
  }
  const std::string turn = Chat({}).headers["x-attndb-context"];
  const Answer dialogue = Chat({{"contexts", {"one", turn}}});
  EXPECT_EQ(dialogue.status, 400);
  EXPECT_THAT(dialogue.error(), HasSubstr("is a dialogue"));
}

TEST_F(SourceSessionTest, SomeTokensOfAContextThatHasLostTokensAreRefused) {
  Stop();
  {
    llama::LlamaEngine engine = OpenEngine();
    const DB db = OpenStore();
    const std::vector<TokenId> ids = llama::RandomIds(110, 1, 300);
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db.CreateSession(engine.spec(), ids));
    ATTNDB_ASSERT_OK(engine.Prefill(start.session, ids, {.window = {.window_tokens = 64}}));
    ASSERT_GT(start.session.num_dropped(), 0u);
    const StoreOptions options = {.name = "cut", .text_layout = {TextForm::kRaw, {}}};
    ATTNDB_ASSERT_OK(db.Store(start.session, ids, options));
  }
  Start();
  const Answer answer = Chat({{"context", "cut"}, {"tokens", "20-60"}});
  EXPECT_EQ(answer.status, 409) << answer.json;
  EXPECT_THAT(answer.error(), HasSubstr("'cut' has lost"));
  EXPECT_EQ(Chat({{"context", "cut"}}).status, 200);
}

TEST_F(SourceSessionTest, ContextsThatDoNotFitTheWindowAreRefused) {
  Import("one", 1);
  Import("two", 2);
  Stop();
  Start(/*window_tokens=*/300);
  const Answer answer = Chat({{"contexts", {"one", "two"}}});
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.error(), HasSubstr("does not fit the window"));
}

TEST_F(SourceSessionTest, APlanByLayerPassesAsItIs) {
  Import("one", 1);
  const std::string plan = "window(sink=4,window=32); layers 0: full";
  const Answer told = Post("/attndb/v1/explain", {{"context", "one"}, {"plan", plan}});
  ASSERT_EQ(told.status, 200) << told.json;
  EXPECT_EQ(told.json["explain"]["plan"], plan);
  EXPECT_EQ(Chat({{"context", "one"}, {"plan", plan}}).status, 200);
  const Answer wrong = Chat({{"context", "one"}, {"plan", "full; layers 0: nonsense"}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.error(), HasSubstr("nonsense"));
}

}  // namespace
}  // namespace attndb::server
