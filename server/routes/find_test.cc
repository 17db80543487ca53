// Goal:   /attndb/v1/find gives the passages that the command line's calls give; the first question
//         of a model runs one trial of its heads, whatever else is asked meanwhile, and leaves no
//         file behind; what can't be looked for is refused.
// Method: a server on a tiny random model, asked over HTTP; afterwards the same calls on its store.
#include "server/routes/find.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>  // NOLINT: setenv is POSIX.

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "engines/llama/find_heads.h"
#include "engines/llama/find_question.h"
#include "engines/llama/found_passages.h"
#include "server/http/client.h"
#include "server/http/http_test_util.h"
#include "server/server.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kQuestion = "Where does the keeper keep the spare key?";

class FindTest : public ::testing::Test {
 protected:
  struct Answer {
    int status = 0;
    Json json;
    std::string error() const { return json["error"]["message"].get<std::string>(); }
  };

  FindTest() {
    std::filesystem::create_directory(directory_.File("tmp"));
    setenv("TMPDIR", directory_.File("tmp").c_str(), 1);
    ServerOptions options;
    options.listener.port = 0;
    options.plan = "full";
    options.model_id = "tiny";
    auto server = Server::Start(OpenEngine(), OpenStore(), options);
    EXPECT_THAT(server, ::attndb::test::IsOk());
    server_ = *std::move(server);
  }
  ~FindTest() override { unsetenv("TMPDIR"); }

  llama::LlamaEngine OpenEngine() const {
    llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    return *llama::LlamaEngine::Open(llama::TinyModel("llama_bpe"), options);
  }
  DB OpenStore() const { return *DB::Open(directory_.File("store"), {}); }

  Answer Post(const std::string& path, const Json& body) const {
    auto client = Client::Make({.url = "http://127.0.0.1:" + std::to_string(server_->port()),
                                .silence_timeout = kPatience});
    EXPECT_THAT(client, ::attndb::test::IsOk());
    const Result<ClientAnswer> sent =
        (*client)->Send({.method = "POST", .path = path, .body = ToText(body)});
    EXPECT_THAT(sent, ::attndb::test::IsOk());
    return {sent->status, *ParseJson(sent->body)};
  }
  Answer Find(Json fields) const {
    if (!fields.contains("question")) fields["question"] = kQuestion;
    return Post("/attndb/v1/find", fields);
  }
  // Texts of random words: a few hundred tokens each.
  void Import(const std::string& name, uint64_t seed) const {
    std::string text;
    for (const TokenId id : llama::RandomIds(200, seed, 5000)) text += " w" + std::to_string(id);
    ASSERT_EQ(Post("/attndb/v1/contexts", {{"name", name}, {"text", text}}).status, 200);
  }

  ::attndb::test::TempDir directory_;
  std::unique_ptr<Server> server_;
};

TEST_F(FindTest, GivesWhatTheSameCallsGive) {
  Import("one", 1);
  Import("two", 2);
  const Answer found = Find({{"top", 5}, {"passage_tokens", 16}});
  ASSERT_EQ(found.status, 200) << found.json;
  EXPECT_EQ(found.json["num_contexts"], 2);
  ASSERT_FALSE(found.json["passages"].empty());
  EXPECT_LE(found.json["passages"].size(), 5u);

  server_->Stop(kPatience);
  server_.reset();
  llama::LlamaEngine engine = OpenEngine();
  const DB db = OpenStore();
  const auto kept = llama::KeptFindHeads(engine);
  ASSERT_TRUE(kept.has_value());
  std::vector<FindHead> heads;
  for (const llama::RankedHead& head : *kept) heads.push_back(head.head);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const llama::FindQuestion asked,
                              llama::FindQuestion::Run(&engine, db, kQuestion, heads));
  ATTNDB_ASSERT_OK_AND_ASSIGN(FindResult expected, db.Find(engine.spec(), asked.query(),
                                                           {.limit = 5, .passage_tokens = 16}));
  llama::DropPassagesWithoutScore(&expected);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> texts,
                              llama::PassageTexts(engine, db, expected));
  ASSERT_EQ(found.json["passages"].size(), expected.passages.size());
  for (size_t i = 0; i < expected.passages.size(); ++i) {
    const Json& passage = found.json["passages"][i];
    EXPECT_EQ(passage["context"], expected.passages[i].context);
    EXPECT_EQ(passage["first_token"], expected.passages[i].tokens.begin);
    EXPECT_NEAR(passage["score"].get<double>(), expected.passages[i].score, 1e-2);
    EXPECT_EQ(passage["text"].get<std::string>(),
              ReadOwnJson(ToText(Json(texts[i]))).get<std::string>());
  }
}

TEST_F(FindTest, TheServersTrialChoosesAsTheOtherOne) {
  Import("one", 1);
  ASSERT_EQ(Find({}).status, 200);
  server_.reset();
  EXPECT_TRUE(std::filesystem::is_empty(directory_.File("tmp")));
  llama::LlamaEngine engine = OpenEngine();
  const auto kept = llama::KeptFindHeads(engine);
  ASSERT_TRUE(kept.has_value());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB scratch,
                              DB::Open(directory_.File("scratch"), {.background_builds = false}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const std::vector<llama::RankedHead> ranked,
                              llama::RankHeads(&engine, scratch));
  ASSERT_EQ(kept->size(), std::min(ranked.size(), llama::kNumFindHeads));
  for (size_t i = 0; i < kept->size(); ++i) {
    EXPECT_NEAR((*kept)[i].worth, ranked[i].worth, 0.1) << i;
  }
}

TEST_F(FindTest, ManyFirstQuestionsWaitForOneTrial) {
  Import("one", 1);
  std::vector<Answer> answers(6);
  std::vector<std::thread> threads;
  for (Answer& answer : answers) {
    threads.emplace_back([this, &answer] { answer = Find({{"context", "one"}}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Answer& answer : answers) {
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.json["passages"], answers.front().json["passages"]);
  }
}

TEST_F(FindTest, OnlyTheNamedContextsAreLookedThrough) {
  Import("one", 1);
  Import("two", 2);
  Import("three", 3);
  const Json fields = {{"contexts", {"one", "three"}}, {"passage_tokens", 16}, {"top", 100}};
  const Answer found = Find(fields);
  ASSERT_EQ(found.status, 200);
  EXPECT_EQ(found.json["num_contexts"], 2);
  for (const Json& passage : found.json["passages"]) EXPECT_NE(passage["context"], "two");
}

TEST_F(FindTest, WhatCanNotBeLookedForIsRefused) {
  const Answer empty = Find({});
  EXPECT_EQ(empty.status, 404);
  EXPECT_THAT(empty.error(), HasSubstr("no context of this model"));
  Import("one", 1);
  const Answer unknown = Find({{"context", "nobody-wrote-this"}});
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.error(), HasSubstr("nobody-wrote-this"));
  std::string text;
  for (int i = 0; i < 500; ++i) text += " word" + std::to_string(i);
  const Answer longer = Find({{"question", text}});
  EXPECT_EQ(longer.status, 400);
  EXPECT_THAT(longer.error(), HasSubstr("the question has"));
}

}  // namespace
}  // namespace attndb::server
