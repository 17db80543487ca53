// Goal:   /v1/embeddings gives each input's embedding, in order, and counts its tokens for its
//         tenant; what can't be embedded is refused before anything runs; requests take turns; a
//         client that goes ends its own.
// Method: a tiny model with `pooling_type` in its file; its embedder, asked by the test, says what
//         is expected. Steps that would run on the server's threads run when the test says so.
#include "server/routes/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/embedder.h"
#include "engines/llama/engine_test_util.h"
#include "server/openai/embedding_answer.h"
#include "server/routes/routes_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint32_t kTrainedTokens = 300;
constexpr uint32_t kPoolingLast = 3;

class EmbeddingsTest : public ::testing::Test {
 protected:
  void SetUp() override { Open({{"pooling_type", kPoolingLast}}, 0); }

  void Open(std::vector<std::pair<std::string, uint32_t>> keys, uint64_t memory_bytes) {
    keys.emplace_back("context_length", kTrainedTokens);
    const std::string path = directory_.File("model.gguf");
    llama::WriteTinyModel("llama_bpe", keys, path);
    llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
    options.cache_dir = directory_.File("cache");
    engine_.reset();
    engine_.emplace(*llama::LlamaEngine::Open(path, options));
    gate_.emplace(memory_bytes, 8, [](const std::function<void()>& run) { run(); });
    service_.options.model_id = "tiny";
    service_.engine = &*engine_;
    service_.metrics = &metrics_;
    service_.admission = &admission_;
    service_.gate = &*gate_;
    service_.log = &log_;
    service_.runs_turns = [this] {
      ++num_looks_;
      return false;
    };
    service_.run_later = [](const Call&, const std::function<void()>& work) { work(); };
    service_.run_embedding = [this](const Call&, std::function<void()> work) {
      steps_.push_back(std::move(work));
    };
  }

  // Asks, and runs nothing of it yet.
  std::shared_ptr<KeepingResponder> Ask(const std::string& body) {
    auto responder = std::make_shared<KeepingResponder>();
    responder->sent.status = 0;
    Call call = CallWith(responder, body);
    call.rules = rules_;
    AnswerEmbeddings(&service_, std::move(call));
    return responder;
  }
  void RunStep() {
    const std::function<void()> step = std::move(steps_.front());
    steps_.pop_front();
    step();
  }
  Response Answer(const std::string& body) {
    const auto responder = Ask(body);
    while (!steps_.empty()) RunStep();
    return responder->sent;
  }
  Json Answered(const std::string& body) {
    const Response response = Answer(body);
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  void ExpectRefused(const std::string& body, const std::string& why) {
    const Response response = Answer(body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_THAT(response.body, HasSubstr(why)) << body;
    EXPECT_EQ(metrics_.num_embedded_tokens, 0u) << body;
  }
  std::vector<TokenId> IdsOf(const std::string& text) const {
    return *engine_->Tokenize(text, true, false);
  }
  std::vector<float> EmbeddingOf(const std::vector<TokenId>& ids) const {
    const auto embedder = engine_->OpenEmbedder(ids.size());
    EXPECT_THAT(embedder, ::attndb::test::IsOk());
    return *(*embedder)->Embed(ids);
  }

  ::attndb::test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
  Metrics metrics_;
  Admission admission_;
  std::optional<MemoryGate> gate_;
  RequestLog log_{LogFormat::kOff, stderr};
  TenantRules rules_;
  Service service_;
  uint32_t num_looks_ = 0;  // Whether turns share passes.
  std::deque<std::function<void()>> steps_;
};

TEST_F(EmbeddingsTest, EachInputHasItsEmbeddingInOrder) {
  const Json body = Answered(R"({"input": ["ba be", "bo", "ba be"], "model": "other"})");
  EXPECT_EQ(body["object"], "list");
  EXPECT_EQ(body["model"], "tiny");
  ASSERT_EQ(body["data"].size(), 3u);
  const std::vector<std::string> texts = {"ba be", "bo", "ba be"};
  uint64_t num_tokens = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const Json& entry = body["data"][i];
    EXPECT_EQ(entry["object"], "embedding");
    EXPECT_EQ(entry["index"], i);
    EXPECT_EQ(entry["embedding"].get<std::vector<float>>(), EmbeddingOf(IdsOf(texts[i])));
    num_tokens += IdsOf(texts[i]).size();
  }
  EXPECT_EQ(body["usage"], (Json{{"prompt_tokens", num_tokens}, {"total_tokens", num_tokens}}));
  EXPECT_EQ(metrics_.num_embedded_tokens, num_tokens);
  EXPECT_EQ(gate_->num_held_bytes(), 0u);
  EXPECT_EQ(service_.num_embedding_calls, 0u);
}

TEST_F(EmbeddingsTest, IdsAreTakenAsTheyAre) {
  const Json one = Answered(R"({"input": [3, 1, 4]})");
  ASSERT_EQ(one["data"].size(), 1u);
  EXPECT_EQ(one["data"][0]["embedding"].get<std::vector<float>>(), EmbeddingOf({3, 1, 4}));
  EXPECT_EQ(one["usage"]["total_tokens"], 3);
  const Json two = Answered(R"({"input": [[3, 1, 4], [1, 5]]})");
  ASSERT_EQ(two["data"].size(), 2u);
  EXPECT_EQ(two["data"][0]["embedding"], one["data"][0]["embedding"]);
  EXPECT_EQ(two["data"][1]["embedding"].get<std::vector<float>>(), EmbeddingOf({1, 5}));
}

TEST_F(EmbeddingsTest, Base64HasTheSameNumbers) {
  const Json body = Answered(R"({"input": "ba be", "encoding_format": "base64"})");
  EXPECT_EQ(body["data"][0]["embedding"], Base64Of(EmbeddingOf(IdsOf("ba be"))));
}

TEST_F(EmbeddingsTest, DimensionsAreThoseOfTheModel) {
  const uint32_t size = engine_->info().embedding_size;
  const std::string body = R"({"input": "ba", "dimensions": )";
  ExpectRefused(body + std::to_string(size - 1) + "}", "'dimensions'");
  EXPECT_EQ(Answered(body + std::to_string(size) + "}")["data"][0]["embedding"].size(), size);
}

TEST_F(EmbeddingsTest, WhatCannotBeEmbeddedIsRefusedBeforeAnythingRuns) {
  ExpectRefused("{", "JSON");
  ExpectRefused("{}", "'input'");
  ExpectRefused(R"({"input": ["ba", ""]})", "'input[1]'");
  const std::vector<std::vector<TokenId>> long_ids = {{1}, std::vector<TokenId>(301, 1)};
  const Response response = Answer(Json{{"input", long_ids}}.dump());
  EXPECT_EQ(response.status, 400);
  EXPECT_THAT(response.body, AllOf(HasSubstr("input[1]"), HasSubstr("301"), HasSubstr("300")));
  EXPECT_EQ(metrics_.num_embedded_tokens, 0u);
  ExpectRefused(R"({"input": [[1], [1000000]]})", "vocabulary");
}

TEST_F(EmbeddingsTest, AModelWithoutEmbeddingsSaysSo) {
  Open({}, 0);
  ExpectRefused(R"({"input": "ba"})", "model 'tiny' generates text: it has no embeddings");
}

TEST_F(EmbeddingsTest, TokensCountForTheTenant) {
  rules_ = {.tenant = "ann", .tokens_per_minute = 5};
  Admission::Place place;
  double retry_seconds = 0;
  ASSERT_THAT(admission_.Enter(rules_, MonotonicSeconds(), &place, &retry_seconds),
              ::attndb::test::IsOk());
  Answered(R"({"input": [[1, 2, 3], [4, 5, 6, 7]]})");
  EXPECT_THAT(admission_.Enter(rules_, MonotonicSeconds(), &place, &retry_seconds),
              ::attndb::test::FailsWith(StatusCode::kResourceExhausted, HasSubstr("ann")));
}

TEST_F(EmbeddingsTest, RequestsTakeTurns) {
  const auto first = Ask(R"({"input": ["ba", "be", "bi"]})");
  const auto second = Ask(R"({"input": ["bo"]})");
  RunStep();
  RunStep();
  EXPECT_EQ(second->sent.status, 200);
  EXPECT_EQ(first->sent.status, 0);
  while (!steps_.empty()) RunStep();
  EXPECT_EQ(first->sent.status, 200);
}

TEST_F(EmbeddingsTest, EachPartLooksWhetherTurnsShareThePasses) {
  const std::vector<TokenId> two_parts(llama::kEmbedderPartTokens + 1, 1);
  Answered(Json{{"input", {two_parts, std::vector<TokenId>{1}}}}.dump());
  EXPECT_EQ(num_looks_, 3u);
}

TEST_F(EmbeddingsTest, AClientThatGoesEndsItsRequest) {
  const auto gone = Ask(R"({"input": [[1], [2], [3]]})");
  RunStep();
  gone->gone = true;
  RunStep();
  EXPECT_TRUE(steps_.empty());
  EXPECT_EQ(metrics_.num_embedded_tokens, 1u);
  EXPECT_EQ(metrics_.num_cancelled, 1u);
  EXPECT_EQ(gate_->num_held_bytes(), 0u);
  EXPECT_EQ(service_.num_embedding_calls, 0u);
}

TEST_F(EmbeddingsTest, AClientThatGoesWaitsForNoMemory) {
  Open({{"pooling_type", kPoolingLast}}, engine_->EmbedderBytes(1) * 3 / 2);
  MemoryGate::Place turn;
  ATTNDB_ASSERT_OK(gate_->Enter(engine_->EmbedderBytes(1),
                                [&turn](MemoryGate::Place place) { turn = std::move(place); }));
  const auto gone = Ask(R"({"input": "ba"})");
  ASSERT_EQ(gate_->num_waiting(), 1u);
  gone->gone = true;
  ASSERT_NE(gone->when_closed, nullptr);
  gone->when_closed();
  EXPECT_EQ(gate_->num_waiting(), 0u);
  while (!steps_.empty()) RunStep();
  EXPECT_EQ(metrics_.num_cancelled, 1u);
  EXPECT_EQ(metrics_.num_embedded_tokens, 0u);
  EXPECT_EQ(service_.num_embedding_calls, 0u);
}

TEST_F(EmbeddingsTest, TextsAreReadWhileTheClientAndTheServerStay) {
  std::string text;
  while (text.size() <= llama::TokenizeLimits().piece_bytes) text += "ba be bo\n";
  ExpectRefused(Json{{"input", {"ba", text}}}.dump(), "'input[1]' has at least ");
  service_.is_cut = true;
  EXPECT_EQ(Ask(R"({"input": ["ba", "be"]})")->sent.status, 503);
  EXPECT_TRUE(steps_.empty());
  EXPECT_EQ(service_.num_embedding_calls, 0u);
}

TEST_F(EmbeddingsTest, SoManyRequestsAndNoMore) {
  std::vector<std::shared_ptr<KeepingResponder>> asked;
  for (uint32_t i = 0; i <= kMaxEmbeddingCalls; ++i) asked.push_back(Ask(R"({"input": "ba"})"));
  EXPECT_EQ(asked.back()->sent.status, 503);
  while (!steps_.empty()) RunStep();
  asked.pop_back();
  for (const auto& responder : asked) EXPECT_EQ(responder->sent.status, 200);
}

TEST_F(EmbeddingsTest, MemoryIsWaitedFor) {
  Open({{"pooling_type", kPoolingLast}}, engine_->EmbedderBytes(1) * 3 / 2);
  const auto first = Ask(R"({"input": "ba"})");
  const auto second = Ask(R"({"input": "be"})");
  EXPECT_EQ(steps_.size(), 1u);
  EXPECT_EQ(gate_->num_waiting(), 1u);
  while (!steps_.empty()) RunStep();
  EXPECT_EQ(first->sent.status, 200);
  EXPECT_EQ(second->sent.status, 200);
  Open({{"pooling_type", kPoolingLast}}, engine_->EmbedderBytes(1) / 2);
  EXPECT_EQ(Answer(R"({"input": "ba"})").status, 400) << "there is never so much";
}

}  // namespace
}  // namespace attndb::server
