// Goal:   turns that share passes give the very tokens that each gives alone; one that fails, or is
//         cancelled, or waits, is nobody else's trouble; passes keep within their limits.
// Method: tiny random float32 models. What a turn says is read from the context that it is stored
//         as. Where the order matters, a first turn holds the scheduler up until all have come.
#include "server/batch/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/http/http_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

llama::GenerateOptions Drawn(uint32_t max_tokens, uint32_t seed) {
  llama::GenerateOptions generate = Greedy(max_tokens);
  generate.sampler = {.temperature = 1.5f, .top_k = 0, .top_p = 0.98f, .min_p = 0, .seed = seed};
  return generate;
}

class SchedulerTest : public BatchTest {
 protected:
  // Adds turns with prompts of so many tokens, and opens the gate: in which order they begin.
  std::vector<std::string> OrderOf(const std::vector<std::pair<std::string, size_t>>& prompts,
                                   uint32_t max_tokens) {
    std::vector<std::string> started;  // The scheduler's thread alone writes it.
    std::vector<std::shared_ptr<RecordingListener>> listeners;
    for (const auto& [id, num_tokens] : prompts) {
      listeners.push_back(Add(Request(id, num_tokens, num_tokens, Greedy(max_tokens)),
                              [&started, id = id] { started.push_back(id); }));
    }
    gate_.Set();
    for (const auto& listener : listeners) EXPECT_TRUE(listener->AwaitEnd());
    return started;
  }
  // Keeps a conversation whose store lacks room, and waits for a Compact that does not go on until
  // `compact_goes_on_` is set. Nothing else merges what it finds.
  void StoreBehindACompact() {
    conversations_.reset();
    db_.reset();
    ATTNDB_ASSERT_OK_AND_ASSIGN(db_,
                                DB::Open(directory_.File("store"), {.background_builds = false}));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    const std::vector<TokenId> tokens = Request("", 60, 5, Greedy(1)).prompt;
    for (const int64_t num_tokens : {20, 40, 60}) {
      const std::vector<TokenId> first(tokens.begin(), tokens.begin() + num_tokens);
      ATTNDB_ASSERT_OK_AND_ASSIGN(SessionStart start, db_->CreateSession(engine_->spec(), first));
      ATTNDB_ASSERT_OK(engine_->Prefill(start.session, start.rest));
      ATTNDB_ASSERT_OK(
          db_->Store(start.session, first, {.name = std::to_string(num_tokens), .pin = true}));
    }
    for (const char* const name : {"20", "40"}) ATTNDB_ASSERT_OK(db_->Drop(name));
    compact_ = std::thread([this] {
      ATTNDB_EXPECT_OK(db_->Compact({.progress = [this](uint64_t, uint64_t) {
        compact_begun_.Set();
        compact_goes_on_.Await();
        return true;
      }}));
    });
    compact_begun_.Await();
    ATTNDB_ASSERT_OK(db_->SetQuota(db_->Stats()->file_bytes));
    conversations_->Keep("", "full", SessionOf("", {1, 2, 3}), {1, 2, 3});
  }

  void TearDown() override {
    gate_.Set();
    compact_goes_on_.Set();
    if (compact_.joinable()) compact_.join();
    BatchTest::TearDown();
  }

  Event compact_begun_, compact_goes_on_;
  std::thread compact_;
};

// Goal: a turn that tells chances tells those that it tells alone, and nobody else's does.
TEST_F(SchedulerTest, ATurnTellsItsChancesAlone) {
  Open();
  std::vector<TurnRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    requests.push_back(Request("turn" + std::to_string(i), 5 + size_t{i} * 9, i,
                               i % 2 == 0 ? Greedy(8) : Drawn(8, i)));
    requests[i].generate.chances.num_likeliest = 3;
    requests[i].tells_chances = i < 2;
  }
  std::vector<std::vector<llama::ReplyToken>> alone(requests.size());
  for (size_t i = 0; i < 2; ++i) {
    TurnRequest request = requests[i];
    request.generate.on_tokens = [&alone, i](const std::vector<llama::ReplyToken>& tokens) {
      alone[i].insert(alone[i].end(), tokens.begin(), tokens.end());
    };
    Alone(request);
    ASSERT_EQ(alone[i].size(), 8u);
  }
  StartScheduler();
  const auto listeners = AddAtOnce(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    const std::vector<llama::ReplyToken> told = listeners[i]->chances();
    ASSERT_EQ(told.size(), alone[i].size()) << i;
    for (size_t k = 0; k < told.size(); ++k) {
      EXPECT_EQ(told[k].token, alone[i][k].token);
      EXPECT_NEAR(told[k].chance, alone[i][k].chance, 1e-3);
      ASSERT_EQ(told[k].likeliest.size(), 3u);
    }
  }
}

TEST_F(SchedulerTest, TurnsSideBySideGiveWhatEachGivesAlone) {
  Open();
  std::vector<TurnRequest> requests;
  for (uint32_t i = 0; i < 8; ++i) {
    const size_t num_tokens = 1 + size_t{i} * i * 7;  // Some in one pass, some in many.
    requests.push_back(Request("turn" + std::to_string(i), num_tokens, i,
                               i % 2 == 0 ? Greedy(20 - i) : Drawn(20 - i, i)));
  }
  requests[5].generate.sampler.repeat_penalty = 1.3f;
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : requests) alone.push_back(Alone(request));
  StartScheduler();
  const auto listeners = AddAtOnce(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    ATTNDB_ASSERT_OK(listeners[i]->error());
    EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i])) << i;
    EXPECT_EQ(listeners[i]->end()->num_tokens, alone[i].tokens.size());
    EXPECT_EQ(listeners[i]->end()->finish, llama::FinishReason::kMaxTokens);
    EXPECT_EQ(listeners[i]->start()->id, requests[i].id);
    EXPECT_EQ(listeners[i]->start()->num_prompt_tokens, requests[i].prompt.size());
    EXPECT_EQ(listeners[i]->start()->num_cached_tokens, 0u);
  }
  EXPECT_EQ(scheduler_->counts().num_failed_passes, 0u);
}

// Its plan is seen from the scheduler's thread, once it has replied and the next turn begins.
TEST_F(SchedulerTest, AnObjectiveIsFollowedByThePlan) {
  Open();
  StartScheduler();
  Session expected = NewSession(*db_);
  ATTNDB_ASSERT_OK(expected.SetPlan(PlanFor(kLeastShare)));
  TurnRequest request = Request("paced", 40, 1, Greedy(1'000'000'000));
  request.tpot_seconds = 1e-6;
  request.plan = PlanFor(request.tpot_seconds);
  const auto listener = std::make_shared<RecordingListener>();
  const std::shared_ptr<Turn> paced = MakeTurn(request, NewSession(*db_), listener);
  ATTNDB_ASSERT_OK(scheduler_->Add(paced));
  // A pass of replies alone computes the second token. Plans are set anew after such a pass.
  ASSERT_TRUE(Eventually([&] { return listener->num_tokens() >= 2; }));
  std::string plan;
  const auto next =
      Add(Request("next", 5, 2, Greedy(1)), [&] { plan = paced->session()->Explain().plan; });
  ASSERT_TRUE(next->AwaitEnd());
  paced->Cancel();
  scheduler_->Wake();
  EXPECT_EQ(plan, expected.Explain().plan);
}

TEST_F(SchedulerTest, TurnsSharePasses) {
  Open();
  StartScheduler();
  Block();
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  for (uint32_t i = 0; i < 8; ++i) {  // Their prompts fit into one pass.
    listeners.push_back(Add(Request("turn" + std::to_string(i), 5, i, Greedy(20))));
  }
  gate_.Set();
  for (const auto& listener : listeners) ASSERT_TRUE(listener->AwaitEnd());
  const PassCounts& counts = scheduler_->counts();
  EXPECT_EQ(counts.num_passes, 1u + 20u) << "the first turn's, and as many as one takes";
  EXPECT_EQ(counts.num_prompt_tokens, 1u + 8u * 5u);
  EXPECT_EQ(counts.num_reply_tokens, 8u * 19u) << "the prompts' passes give the first of each";
}

TEST_F(SchedulerTest, ATurnWithoutAReplyHandsItsSessionOver) {
  class Reader final : public TurnListener {
   public:
    explicit Reader(Event* read) : read_(read) {}
    void OnStart(const TurnStart& start) override { start_ = start; }
    void OnText(std::string_view) override { ADD_FAILURE() << "a reply"; }
    void OnEnd(const TurnEnd&) override { ADD_FAILURE() << "an end"; }
    void OnError(const Status& status) override { ADD_FAILURE() << status.ToString(); }
    void OnRead(llama::LlamaEngine* engine, Session session) override {
      EXPECT_EQ(start_.num_prompt_tokens, session.num_tokens());
      ATTNDB_EXPECT_OK(engine->Decode(session, 1));
      read_->Set();
    }

   private:
    Event* const read_;
    TurnStart start_;
  };
  Open();
  StartScheduler();
  TurnRequest request = Request("read", 50, 3, Greedy(5));
  request.replies = false;
  Event read;
  ATTNDB_ASSERT_OK(scheduler_->Add(std::make_shared<Turn>(request, NewSession(*db_), request.prompt,
                                                          std::make_shared<Reader>(&read))));
  read.Await();
  const auto next = Add(Request("next", 5, 4, Greedy(2)));
  ASSERT_TRUE(next->AwaitEnd());
  conversations_->WaitForStores();
  EXPECT_THAT(db_->Tokens("read"), FailsWith(StatusCode::kNotFound, _)) << "it was stored";
}

TEST_F(SchedulerTest, TextComesAsTheEngineWouldGiveIt) {
  Open("llama_bpe");
  TurnRequest request = Request("turn", 20, 4, Drawn(60, 4));
  const std::string whole = Alone(request).text;
  ASSERT_GT(whole.size(), 30u);
  TurnRequest stopped = request;
  stopped.id = "stopped";
  stopped.generate.stop = {whole.substr(20, 3)};
  const llama::Generation cut = Alone(stopped);
  ASSERT_EQ(cut.finish, llama::FinishReason::kStop);
  StartScheduler();
  const auto listener = Add(request);
  const auto short_listener = Add(stopped);
  ASSERT_TRUE(listener->AwaitEnd());
  ASSERT_TRUE(short_listener->AwaitEnd());
  EXPECT_EQ(listener->text(), whole);
  EXPECT_EQ(short_listener->text(), cut.text);
  EXPECT_EQ(short_listener->end()->finish, llama::FinishReason::kStop);
  EXPECT_EQ(short_listener->end()->stop, whole.substr(20, 3));
  EXPECT_EQ(listener->end()->stop, "");
  EXPECT_GE(short_listener->end()->first_token_seconds, 0);
}

TEST_F(SchedulerTest, AModelsEndEndsATurn) {
  Open("llama_bpe");
  TurnRequest request;
  llama::Generation alone;
  for (uint32_t seed = 0; seed < 50; ++seed) {  // One that ends by itself.
    request = Request("turn", 5, seed, Drawn(400, seed));
    request.generate.ignore_end = false;
    alone = Alone(request);
    if (alone.finish == llama::FinishReason::kEnd && !alone.tokens.empty()) break;
  }
  ASSERT_EQ(alone.finish, llama::FinishReason::kEnd);
  StartScheduler();
  const auto listener = Add(request);
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_EQ(listener->end()->finish, llama::FinishReason::kEnd);
  EXPECT_EQ(listener->end()->num_tokens, alone.tokens.size());
  EXPECT_EQ(listener->text(), alone.text);
  EXPECT_EQ(Stored("turn"), Held(request, alone));
}

TEST_F(SchedulerTest, WhatIsKnownOfAPromptIsNotRunAgain) {
  Open();
  const TurnRequest first = Request("first", 100, 1, Greedy(10));
  TurnRequest second = Request("second", 0, 0, Greedy(10));
  second.prompt = Held(first, Alone(first));
  const size_t num_known = second.prompt.size();
  second.prompt.insert(second.prompt.end(), {5, 6, 7});
  const llama::Generation alone = Alone(second);
  StartScheduler();
  ASSERT_TRUE(Add(first)->AwaitEnd());
  const uint64_t before = scheduler_->counts().num_prompt_tokens;
  const auto listener = Add(second);
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_EQ(listener->start()->num_prompt_tokens, second.prompt.size());
  EXPECT_EQ(listener->start()->num_cached_tokens, num_known);
  EXPECT_EQ(scheduler_->counts().num_prompt_tokens - before, 3u);
  EXPECT_EQ(Stored("second"), Held(second, alone));
}

// What is known of a prompt hangs on who asked before.
TEST_F(SchedulerTest, PenaltiesAreOfThePromptWhateverIsKnownOfIt) {
  Open();
  TurnRequest request = Request("again", 40, 3, Greedy(12));
  request.generate.sampler.repeat_penalty = 3.0f;
  request.generate.sampler.repeat_last_n = 256;
  const llama::Generation alone = Alone(request);
  TurnRequest before = request;
  before.id = "before";
  StartScheduler();
  ASSERT_TRUE(Add(before)->AwaitEnd());
  const auto listener = Add(request);
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_EQ(listener->start()->num_cached_tokens, request.prompt.size() - 1);
  EXPECT_EQ(Stored("before"), Held(request, alone));
  EXPECT_EQ(Stored("again"), Held(request, alone));
}

TEST_F(SchedulerTest, TurnsOutgrowTheirWindowAsTheyWouldAlone) {
  Open();
  std::vector<TurnRequest> requests;
  for (uint32_t i = 0; i < 3; ++i) {
    requests.push_back(Request("turn" + std::to_string(i), 30 + 70 * i, i, Greedy(60)));
    requests.back().generate.prefill.window = {.window_tokens = 64 + 16 * i, .keep_first = 4};
  }
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : requests) alone.push_back(Alone(request));
  StartScheduler();
  const auto listeners = AddAtOnce(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    ATTNDB_ASSERT_OK(listeners[i]->error());
    EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i])) << i;
  }
  EXPECT_EQ(listeners[0]->start()->num_dropped_tokens, 0u);
  EXPECT_GT(listeners[2]->start()->num_dropped_tokens, 0u);
  EXPECT_GT(listeners[0]->end()->num_dropped_tokens, 0u) << "while it replied";
  EXPECT_GT(listeners[2]->end()->num_dropped_tokens, listeners[2]->start()->num_dropped_tokens);
}

TEST_F(SchedulerTest, WhatHasLeftTheWindowIsNotReused) {
  Open();
  StartScheduler();
  TurnRequest first = Request("first", 100, 1, Greedy(60));
  first.generate.prefill.window = {.window_tokens = 64, .keep_first = 4};
  const auto cold = Add(first);
  ASSERT_TRUE(cold->AwaitEnd());
  EXPECT_GT(cold->start()->num_dropped_tokens, 0u);
  EXPECT_EQ(cold->start()->num_cached_tokens, 0u);
  EXPECT_EQ(cold->start()->num_run_tokens, 100u);

  TurnRequest second = Request("second", 0, 0, Greedy(2));
  second.generate.prefill.window = first.generate.prefill.window;
  second.prompt = Stored("first");
  const uint64_t num_left = second.prompt.size() - cold->end()->num_dropped_tokens;
  second.prompt.insert(second.prompt.end(), {5, 6, 7});
  const auto warm = Add(second);
  ASSERT_TRUE(warm->AwaitEnd());
  // A full window loses half before anything runs.
  EXPECT_EQ(warm->start()->num_cached_tokens, num_left < 64 ? num_left : 32u);
  EXPECT_EQ(warm->start()->num_run_tokens, 3u);
}

TEST_F(SchedulerTest, PassesKeepWithinAUbatch) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.ubatch_tokens = 6;
  options.max_sessions = 16;
  Open("llama", options);
  std::vector<TurnRequest> requests;
  for (uint32_t i = 0; i < 12; ++i) {
    requests.push_back(Request("turn" + std::to_string(i), 3 + 5 * i, i, Greedy(8)));
  }
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : requests) alone.push_back(Alone(request));
  StartScheduler();
  const auto listeners = AddAtOnce(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    ATTNDB_ASSERT_OK(listeners[i]->error());
    EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i])) << i;
  }
  EXPECT_EQ(scheduler_->counts().num_failed_passes, 0u);
}

TEST_F(SchedulerTest, PromptsShareTheBudget) {
  Open();
  StartScheduler();
  Block();
  EXPECT_THAT(OrderOf({{"long", 600}, {"middle", 200}, {"short", 15}}, 2),
              ElementsAre("short", "middle", "long"));
}

TEST_F(SchedulerTest, BesideRepliesShortPromptsComeFirstAndLongOnesInTurns) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.ubatch_tokens = 24;  // A long one takes many passes, however short these are.
  Open("llama", options);
  StartScheduler();
  const auto reply = Add(Request("reply", 1, 1, Greedy(900)), [this] { gate_.Await(); });
  ASSERT_TRUE(reply->AwaitStart());
  EXPECT_THAT(OrderOf({{"longest", 900}, {"long", 300}, {"short", 10}}, 1),
              ElementsAre("short", "long", "longest"));
  ASSERT_TRUE(reply->AwaitEnd());
}

// K and V of all layers of a stored context, one behind the other.
std::vector<float> StoredKv(const llama::LlamaEngine& engine, const DB& db, const std::string& id,
                            std::vector<TokenId> tokens) {
  const uint64_t num_tokens = tokens.size();
  tokens.push_back(0);  // The one that would be run.
  SessionOptions options;
  options.context = id;
  Result<SessionStart> start = db.CreateSession(engine.spec(), tokens, options);
  std::vector<float> all;
  EXPECT_TRUE(start.ok() && start->session.num_tokens() == num_tokens) << id;
  for (LayerId layer = 0; start.ok() && layer < engine.spec().num_layers(); ++layer) {
    const LayerSpec& spec = engine.spec().layers[layer];
    std::vector<float> k(num_tokens * spec.num_kv_heads * spec.head_dim);
    std::vector<float> v(num_tokens * spec.num_kv_heads * spec.v_head_dim);
    const auto n = static_cast<int64_t>(num_tokens);
    ATTNDB_EXPECT_OK(
        start->session.ReadKv(layer, {0, num_tokens},
                              MutableTensorView::Contiguous(k.data(), DType::kFloat32, n,
                                                            spec.num_kv_heads, spec.head_dim),
                              MutableTensorView::Contiguous(v.data(), DType::kFloat32, n,
                                                            spec.num_kv_heads, spec.v_head_dim)));
    all.insert(all.end(), k.begin(), k.end());
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

TEST_F(SchedulerTest, NeighboursChangeNothingOfASparselyAttendedTurn) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.ubatch_tokens = 512;  // More rows than an Attend may have to be sparse.
  Open("llama", options);
  StartScheduler();
  const std::string sparse = "topk(k=4,sink=1,window=4)";
  std::vector<TurnRequest> requests;  // Long prompts, and such as are sparse in whatever passes.
  for (const size_t num_tokens : {size_t{40}, size_t{200}, size_t{450}}) {
    requests.push_back(Request(std::to_string(num_tokens), num_tokens, num_tokens, Greedy(20)));
    requests.back().plan = sparse;
  }
  const auto add = [&](TurnRequest request, const std::string& suffix) {
    request.id += suffix;
    Session session = NewSession(*db_);
    ATTNDB_EXPECT_OK(session.SetPlan(sparse));
    auto listener = std::make_shared<RecordingListener>();
    ATTNDB_EXPECT_OK(scheduler_->Add(MakeTurn(request, std::move(session), listener)));
    return listener;
  };
  for (const TurnRequest& request : requests) ASSERT_TRUE(add(request, "-alone")->AwaitEnd());
  Block();
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  for (uint32_t i = 0; i < 4; ++i) {  // They reply all the while, so that prompts come in pieces.
    listeners.push_back(Add(Request("other" + std::to_string(i), 2, i, Greedy(120))));
  }
  for (const TurnRequest& request : requests) listeners.push_back(add(request, "-beside"));
  gate_.Set();
  for (const auto& listener : listeners) ASSERT_TRUE(listener->AwaitEnd());
  for (const TurnRequest& request : requests) {
    const std::vector<TokenId> tokens = Stored(request.id + "-alone");
    EXPECT_EQ(Stored(request.id + "-beside"), tokens);
    const auto alone = StoredKv(*engine_, *db_, request.id + "-alone", tokens);
    const auto beside = StoredKv(*engine_, *db_, request.id + "-beside", tokens);
    ASSERT_EQ(alone.size(), beside.size());
    float most = 0;
    for (size_t i = 0; i < alone.size(); ++i) {
      most = std::max(most, std::abs(alone[i] - beside[i]));
    }
    EXPECT_LT(most, 1e-4f) << request.id << ": more than rounding";
  }
}

TEST_F(SchedulerTest, RepliesGoOnWhileAPromptIsRead) {
  Open();
  StartScheduler();
  Block();
  const auto reply = Add(Request("reply", 1, 1, Greedy(6)));
  bool replied_before = false;
  const auto prompt =
      Add(Request("prompt", 900, 2, Greedy(1)), [&] { replied_before = reply->end().has_value(); });
  gate_.Set();
  ASSERT_TRUE(prompt->AwaitEnd());
  EXPECT_TRUE(replied_before);
}

TEST_F(SchedulerTest, MoreThanSoManyWaitingAreRefused) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.max_sessions = 1;
  Open("llama", options);
  StartScheduler({.max_waiting = 2});
  Block();
  const auto first = Add(Request("first", 3, 1, Greedy(2)));
  const auto second = Add(Request("second", 3, 2, Greedy(2)));
  EXPECT_EQ(scheduler_->num_active(), 1u);
  EXPECT_EQ(scheduler_->num_waiting(), 2u);
  const auto third = std::make_shared<RecordingListener>();
  const TurnRequest request = Request("third", 3, 3, Greedy(2));
  EXPECT_THAT(scheduler_->Add(MakeTurn(request, NewSession(*db_), third)),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("too many requests wait")));
  gate_.Set();
  ASSERT_TRUE(first->AwaitEnd());
  ASSERT_TRUE(second->AwaitEnd());
  ATTNDB_EXPECT_OK(first->error());
  EXPECT_EQ(third->num_calls(), 0) << "whoever adds it answers";
  EXPECT_EQ(scheduler_->num_waiting(), 0u);
  ASSERT_TRUE(Add(Request("fourth", 3, 4, Greedy(2)))->AwaitEnd());
}

TEST_F(SchedulerTest, ACancelledTurnIsToldNothingMore) {
  Open("llama_bpe");
  StartScheduler();
  const TurnRequest request = Request("cancelled", 10, 1, Greedy(1'000'000'000));
  const auto listener = std::make_shared<RecordingListener>();
  std::shared_ptr<Turn> turn = MakeTurn(request, NewSession(*db_), listener);
  const std::weak_ptr<Turn> weak = turn;
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  ASSERT_TRUE(listener->AwaitStart());
  turn->Cancel();
  const uint64_t num_passes = scheduler_->counts().num_passes;
  turn.reset();
  scheduler_->Wake();
  EXPECT_TRUE(Eventually([&] { return weak.expired() && scheduler_->num_active() == 0; }));
  EXPECT_LE(scheduler_->counts().num_passes, num_passes + 1) << "the one that runs is the last";
  EXPECT_FALSE(listener->end());
  ATTNDB_EXPECT_OK(listener->error());
  const int num_calls = listener->num_calls();
  ASSERT_TRUE(Add(Request("next", 3, 2, Greedy(3)))->AwaitEnd());
  EXPECT_EQ(listener->num_calls(), num_calls);
}

TEST_F(SchedulerTest, NoTokenIsLateUnnoticedWhileAPromptIsRead) {
  Open();
  StartScheduler();
  Block();
  TurnRequest hasty = Request("hasty", 1, 1, Greedy(6));
  hasty.tpot_seconds = 1e-9;
  const auto reply = Add(hasty);
  const auto prompt = Add(Request("prompt", 900, 2, Greedy(1)));
  gate_.Set();
  ASSERT_TRUE(prompt->AwaitEnd());
  ASSERT_TRUE(reply->AwaitEnd());
  EXPECT_EQ(scheduler_->counts().num_late_tokens, 5u) << "the first is not one after another";
}

TEST_F(SchedulerTest, ATurnMayBeCancelledBeforeItIsItsTurn) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.max_sessions = 1;
  Open("llama", options);
  StartScheduler();
  Block();
  const auto listener = std::make_shared<RecordingListener>();
  std::shared_ptr<Turn> turn =
      MakeTurn(Request("cancelled", 3, 1, Greedy(2)), NewSession(*db_), listener);
  const std::weak_ptr<Turn> weak = turn;
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  turn->Cancel();
  turn.reset();
  scheduler_->Wake();
  gate_.Set();
  EXPECT_TRUE(Eventually([&] { return weak.expired(); }));
  EXPECT_EQ(listener->num_calls(), 0);
}

TEST_F(SchedulerTest, ATurnThatFailsHarmsNoOther) {
  Open();
  const TurnRequest good = Request("good", 150, 1, Greedy(20));
  const TurnRequest drawn = Request("drawn", 40, 2, Drawn(20, 2));
  const llama::Generation good_alone = Alone(good);
  const llama::Generation drawn_alone = Alone(drawn);
  // Its store has little memory: it fails while its prompt is read, or its reply.
  const DB small = OpenSmall();
  StartScheduler();
  Block();
  const auto poor = std::make_shared<RecordingListener>();
  ATTNDB_ASSERT_OK(
      scheduler_->Add(MakeTurn(Request("poor", 400, 3, Greedy(1)), NewSession(small), poor)));
  const auto talking = std::make_shared<RecordingListener>();
  ATTNDB_ASSERT_OK(scheduler_->Add(
      MakeTurn(Request("talking", 2, 4, Greedy(5000)), NewSession(small), talking)));
  const auto good_listener = Add(good);
  const auto drawn_listener = Add(drawn);
  gate_.Set();
  for (const auto& listener : {poor, talking, good_listener, drawn_listener}) {
    ASSERT_TRUE(listener->AwaitEnd());
  }
  EXPECT_THAT(poor->error(), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_THAT(talking->error(), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_TRUE(talking->start());
  EXPECT_EQ(Stored("good"), Held(good, good_alone));
  EXPECT_EQ(Stored("drawn"), Held(drawn, drawn_alone));
  EXPECT_GT(scheduler_->counts().num_failed_passes, 0u);
}

// A disk that is slow holds up who lacks memory, and nobody else.
TEST_F(SchedulerTest, WhoLacksMemoryWaitsForStoresWhileOthersGoOn) {
  Open();
  StoreBehindACompact();
  const DB small = OpenSmall();
  StartScheduler();
  const auto poor = std::make_shared<RecordingListener>();
  ATTNDB_ASSERT_OK(
      scheduler_->Add(MakeTurn(Request("poor", 400, 3, Greedy(1)), NewSession(small), poor)));
  ASSERT_TRUE(Eventually([this] { return scheduler_->counts().num_failed_passes > 0; }));
  const auto good = Add(Request("good", 50, 1, Greedy(20)));
  ASSERT_TRUE(good->AwaitEnd());
  ATTNDB_EXPECT_OK(good->error());
  EXPECT_EQ(poor->num_calls(), 0);
  compact_goes_on_.Set();
  ASSERT_TRUE(poor->AwaitEnd());
  EXPECT_THAT(poor->error(), FailsWith(StatusCode::kResourceExhausted, _)) << "it never fits";
}

TEST_F(SchedulerTest, OptionsThatCantBeAreTheTurnsOwnError) {
  Open();
  TurnRequest sampler = Request("sampler", 10, 1, Greedy(5));
  sampler.generate.sampler.top_p = 2.0f;
  TurnRequest window = Request("window", 10, 2, Greedy(5));
  window.generate.prefill.window = {.window_tokens = 64, .keep_first = 40};
  TurnRequest foreign = Request("foreign", 10, 3, Greedy(5));
  foreign.prompt[5] = 1 << 30;  // An id that the model has not.
  const TurnRequest good = Request("good", 10, 4, Greedy(5));
  const llama::Generation alone = Alone(good);
  StartScheduler();
  Block();
  std::map<std::string, std::shared_ptr<RecordingListener>> listeners;
  for (const TurnRequest& request : {sampler, window, foreign, good}) {
    listeners[request.id] = Add(request);
  }
  gate_.Set();
  for (const auto& [id, listener] : listeners) ASSERT_TRUE(listener->AwaitEnd()) << id;
  EXPECT_THAT(listeners["sampler"]->error(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("top_p")));
  EXPECT_THAT(listeners["window"]->error(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("keep_first")));
  EXPECT_THAT(listeners["foreign"]->error(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("id 1073741824")));
  EXPECT_EQ(Stored("good"), Held(good, alone));
}

TEST_F(SchedulerTest, WhereMemoryIsShortSessionsThatNobodyUsesGoFirst) {
  Open();
  // Room for some 300 tokens, and the calls' own.
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      db_, DB::Open(directory_.File("small"),
                    {.query_sample = 0,
                     .host_memory_bytes = (512 << 10) + 300 * engine_->spec().KvBytesPerToken(),
                     .background_builds = false}));
  conversations_.emplace(*db_, &*engine_, ConversationOptions{});
  StartScheduler();
  for (uint32_t i = 0; i < 6; ++i) {
    const auto listener = Add(Request("turn" + std::to_string(i), 130, i, Greedy(4)));
    ASSERT_TRUE(listener->AwaitEnd());
    ATTNDB_EXPECT_OK(listener->error()) << i;
  }
}

TEST_F(SchedulerTest, StoppingEndsWhatIsUnderWay) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.max_sessions = 1;
  Open("llama", options);
  StartScheduler();
  const auto active = Add(Request("active", 3, 1, Greedy(1'000'000'000)));
  ASSERT_TRUE(active->AwaitStart());
  const auto waiting = Add(Request("waiting", 3, 2, Greedy(2)));
  scheduler_.reset();
  EXPECT_THAT(active->error(), FailsWith(StatusCode::kCancelled, HasSubstr("stops")));
  EXPECT_THAT(waiting->error(), FailsWith(StatusCode::kCancelled, HasSubstr("stops")));
  EXPECT_GE(Stored("active").size(), 3u);
  EXPECT_THAT(db_->Tokens("waiting"), FailsWith(StatusCode::kNotFound, _)) << "nothing was run";
}

TEST_F(SchedulerTest, ThreadsMayAddAndCancelAtAnyTime) {
  Open();
  StartScheduler();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 3; ++t) {
    threads.emplace_back([this, t] {
      for (uint32_t i = 0; i < 12; ++i) {
        const TurnRequest request =
            Request(std::to_string(t) + "-" + std::to_string(i), 1 + i * 3, t * 100 + i, Greedy(4));
        const auto listener = std::make_shared<RecordingListener>();
        auto turn = MakeTurn(request, NewSession(*db_), listener);
        ATTNDB_EXPECT_OK(scheduler_->Add(turn));
        if (i % 3 == 0) {
          turn->Cancel();
          scheduler_->Wake();
        } else {
          EXPECT_TRUE(listener->AwaitEnd());
          ATTNDB_EXPECT_OK(listener->error());
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace attndb::server
