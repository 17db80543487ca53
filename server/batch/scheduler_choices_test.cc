// Goal:   the choices of a turn share its prompt: this is run once and its K and V are held once.
//         Each choice says what it says alone, is stored as a turn of its own, and ends alone.
// Method: tiny random float32 models. A first turn holds the scheduler up where the order matters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "server/http/http_test_util.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::_;
using ::testing::Each;

constexpr uint32_t kForEver = 1'000'000'000;  // Tokens of a reply.

class ChoicesTest : public BatchTest {
 protected:
  struct Choice {
    TurnRequest request;
    std::shared_ptr<RecordingListener> listener;
    std::shared_ptr<Turn> turn;
  };

  // The requests of choices, which draw by different seeds.
  std::vector<TurnRequest> Requests(size_t count, size_t num_prompt_tokens, uint32_t max_tokens) {
    llama::GenerateOptions generate = Greedy(max_tokens);
    generate.sampler = {.temperature = 1.5f, .top_k = 0, .top_p = 0.98f, .min_p = 0, .seed = 7};
    std::vector<TurnRequest> requests;
    for (size_t i = 0; i < count; ++i) {
      const std::string id = std::to_string(num_prompt_tokens) + "-" + std::to_string(i);
      requests.push_back(Request(id, num_prompt_tokens, num_prompt_tokens, generate));
      ++generate.sampler.seed;
    }
    return requests;
  }
  // Turns for the requests, the first with the others as its choices.
  std::vector<Choice> Make(const std::vector<TurnRequest>& requests, const DB& db,
                           const std::function<void()>& on_last_start = nullptr) {
    std::vector<Choice> made;
    std::vector<std::shared_ptr<Turn>> others;
    for (const TurnRequest& request : requests) {
      const bool is_last = made.size() + 1 == requests.size();
      auto listener = std::make_shared<RecordingListener>(is_last ? on_last_start : nullptr);
      made.push_back({request, listener, MakeTurn(request, NewSession(db), listener)});
      if (made.size() > 1) others.push_back(made.back().turn);
    }
    made.front().turn->AddChoices(std::move(others));
    return made;
  }
  std::vector<Choice> Make(const std::vector<TurnRequest>& requests) {
    return Make(requests, *db_);
  }
  void AddTurn(const Choice& first) { ATTNDB_ASSERT_OK(scheduler_->Add(first.turn)); }
  static void AwaitAll(const std::vector<Choice>& choices) {
    for (const Choice& choice : choices) ASSERT_TRUE(choice.listener->AwaitEnd());
  }
  uint64_t BytesInMemory() const { return db_->Stats()->memory_bytes; }
  uint64_t BytesOf(uint64_t num_tokens) const {
    return num_tokens * engine_->spec().KvBytesPerToken();
  }
};

TEST_F(ChoicesTest, ThePromptIsRunOnceAndEachChoiceSaysWhatItSaysAlone) {
  Open();
  const std::vector<TurnRequest> requests = Requests(4, 150, 12);
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : requests) alone.push_back(Alone(request));
  StartScheduler();
  const auto choices = Make(requests);
  AddTurn(choices[0]);
  AwaitAll(choices);
  std::set<std::vector<TokenId>> replies;
  for (size_t i = 0; i < choices.size(); ++i) {
    SCOPED_TRACE(i);
    ATTNDB_ASSERT_OK(choices[i].listener->error());
    EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i]));
    EXPECT_EQ(choices[i].listener->end()->num_tokens, 12u);
    EXPECT_EQ(choices[i].listener->start()->id, requests[i].id);
    EXPECT_EQ(choices[i].listener->start()->num_prompt_tokens, 150u);
    EXPECT_EQ(choices[i].listener->start()->num_cached_tokens, 0u);
    EXPECT_EQ(choices[i].listener->start()->num_run_tokens, 150u);
    replies.insert(alone[i].tokens);
  }
  EXPECT_EQ(replies.size(), 4u) << "each draws by its own seed";
  const PassCounts& counts = scheduler_->counts();
  EXPECT_EQ(counts.num_prompt_tokens, 150u);
  EXPECT_EQ(counts.num_reply_tokens, 4u * 11u) << "the prompt's pass gives the first of each";
  EXPECT_EQ(conversations_->num_live(), 4u);
}

TEST_F(ChoicesTest, ChoicesMayShareTheirRequest) {
  Open();
  const std::vector<TurnRequest> requests = Requests(3, 60, 9);
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : requests) alone.push_back(Alone(request));
  StartScheduler();
  const auto shared = std::make_shared<const TurnRequest>(requests[0]);
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  std::vector<std::shared_ptr<Turn>> turns;
  for (const TurnRequest& request : requests) {
    listeners.push_back(std::make_shared<RecordingListener>());
    TurnOwn own = {.id = request.id,
                   .cut_id = request.id,
                   .seed = request.generate.sampler.seed,
                   .note = nullptr};
    turns.push_back(std::make_shared<Turn>(shared, std::move(own), NewSession(*db_),
                                           turns.empty() ? shared->prompt : std::vector<TokenId>(),
                                           listeners.back()));
    EXPECT_EQ(&turns.back()->request(), shared.get());
  }
  const std::shared_ptr<Turn> first = turns[0];
  turns.erase(turns.begin());
  first->AddChoices(std::move(turns));
  ATTNDB_ASSERT_OK(scheduler_->Add(first));
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    EXPECT_EQ(listeners[i]->start()->id, requests[i].id);
    EXPECT_EQ(Stored(requests[i].id), Held(requests[i], alone[i]));
  }
}

// The passes are as many as those of one reply, so that no choice waits for another.
TEST_F(ChoicesTest, ChoicesShareAllPasses) {
  Open();
  StartScheduler();
  const auto choices = Make(Requests(8, 9, 20));
  AddTurn(choices[0]);
  AwaitAll(choices);
  EXPECT_EQ(scheduler_->counts().num_passes, 20u);
}

TEST_F(ChoicesTest, TheKvOfThePromptIsHeldOnce) {
  Open();
  constexpr size_t kPromptTokens = 1024 + 10;
  constexpr uint32_t kReplyTokens = 20;
  StartScheduler();
  uint64_t bytes_at_start[2] = {};
  uint64_t bytes_at_end[2] = {};
  for (const size_t count : {1u, 8u}) {
    const size_t at = count == 1 ? 0 : 1;
    const uint64_t before = BytesInMemory();
    const auto choices = Make(Requests(count, kPromptTokens + at, kReplyTokens), *db_,
                              [&] { bytes_at_start[at] = BytesInMemory() - before; });
    AddTurn(choices[0]);
    AwaitAll(choices);
    bytes_at_end[at] = BytesInMemory() - before;
    conversations_->WaitForStores();
    conversations_->DropLive();
  }
  EXPECT_LE(bytes_at_start[1], bytes_at_start[0] + BytesOf(16));
  // Each choice copies the block of 256 tokens in which the prompt ends.
  EXPECT_LE(bytes_at_end[1], bytes_at_end[0] + 7 * BytesOf(256) + BytesOf(16));
}

// A choice adds its reply alone to what the store has.
TEST_F(ChoicesTest, ThePromptIsStoredOnce) {
  Open();
  constexpr size_t kPromptTokens = 700;
  constexpr uint32_t kReplyTokens = 21;  // The last one is not run.
  StartScheduler();
  const auto bytes_of = [&](size_t count, size_t num_prompt_tokens, uint32_t num_reply_tokens) {
    const uint64_t before = db_->Stats()->file_bytes;
    const auto choices = Make(Requests(count, num_prompt_tokens, num_reply_tokens));
    AddTurn(choices[0]);
    AwaitAll(choices);
    conversations_->WaitForStores();
    ATTNDB_EXPECT_OK(db_->WaitForBackground());
    for (const Choice& choice : choices) EXPECT_TRUE(choice.listener->end()->stored.Wait().ok());
    return db_->Stats()->file_bytes - before;
  };
  const uint64_t of_reply = bytes_of(1, kReplyTokens - 1, 0);  // As many tokens.
  const uint64_t one = bytes_of(1, kPromptTokens, kReplyTokens);
  const uint64_t eight = bytes_of(8, kPromptTokens + 1, kReplyTokens);
  RecordProperty("bytes_of_one", std::to_string(one));
  RecordProperty("bytes_of_eight", std::to_string(eight));
  EXPECT_LE(eight, one + 8 * of_reply);
  EXPECT_TRUE(db_->Verify()->ok());
}

TEST_F(ChoicesTest, AChoiceThatIsNotStoredLeavesThePromptToTheOthers) {
  Open();
  StartScheduler();
  std::vector<TurnRequest> requests = Requests(4, 300, 12);
  requests[0].cut_id = requests[2].cut_id = "";  // Cut turns are not stored.
  const auto choices = Make(requests);
  for (const size_t which : {0u, 2u}) {
    Turn* const turn = choices[which].turn.get();
    // The first choice's prompt is counted, too.
    turn->CountWith([turn, left = which == 0 ? 300u + 4u : 4u](uint64_t n) mutable {
      left -= static_cast<uint32_t>(n);
      if (left == 0) turn->Cancel();
    });
  }
  AddTurn(choices[0]);
  for (const size_t which : {1u, 3u}) {
    ASSERT_TRUE(choices[which].listener->AwaitEnd());
    ATTNDB_ASSERT_OK(choices[which].listener->end()->stored.Wait().status());
  }
  EXPECT_EQ(db_->List()->size(), 2u);
  EXPECT_EQ(db_->Stats()->num_segments, 3u) << "the prompt and two replies";
}

TEST_F(ChoicesTest, ChoicesMayEndWithTheFirstTokenOrWithout) {
  Open();
  StartScheduler();
  for (const uint32_t max_tokens : {0u, 1u}) {
    const auto choices = Make(Requests(3, 40 + max_tokens, max_tokens));
    AddTurn(choices[0]);
    AwaitAll(choices);
    for (const Choice& choice : choices) {
      ATTNDB_ASSERT_OK(choice.listener->error());
      EXPECT_EQ(choice.listener->end()->num_tokens, max_tokens);
      EXPECT_EQ(Stored(choice.request.id), choice.request.prompt);
      ATTNDB_ASSERT_OK(db_->Drop(choice.request.id));
    }
  }
}

TEST_F(ChoicesTest, AChoiceThatIsCancelledEndsAlone) {
  Open();
  const std::vector<std::vector<TurnRequest>> requests = {Requests(3, 30, 12), Requests(3, 31, 12)};
  std::vector<std::vector<llama::Generation>> alone(2);
  for (const size_t which : {0u, 1u}) {
    for (const TurnRequest& request : requests[which]) alone[which].push_back(Alone(request));
  }
  StartScheduler();
  for (const size_t which : {0u, 1u}) {
    SCOPED_TRACE(which);
    const auto choices = Make(requests[which]);
    Turn* const cancelled = choices[which].turn.get();
    // The first choice's prompt is counted, too.
    cancelled->CountWith([cancelled, left = which == 0 ? 30u + 4u : 4u](uint64_t n) mutable {
      left -= static_cast<uint32_t>(n);
      if (left == 0) cancelled->Cancel();
    });
    AddTurn(choices[0]);
    for (size_t i = 0; i < choices.size(); ++i) {
      if (i == which) continue;
      ASSERT_TRUE(choices[i].listener->AwaitEnd());
      ATTNDB_ASSERT_OK(choices[i].listener->error());
      EXPECT_EQ(Stored(requests[which][i].id), Held(requests[which][i], alone[which][i])) << i;
    }
    EXPECT_FALSE(choices[which].listener->end());
    EXPECT_EQ(choices[which].listener->num_tokens(), 4u);
    EXPECT_EQ(Stored(requests[which][which].id).size(), requests[which][0].prompt.size() + 3u)
        << "it is kept as far as it was run";
  }
}

TEST_F(ChoicesTest, AChoiceThatFailsEndsAlone) {
  class Throws final : public TurnListener {
   public:
    void OnStart(const TurnStart&) override { throw std::bad_alloc(); }
    void OnText(std::string_view) override { ADD_FAILURE() << "it has ended"; }
    void OnEnd(const TurnEnd&) override { ADD_FAILURE() << "it has failed"; }
    void OnError(const Status& status) override {
      EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
      told.Set();
    }
    Event told;
  };
  Open();
  StartScheduler();
  for (const size_t which : {0u, 1u}) {
    SCOPED_TRACE(which);
    const std::vector<TurnRequest> requests = Requests(3, 30 + which, 12);
    const auto throws = std::make_shared<Throws>();
    std::vector<std::shared_ptr<RecordingListener>> others;
    std::vector<std::shared_ptr<Turn>> turns;
    for (size_t i = 0; i < requests.size(); ++i) {
      std::shared_ptr<TurnListener> listener = throws;
      if (i != which) listener = others.emplace_back(std::make_shared<RecordingListener>());
      turns.push_back(
          std::make_shared<Turn>(requests[i], NewSession(*db_), requests[i].prompt, listener));
    }
    turns[0]->AddChoices({turns[1], turns[2]});
    ATTNDB_ASSERT_OK(scheduler_->Add(turns[0]));
    throws->told.Await();
    for (const auto& other : others) {
      ASSERT_TRUE(other->AwaitEnd());
      ATTNDB_EXPECT_OK(other->error());
      EXPECT_EQ(other->num_tokens(), 12u);
    }
  }
}

TEST_F(ChoicesTest, AllChoicesLearnThatThePromptFailed) {
  Open();
  const DB small = OpenSmall();
  StartScheduler();
  const auto choices = Make(Requests(3, 100, 4), small);
  AddTurn(choices[0]);
  AwaitAll(choices);
  for (const Choice& choice : choices) {
    EXPECT_THAT(choice.listener->error(), FailsWith(StatusCode::kResourceExhausted, _));
  }
  EXPECT_TRUE(Eventually([&] { return scheduler_->num_active() == 0; }));
}

TEST_F(ChoicesTest, AllChoicesLearnThatTheServerStops) {
  Open();
  StartScheduler();
  Block();
  const auto waiting = Make(Requests(3, 10, 4));
  AddTurn(waiting[0]);
  gate_.Set();
  AwaitAll(waiting);
  const auto replying = Make(Requests(3, 20, kForEver));
  AddTurn(replying[0]);
  ASSERT_TRUE(replying[2].listener->AwaitStart());
  scheduler_->Stop();
  AwaitAll(replying);
  for (const Choice& choice : replying) {
    EXPECT_EQ(choice.listener->error().code(), StatusCode::kCancelled);
  }
}

// The client has gone.
TEST_F(ChoicesTest, TurnsThatAreCancelledInTheirPromptEndWithoutACall) {
  Open();
  StartScheduler();
  Block();
  const auto choices = Make(Requests(3, 200, 4));
  AddTurn(choices[0]);
  for (const Choice& choice : choices) choice.turn->Cancel();
  gate_.Set();
  scheduler_->Wake();
  const auto next = Add(Request("next", 5, 2, Greedy(2)));
  ASSERT_TRUE(next->AwaitEnd());
  EXPECT_EQ(scheduler_->num_waiting(), 0u);
  for (const Choice& choice : choices) EXPECT_EQ(choice.listener->num_calls(), 0);
}

TEST_F(ChoicesTest, ATurnWaitsForPlacesForAllOfItsChoices) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.max_sessions = 4;
  Open("llama", options);
  StartScheduler();
  EXPECT_EQ(scheduler_->max_replies(), 4u);
  const auto too_many = Make(Requests(5, 10, 4));
  EXPECT_THAT(scheduler_->Add(too_many[0].turn), FailsWith(StatusCode::kInvalidArgument, _));

  std::vector<std::shared_ptr<RecordingListener>> before;
  Block();
  for (uint64_t i = 0; i < 2; ++i) {
    before.push_back(Add(Request("before" + std::to_string(i), 9, i, Greedy(10))));
  }
  const auto choices = Make(Requests(3, 11, 4));
  AddTurn(choices[0]);
  gate_.Set();
  AwaitAll(choices);
  for (const auto& listener : before) {
    ASSERT_TRUE(listener->AwaitEnd());
    ATTNDB_EXPECT_OK(listener->error());
  }
  for (const Choice& choice : choices) ATTNDB_EXPECT_OK(choice.listener->error());
  EXPECT_EQ(scheduler_->counts().num_failed_passes, 0u) << "no pass had more than 4 sessions";
}

TEST_F(ChoicesTest, OthersPassATurnThatWaitsForPlaces) {
  llama::EngineOptions options = llama::TinyOptions(llama::HookVariant::kRewrite);
  options.max_sessions = 4;
  Open("llama", options);
  StartScheduler();
  Block();
  std::vector<std::shared_ptr<RecordingListener>> before;
  for (uint64_t i = 0; i < 2; ++i) {
    before.push_back(Add(Request("before" + std::to_string(i), 9, i, Greedy(100))));
  }
  const auto choices = Make(Requests(3, 11, 4));
  AddTurn(choices[0]);
  std::atomic<uint64_t> num_before = 0;  // Tokens of an earlier reply when the later one begins.
  const auto later =
      std::make_shared<RecordingListener>([&] { num_before = before[0]->num_tokens(); });
  const TurnRequest request = Request("later", 9, 2, Greedy(1));
  ATTNDB_ASSERT_OK(
      scheduler_->Add(std::make_shared<Turn>(request, NewSession(*db_), request.prompt, later)));
  gate_.Set();
  ASSERT_TRUE(later->AwaitEnd());
  ATTNDB_EXPECT_OK(later->error());
  EXPECT_LT(num_before, 50u) << "it has waited for the choices";
  AwaitAll(choices);
  for (const Choice& choice : choices) ATTNDB_EXPECT_OK(choice.listener->error());
  for (const auto& listener : before) ASSERT_TRUE(listener->AwaitEnd());
}

}  // namespace
}  // namespace attndb::server
