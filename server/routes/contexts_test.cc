// Goal:   a change of a context is made whole or not at all; a turn is changed as soon as it was
//         answered; nobody is told where the server has its model; and no text is made for a client
//         that has gone.
// Method: contexts of a tiny model in a store, whose Stores the test stops; a responder that keeps
//         what it is sent.
#include "server/routes/contexts.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/json.h"
#include "server/routes/routes_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

class ContextsTest : public BatchTest {
 protected:
  void SetUp() override {
    Open("llama_bpe");  // It has a tokenizer.
    service_.conversations = &*conversations_;
    service_.metrics = &metrics_;
    service_.log = &log_;
    service_.engine = &*engine_;
    service_.run_later = [](const Call&, const std::function<void()>& work) { work(); };
    service_.run_waiting = [this](const Call&, std::function<void()> work) {
      waiting_.push_back(std::async(std::launch::async, std::move(work)));
    };
    Keep("harbour", 1);
    Keep("lighthouse", 2);
    conversations_->WaitForStores();
  }

  // The answer comes now, or when what it waits for has ended: AwaitWaiting.
  std::shared_ptr<KeepingResponder> Begin(const std::string& method, const std::string& context,
                                          const std::string& body = "") {
    const auto responder = std::make_shared<KeepingResponder>();
    AnswerContext(&service_, CallWith(responder, body, method), context);
    return responder;
  }
  Response Ask(const std::string& method, const std::string& context,
               const std::string& body = "") {
    return Begin(method, context, body)->sent;
  }
  // `gone`: whether the client is.
  Response AskText(const std::string& context, bool gone = false) {
    const auto responder = std::make_shared<KeepingResponder>();
    responder->gone = gone;
    AnswerStoredText(&service_, CallWith(responder, ToText(Json{{"context", context}})));
    return responder->sent;
  }
  size_t num_waiting() const { return waiting_.size(); }
  void AwaitWaiting() {
    for (std::future<void>& waiting : waiting_) waiting.get();
    waiting_.clear();
  }
  Result<ContextInfo> InfoOf(const std::string& name) const {
    return conversations_->HandleOf(TenantRules().tenant)->Describe(name);
  }

  void TearDown() override {
    ResumeStores();
    AwaitWaiting();
    BatchTest::TearDown();
  }
  void Keep(const std::string& name, uint64_t seed) {
    const std::vector<TokenId> tokens = llama::RandomIds(20, seed, engine_->info().vocab_size);
    const std::string tenant = TenantRules().tenant;
    conversations_->Keep(tenant, name, SessionOf(tenant, tokens), tokens);
  }

  Service service_;

 private:
  Metrics metrics_;
  RequestLog log_{LogFormat::kOff, stderr};
  std::vector<std::future<void>> waiting_;
};

TEST_F(ContextsTest, NobodyIsToldWhereTheModelIs) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo stored, InfoOf("harbour"));
  ASSERT_FALSE(stored.model_path.empty());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json described, ParseJson(Ask("GET", "harbour").body));
  EXPECT_EQ(described["model_path"], "");
  EXPECT_EQ(described["num_tokens"], 20);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json list, ParseJson(Ask("GET", "").body));
  ASSERT_EQ(list["contexts"].size(), 2u);
  for (const Json& context : list["contexts"]) EXPECT_EQ(context["model_path"], "");
}

// A client groups turns and shows titles by itself.
TEST_F(ContextsTest, TitlesAndWhatContinuesWhatAreTold) {
  const std::string tenant = TenantRules().tenant;
  std::vector<TokenId> tokens = llama::RandomIds(90, 7, engine_->info().vocab_size);
  Session session = SessionOf(tenant, tokens);
  conversations_->Keep(tenant, "turn-a", std::move(session), tokens, std::nullopt, {},
                       "What is it?");
  ATTNDB_ASSERT_OK(conversations_->WaitFor(tenant, "turn-a"));
  tokens.resize(100, tokens.front());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, conversations_->HandleOf(tenant));
  ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart next, db.CreateSession(engine_->spec(), tokens));
  ATTNDB_ASSERT_OK(engine_->Prefill(next.session, next.rest));
  conversations_->Keep(tenant, "turn-b", std::move(next.session), tokens,
                       StoreOptions{.title = "Mine"}, {}, "What is it?");
  ATTNDB_ASSERT_OK(conversations_->WaitFor(tenant, "turn-b"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json list, ParseJson(Ask("GET", "").body));
  ASSERT_EQ(list["contexts"].size(), 4u);
  const Json& first = list["contexts"][2];
  const Json& second = list["contexts"][3];
  EXPECT_EQ(first["title"], "What is it?");
  EXPECT_TRUE(first["continues"].is_null());
  EXPECT_EQ(second["title"], "Mine");
  EXPECT_EQ(second["continues"], first["id"]);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json described, ParseJson(Ask("GET", "turn-b").body));
  EXPECT_EQ(described["title"], "Mine");
  EXPECT_EQ(described["continues"], first["id"]);
}

TEST_F(ContextsTest, AContextWhoseFilesAreGoneIsNotCalledDurable) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json whole, ParseJson(Ask("GET", "harbour").body));
  EXPECT_EQ(whole["durable"], true);
  EXPECT_EQ(whole["damaged"], false);
  EXPECT_FALSE(whole.contains("error"));
  ATTNDB_ASSERT_OK(db_->WaitForBackground());
  const std::filesystem::directory_iterator files(directory_.File("store") + "/segments");
  for (const auto& file : files) std::filesystem::remove(file);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json lost, ParseJson(Ask("GET", "harbour").body));
  EXPECT_EQ(lost["durable"], false);
  EXPECT_EQ(lost["damaged"], true);
  EXPECT_TRUE(lost.contains("error"));
  EXPECT_EQ(lost["num_tokens"], 20);
}

TEST_F(ContextsTest, AChangeIsMadeWhole) {
  const Response response =
      Ask("POST", "harbour", R"({"pinned": true, "ttl_seconds": 60, "name": "port"})");
  EXPECT_EQ(response.status, 200);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
  EXPECT_EQ(json["name"], "port");
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo stored, InfoOf("port"));
  EXPECT_TRUE(stored.pinned);
  EXPECT_EQ(stored.ttl_seconds, 60);
  EXPECT_EQ(InfoOf("harbour").status().code(), StatusCode::kNotFound);
}

TEST_F(ContextsTest, AChangeThatIsRefusedChangesNothing) {
  const std::vector<std::pair<std::string, int>> refused = {
      {R"({"pinned": true, "ttl_seconds": 60, "name": "lighthouse"})", 409},
      {R"({"pinned": true, "ttl_seconds": 60, "name": "a b"})", 400},
      {R"({"pinned": true, "ttl_seconds": 60, "name": 5})", 400},
      {R"({"pinned": true, "ttl_seconds": "x", "name": "port"})", 400},
      {R"({"pinned": 1, "ttl_seconds": 60, "name": "port"})", 400}};
  for (const auto& [body, status] : refused) {
    EXPECT_EQ(Ask("POST", "harbour", body).status, status) << body;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ContextInfo stored, InfoOf("harbour"));
    EXPECT_FALSE(stored.pinned) << body;
    EXPECT_FALSE(stored.ttl_seconds.has_value()) << body;
  }
}

TEST_F(ContextsTest, AnAnsweredTurnIsChangedAndRemovedOnceItIsStored) {
  StopStores(TenantRules().tenant);
  Keep("pinned", 3);
  Keep("named", 4);
  Keep("gone", 5);
  for (const char* const name : {"pinned", "named", "gone"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Json state, ParseJson(Ask("GET", name).body));
    EXPECT_EQ(state, (Json{{"context", name}, {"durable", false}}));
  }
  const auto pinned = Begin("POST", "pinned", R"({"pinned": true, "ttl_seconds": 60})");
  const auto named = Begin("POST", "named", R"({"name": "port"})");
  const auto gone = Begin("DELETE", "gone");
  EXPECT_EQ(num_waiting(), 3u);
  EXPECT_EQ(Ask("POST", "harbour", R"({"pinned": true})").status, 200)
      << "what is stored waits for nobody";
  ResumeStores();
  AwaitWaiting();
  EXPECT_EQ(pinned->sent.status, 200);
  EXPECT_TRUE(InfoOf("pinned")->pinned);
  EXPECT_EQ(InfoOf("pinned")->ttl_seconds, 60);
  EXPECT_EQ(named->sent.status, 200);
  ATTNDB_EXPECT_OK(InfoOf("port"));
  EXPECT_EQ(gone->sent.status, 200);
  conversations_->WaitForStores();
  EXPECT_EQ(Ask("GET", "gone").status, 404);
  EXPECT_EQ(Ask("DELETE", "gone").status, 404);
}

TEST_F(ContextsTest, ATextIsMadeAsLongAsTheClientWaitsForIt) {
  StopStores(TenantRules().tenant);
  Keep("unstored", 3);
  for (const char* const name : {"harbour", "unstored"}) {
    const Response response = AskText(name);
    ASSERT_EQ(response.status, 200) << response.body;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Json json, ParseJson(response.body));
    EXPECT_EQ(json["num_tokens"], 20);
    EXPECT_FALSE(json["text"].get<std::string>().empty());
    EXPECT_EQ(AskText(name, /*gone=*/true).status, 503);
  }
  service_.is_cut = true;
  EXPECT_EQ(AskText("harbour").status, 503);
}

TEST_F(ContextsTest, ATurnThatCouldNotBeStoredSaysWhyUntilItIsRemoved) {
  const std::string tenant = TenantRules().tenant;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, conversations_->HandleOf(tenant));
  for (const char* const name : {"harbour", "lighthouse"}) ATTNDB_ASSERT_OK(db.Pin(name));
  ATTNDB_ASSERT_OK(db.SetQuota(1));
  Keep("lost", 3);
  conversations_->WaitForStores();
  EXPECT_NE(Ask("GET", "lost").body.find("quota"), std::string::npos);
  const Response refused = Ask("POST", "lost", R"({"pinned": true})");
  EXPECT_EQ(refused.status, 507);
  EXPECT_NE(refused.body.find("'lost' could not be stored"), std::string::npos);
  EXPECT_EQ(Ask("DELETE", "lost").status, 200);
  EXPECT_EQ(Ask("GET", "lost").status, 404);
}

}  // namespace
}  // namespace attndb::server
