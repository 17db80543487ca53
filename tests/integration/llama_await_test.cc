// Goal:   before the second token of a session, llama.cpp's adapter waits for the derived objects
//         that a plan with await=1 reads. It waits for no other plan and at no other token. An
//         object that could not be built costs no answer.
// Method: a tiny random model on a stored context. Only a session asks for product codes, and a job
//         of the test holds the lane that builds them. While it does, a call that waits for them
//         hangs, and the test with it.
#include <atomic>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/database.h"
#include "api/db_access.h"
#include "attndb/db.h"
#include "engines/llama/engine_test_util.h"
#include "engines/llama/llama_engine.h"
#include "testing/event.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::llama {
namespace {

constexpr const char* kPlan = "topk(k=20,index=pq,m=4,b=6,sink=4,window=16)";
constexpr const char* kAwaits = "topk(k=20,index=pq,m=4,b=6,await=1,sink=4,window=16)";

class LlamaAwaitTest : public ::testing::TestWithParam<HookVariant> {
 protected:
  void SetUp() override {
    OpenEngine(true);
    ATTNDB_ASSERT_OK_AND_ASSIGN(DB db, DB::Open(store(), {.measure_machine = false}));
    db_.emplace(std::move(db));
    document_ = RandomIds(2100, 41, engine_->info().vocab_size);
    ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db_->CreateSession(engine_->spec(), document_));
    ATTNDB_ASSERT_OK(engine_->Prefill(start.session, document_));
    ATTNDB_ASSERT_OK(db_->Store(start.session, document_));
    ATTNDB_ASSERT_OK(db_->WaitForBackground());
  }
  void TearDown() override { release_.Set(); }
  void OpenEngine(bool awaits_derived) {
    EngineOptions options = TinyOptions(GetParam());
    options.cache_dir = directory_.File("cache");
    options.awaits_derived = awaits_derived;
    options.keep_going = [this] { return keeps_going_.load(); };
    ATTNDB_ASSERT_OK_AND_ASSIGN(LlamaEngine engine, LlamaEngine::Open(TinyModel("qwen2"), options));
    engine_.emplace(std::move(engine));
  }

  std::string store() const { return directory_.File("store"); }

  // A session on the document whose question has run: its first token is known.
  Result<Session> Asked(const char* plan) {
    std::vector<TokenId> prompt = document_;
    const std::vector<TokenId> question = RandomIds(5, 9, engine_->info().vocab_size);
    prompt.insert(prompt.end(), question.begin(), question.end());
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            db_->CreateSession(engine_->spec(), prompt, {.plan = plan}));
    EXPECT_EQ(start.rest, question);
    ATTNDB_RETURN_IF_ERROR(engine_->Prefill(start.session, start.rest));
    return std::move(start.session);
  }
  // Returns when the lane that builds codes is held, until release_ is set.
  void HoldLane() {
    test::Event held;
    internal::DbAccess::database(*db_)->store()->background()->Add(
        derived::kSlowLane, {.run = [&](derived::Lanes::Control*) {
          held.Set();
          release_.Await();
          return Status::Ok();
        }});
    held.Await();
  }
  // Layers whose wait is due, and layers in which some call searched codes.
  uint64_t NumDue(const Session& session) const {
    uint64_t count = 0;
    for (LayerId i = 0; i < session.spec().num_layers(); ++i) count += session.awaits_derived(i);
    return count;
  }
  static uint64_t NumSearched(const Session& session) {
    uint64_t count = 0;
    for (const LayerExplain& layer : session.Explain().layers) {
      count += layer.heads.front().visited_mean > 0;
    }
    return count;
  }
  std::vector<float> Decoded(Session* session, TokenId token) {
    ATTNDB_EXPECT_OK(engine_->Decode(*session, token));
    const std::span<const float> logits = *engine_->Logits();
    return {logits.begin(), logits.end()};
  }

  test::TempDir directory_;
  test::Event release_;
  std::atomic<bool> keeps_going_ = true;
  std::vector<TokenId> document_;
  std::optional<LlamaEngine> engine_;
  std::optional<DB> db_;
};

TEST_P(LlamaAwaitTest, APlanThatAwaitsHasItsCodesBeforeTheSecondToken) {
  HoldLane();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, Asked(kAwaits));  // The first token waits for none.
  const uint64_t num_layers = session.spec().num_layers();
  EXPECT_EQ(NumDue(session), num_layers);
  EXPECT_EQ(NumSearched(session), 0u);
  release_.Set();
  (void)Decoded(&session, 1);
  EXPECT_EQ(NumDue(session), 0u);
  EXPECT_EQ(NumSearched(session), num_layers);
}

TEST_P(LlamaAwaitTest, APlanThatDoesNotAwaitGoesOnWithoutThem) {
  HoldLane();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, Asked(kPlan));
  (void)Decoded(&session, 1);
  (void)Decoded(&session, 2);
  EXPECT_EQ(NumSearched(session), 0u);
}

TEST_P(LlamaAwaitTest, AnEngineThatIsToldSoWaitsForNoPlan) {
  OpenEngine(false);
  HoldLane();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, Asked(kAwaits));
  (void)Decoded(&session, 1);
  const TokenId token = 2;
  const BatchEntry entry = {.session = &session, .tokens = {&token, 1}};
  ATTNDB_ASSERT_OK(engine_->DecodeBatch({&entry, 1}));
  EXPECT_EQ(NumDue(session), session.spec().num_layers());
  EXPECT_EQ(NumSearched(session), 0u);
}

TEST_P(LlamaAwaitTest, AWaitThatIsStoppedIsDueAtTheNextToken) {
  HoldLane();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, Asked(kAwaits));
  keeps_going_ = false;
  EXPECT_THAT(engine_->Decode(session, 1),
              test::FailsWith(StatusCode::kCancelled, ::testing::HasSubstr("waited no longer")));
  EXPECT_EQ(NumDue(session), session.spec().num_layers());
  keeps_going_ = true;
  release_.Set();
  (void)Decoded(&session, 1);
  EXPECT_EQ(NumDue(session), 0u);
  EXPECT_EQ(NumSearched(session), session.spec().num_layers());
}

TEST_P(LlamaAwaitTest, GenerateWaitsAndABatchWaitsForTheSessionsThatAwait) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session first, Asked(kAwaits));
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session second, Asked(kAwaits));
  const TokenId tokens[] = {1, 2, 3};
  const BatchEntry entries[] = {{.session = &first, .tokens = std::span(tokens).first(1)},
                                {.session = &second, .tokens = std::span(tokens).last(2)}};
  ATTNDB_ASSERT_OK(engine_->DecodeBatch(entries));
  EXPECT_EQ(NumDue(first), 0u);
  EXPECT_EQ(NumDue(second), second.spec().num_layers()) << "two tokens are no decode";
  ATTNDB_ASSERT_OK(
      engine_->Generate(second, tokens, {.max_tokens = 2, .ignore_end = true}).status());
  EXPECT_EQ(NumDue(second), 0u);
}

TEST_P(LlamaAwaitTest, WhatCouldNotBeBuiltIsReadExactly) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session exact, Asked("topk(k=20,sink=4,window=16)"));
  const std::vector<float> expected = Decoded(&exact, 1);
  HoldLane();
  ATTNDB_ASSERT_OK_AND_ASSIGN(Session session, Asked(kAwaits));
  std::filesystem::rename(store() + "/segments", store() + "/elsewhere");
  release_.Set();
  const std::vector<float> logits = Decoded(&session, 1);
  EXPECT_THAT(db_->WaitForBackground(),
              test::FailsWith(StatusCode::kNotFound, ::testing::HasSubstr("pq_4x6")));
  EXPECT_EQ(NumDue(session), 0u);
  EXPECT_EQ(NumSearched(session), 0u);
  EXPECT_LT(RowDifference(logits, expected), 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Variants, LlamaAwaitTest,
                         ::testing::Values(HookVariant::kRewrite, HookVariant::kObserve),
                         [](const auto& test) {
                           return test.param == HookVariant::kRewrite ? "Rewrite" : "Observe";
                         });

}  // namespace
}  // namespace attndb::llama
