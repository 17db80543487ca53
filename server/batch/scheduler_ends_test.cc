// Goal:   turns that end, fail, are cancelled or hand their sessions over in a pass change nothing
//         of the other turns of that pass, in any order. A named turn is stored with its last token
//         or not at all.
// Method: a tiny random float32 model. All prompts of a case are read in one pass; each turn must
//         give the tokens that the engine alone gives, and be stored as them. Every pair of kinds
//         of turns runs in both orders; groups of three to eight run in drawn orders.
// Replay: the seed of a drawn order is in the trace of a failure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::_;

constexpr size_t kPromptTokens = 5;
constexpr uint32_t kMoreTokens = 6;  // A turn that goes on has so many tokens more than the others.

// How a turn leaves.
enum class Way : uint8_t {
  kLength,
  kStop,
  kWindow,     // By length, and its oldest tokens leave the window before its last one runs.
  kCancelled,  // On the scheduler's thread, in the pass that gives its last token.
  kPoor,       // The pass fails for it: its store has no memory for a token.
  kRefused,    // Its reply can't begin.
  kRead,       // It replies nothing; its listener runs the engine, as that of an explain request.
  kGoesOn,
};

struct Kind {
  Way way = Way::kLength;
  bool is_named = false;
};

constexpr Kind kKinds[] = {
    {Way::kLength, false},    {Way::kLength, true},    {Way::kStop, false},   {Way::kStop, true},
    {Way::kWindow, false},    {Way::kWindow, true},    {Way::kGoesOn, false}, {Way::kGoesOn, true},
    {Way::kCancelled, false}, {Way::kCancelled, true}, {Way::kPoor, false},   {Way::kPoor, true},
    {Way::kRefused, false},   {Way::kRefused, true},   {Way::kRead, false},
};

std::string NameOf(const Kind& kind) {
  static const char* const kNames[] = {"length", "stop",    "window", "cancelled",
                                       "poor",   "refused", "read",   "goes-on"};
  return std::string(kNames[static_cast<size_t>(kind.way)]) + (kind.is_named ? "-named" : "");
}

// Does with its session as an explain request does: the last token runs again.
class Reader final : public TurnListener {
 public:
  Reader(TokenId last, const PassCounts& counts) : last_(last), counts_(counts) {}
  void OnStart(const TurnStart&) override {}
  void OnText(std::string_view) override { ADD_FAILURE() << "a reply"; }
  void OnEnd(const TurnEnd&) override { ADD_FAILURE() << "an end"; }
  void OnError(const Status& status) override { ADD_FAILURE() << status.ToString(); }
  void OnRead(llama::LlamaEngine* engine, Session session) override {
    ATTNDB_EXPECT_OK(session.Crop(session.num_tokens() - 1));
    ATTNDB_EXPECT_OK(engine->Prefill(session, {&last_, 1}));
    num_passes_ = counts_.num_passes;
    read_.Set();
  }
  bool has_read() const { return read_.IsSet(); }
  // How many passes had run, that which read the prompt included. REQUIRES: has_read().
  uint64_t num_passes() const { return num_passes_; }

 private:
  const TokenId last_;
  const PassCounts& counts_;
  uint64_t num_passes_ = 0;
  Event read_;
};

class SchedulerEndsTest : public BatchTest {
 protected:
  // One turn of a pass, and what it must come to.
  struct Member {
    Kind kind;
    TurnRequest request;
    llama::Generation alone;  // What the engine gives without neighbours.
    std::shared_ptr<RecordingListener> listener = std::make_shared<RecordingListener>();
    std::shared_ptr<Reader> reader;
    std::weak_ptr<Turn> turn;  // Gone once it has left the scheduler.
  };

  // The turns that end do so with their token number `num_tokens`.
  void Open(uint32_t num_tokens) {
    BatchTest::Open("llama_bpe");
    poor_.emplace(
        *DB::Open(directory_.File("poor"),
                  {.query_sample = 0, .host_memory_bytes = engine_->spec().KvBytesPerToken() / 2}));
    num_tokens_ = num_tokens;
    for (size_t i = 0; i < std::size(kKinds); ++i) requests_.push_back(RequestOf(kKinds[i], i));
    for (const TurnRequest& request : requests_) alone_.push_back(AloneOf(request));
    StartScheduler({.stall_factor = 1e6});  // A pass reads a prompt beside replies at any price.
  }

  // Adds turns of these kinds (indices of kKinds) so that one pass reads all of their prompts. Pass
  // `read_pass` reads those of turns of kind kRead. REQUIRES: it is 1, or a turn goes on.
  void RunTogether(const std::vector<size_t>& kinds, uint64_t read_pass = 1) {
    std::string trace;
    for (const size_t kind : kinds) trace += NameOf(kKinds[kind]) + " ";
    SCOPED_TRACE(trace);
    const std::string prefix = "run" + std::to_string(num_runs_++) + "-";
    const auto gate = std::make_shared<Event>();
    TurnRequest gate_request = Request(prefix + "gate", 1, 999, Greedy(1));
    gate_request.replies = false;  // Nothing of it is stored, which takes time.
    const auto first = Add(gate_request, [gate] { gate->Await(); });
    ASSERT_TRUE(first->AwaitStart());
    std::vector<Member> members;
    for (const size_t kind : kinds) {
      members.push_back(MemberOf(kind, prefix + std::to_string(members.size())));
    }
    AddTurns(&members, read_pass);
    const uint64_t num_before = scheduler_->counts().num_passes;
    const uint64_t num_tokens_before = scheduler_->counts().num_prompt_tokens;
    gate->Set();
    uint64_t num_passes = 0;  // The gate's own is behind.
    for (const Member& member : members) {
      ASSERT_TRUE(test::Eventually([&member] { return member.turn.expired(); }));
      num_passes = std::max(num_passes, PassesOf(member));
      if (!member.reader) continue;
      ASSERT_TRUE(member.reader->has_read());
      EXPECT_EQ(member.reader->num_passes() - num_before, read_pass);
    }
    EXPECT_EQ(scheduler_->counts().num_passes - num_before, num_passes) << "not one pass for all";
    const auto is_read = [](const Member& member) { return member.kind.way != Way::kPoor; };
    const auto num_read = static_cast<uint64_t>(std::ranges::count_if(members, is_read));
    EXPECT_EQ(scheduler_->counts().num_prompt_tokens - num_tokens_before, num_read * kPromptTokens);
    for (const Member& member : members) Check(member);
  }

  // Groups of three to eight kinds in drawn orders; each has a turn that reads, in the pass in
  // which others end, and one that goes on.
  void RunDrawnOrders() {
    for (uint64_t seed = 0; seed < 24; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      std::mt19937_64 random(seed);
      std::vector<size_t> kinds = {IndexOf({Way::kRead, false}),
                                   IndexOf({Way::kGoesOn, seed % 2 == 0})};
      const size_t size = 3 + seed % 6;
      while (kinds.size() < size) kinds.push_back(random() % std::size(kKinds));
      std::shuffle(kinds.begin(), kinds.end(), random);
      RunTogether(kinds, num_tokens_);
      if (HasFatalFailure()) return;
    }
  }

  static size_t IndexOf(const Kind& kind) {
    const auto found = std::ranges::find_if(kKinds, [&kind](const Kind& other) {
      return other.way == kind.way && other.is_named == kind.is_named;
    });
    return static_cast<size_t>(found - std::begin(kKinds));
  }

 private:
  TurnRequest RequestOf(const Kind& kind, uint64_t seed) {
    TurnRequest request = Request("", kPromptTokens, seed, Greedy(num_tokens_));
    llama::GenerateOptions& generate = request.generate;
    if (kind.is_named) {
      request.store = StoreOptions{.replace = true};
      request.runs_last = true;
    }
    if (kind.way == Way::kStop) StopWithLastToken(&request, seed);
    // Full when the prompt has run: its oldest tokens leave at once.
    if (kind.way == Way::kWindow) {
      generate.prefill.window = {.window_tokens = kPromptTokens, .keep_first = 1};
    }
    if (kind.way == Way::kRefused) generate.sampler.top_p = 2.0f;
    if (kind.way == Way::kRead) request.replies = false;
    if (kind.way == Way::kGoesOn || kind.way == Way::kCancelled) {
      generate.max_tokens += kMoreTokens;
    }
    return request;
  }

  // Has a stop string end the reply with its token number num_tokens_.
  void StopWithLastToken(TurnRequest* request, uint64_t seed) {
    for (; seed < 1000; seed += 100) {
      request->prompt = Request("", kPromptTokens, seed, Greedy(1)).prompt;
      const std::string text = Alone(*request).text;
      TurnRequest stopped = *request;
      stopped.generate.max_tokens += kMoreTokens;
      for (size_t length = 1; length <= text.size(); ++length) {
        stopped.generate.stop = {text.substr(text.size() - length)};
        const llama::Generation cut = Alone(stopped);
        if (cut.finish == llama::FinishReason::kStop && cut.tokens.size() == num_tokens_) {
          *request = stopped;
          return;
        }
      }
    }
    ADD_FAILURE() << "no string ends a reply with token " << num_tokens_;
  }

  llama::Generation AloneOf(const TurnRequest& request) {
    if (!request.replies || request.generate.sampler.top_p > 1) return {};
    return Alone(request);
  }

  Member MemberOf(size_t kind, const std::string& id) const {
    Member member;
    member.kind = kKinds[kind];
    member.request = requests_[kind];
    member.request.id = id;
    member.request.cut_id = id + "-cut";
    member.alone = alone_[kind];
    if (member.kind.way == Way::kRead) {
      member.reader = std::make_shared<Reader>(member.request.prompt.back(), scheduler_->counts());
    }
    return member;
  }

  void AddTurns(std::vector<Member>* members, uint64_t read_pass) {
    std::vector<std::shared_ptr<Turn>> now;
    std::vector<std::shared_ptr<Turn>> later;
    Turn* goes_on = nullptr;
    for (Member& member : *members) {
      const std::shared_ptr<Turn> turn = TurnOf(&member);
      (member.reader && read_pass > 1 ? later : now).push_back(turn);
      if (member.kind.way == Way::kGoesOn) goes_on = turn.get();
    }
    const auto add = [this](const std::vector<std::shared_ptr<Turn>>& turns) {
      for (const std::shared_ptr<Turn>& turn : turns) ATTNDB_EXPECT_OK(scheduler_->Add(turn));
    };
    // In the pass before, which gives one token less.
    if (!later.empty()) {
      WhenCounted(goes_on, kPromptTokens + read_pass - 1, [add, later] { add(later); });
    }
    add(now);
  }

  std::shared_ptr<Turn> TurnOf(Member* member) {
    std::shared_ptr<TurnListener> listener = member->listener;
    if (member->reader) listener = member->reader;
    const Way way = member->kind.way;
    const auto turn =
        std::make_shared<Turn>(member->request, NewSession(way == Way::kPoor ? *poor_ : *db_),
                               member->request.prompt, std::move(listener));
    member->turn = turn;
    if (way == Way::kCancelled) {
      WhenCounted(turn.get(), kPromptTokens + num_tokens_, [turn = turn.get()] { turn->Cancel(); });
    }
    return turn;
  }

  // Calls `then` on the scheduler's thread once the turn has so many tokens.
  static void WhenCounted(Turn* turn, uint64_t num_tokens, std::function<void()> then) {
    turn->CountWith([then = std::move(then), left = num_tokens](uint64_t n) mutable {
      left -= n;
      if (left == 0) then();
    });
  }

  uint64_t PassesOf(const Member& member) const {
    switch (member.kind.way) {
      case Way::kPoor:
        return 0;       // What fails is counted apart.
      case Way::kRead:  // Read later, it still ends before the turn that goes on.
      case Way::kRefused:
        return 1;
      case Way::kCancelled:
        return num_tokens_;
      default:
        return member.alone.tokens.size() + (member.kind.is_named ? 1 : 0);
    }
  }

  void Check(const Member& member) {
    SCOPED_TRACE(NameOf(member.kind) + " as " + member.request.id);
    if (member.reader) return;
    switch (member.kind.way) {
      case Way::kPoor:
        EXPECT_THAT(member.listener->error(), FailsWith(StatusCode::kResourceExhausted, _));
        return ExpectNotStored(member.request.id);
      case Way::kRefused:
        EXPECT_THAT(member.listener->error(), FailsWith(StatusCode::kInvalidArgument, _));
        return ExpectNotStored(member.request.id);
      case Way::kCancelled:
        EXPECT_FALSE(member.listener->end());
        ExpectNotStored(member.request.id);
        EXPECT_EQ(Stored(member.request.cut_id), WithReply(member, num_tokens_ - 1));
        return;
      default:
        break;
    }
    ATTNDB_ASSERT_OK(member.listener->error());
    ASSERT_TRUE(member.listener->end());
    const size_t num_tokens = member.alone.tokens.size();
    EXPECT_EQ(member.listener->end()->finish, member.alone.finish);
    EXPECT_EQ(member.listener->end()->num_tokens, num_tokens);
    EXPECT_EQ(member.listener->text(), member.alone.text);
    const size_t num_stored = member.kind.is_named ? num_tokens : num_tokens - 1;
    EXPECT_EQ(Stored(member.request.id), WithReply(member, num_stored));
  }

  static std::vector<TokenId> WithReply(const Member& member, size_t num_tokens) {
    std::vector<TokenId> tokens = member.request.prompt;
    const auto reply = member.alone.tokens.begin();
    tokens.insert(tokens.end(), reply, reply + static_cast<std::ptrdiff_t>(num_tokens));
    return tokens;
  }

  void ExpectNotStored(const std::string& id) {
    conversations_->WaitForStores();
    EXPECT_THAT(db_->Tokens(id), FailsWith(StatusCode::kNotFound, _));
  }

  std::optional<DB> poor_;  // A store without memory.
  uint32_t num_tokens_ = 0;
  uint64_t num_runs_ = 0;
  std::vector<TurnRequest> requests_;     // By kind.
  std::vector<llama::Generation> alone_;  // By kind.
};

TEST_F(SchedulerEndsTest, EveryPairOfTurnsInBothOrdersGivesWhatEachGivesAlone) {
  Open(1);
  for (size_t first = 0; first < std::size(kKinds); ++first) {
    for (size_t second = 0; second < std::size(kKinds); ++second) {
      RunTogether({first, second});
      if (HasFatalFailure()) return;
    }
  }
}

// The named turn's last token runs, the explained one's runs again, and the last goes on.
TEST_F(SchedulerEndsTest, EveryOrderOfFourTurnsGivesWhatEachGivesAlone) {
  Open(1);
  std::vector<size_t> kinds = {IndexOf({Way::kLength, true}), IndexOf({Way::kStop, false}),
                               IndexOf({Way::kRead, false}), IndexOf({Way::kGoesOn, false})};
  std::ranges::sort(kinds);
  do {
    RunTogether(kinds);
    if (HasFatalFailure()) return;
  } while (std::ranges::next_permutation(kinds).found);
}

TEST_F(SchedulerEndsTest, UpToEightTurnsOfAnyKindEndInTheirFirstPass) {
  Open(1);
  RunDrawnOrders();
}

TEST_F(SchedulerEndsTest, UpToEightTurnsOfAnyKindEndInALaterPass) {
  Open(4);
  RunDrawnOrders();
}

// Named turns leave one pass later than the others: the pass that runs their last token.
TEST_F(SchedulerEndsTest, NamedTurnsEndInThePassThatReadsForAnother) {
  Open(2);
  RunTogether(
      {IndexOf({Way::kLength, true}), IndexOf({Way::kRead, false}), IndexOf({Way::kStop, true}),
       IndexOf({Way::kGoesOn, true}), IndexOf({Way::kWindow, true})},
      /*read_pass=*/3);
}

// A reply whose store has memory for all of its tokens but the last: the turn without a name ends,
// the one with a name fails and leaves what the name stands for as it was.
TEST_F(SchedulerEndsTest, ANamedTurnWhoseLastTokenFailsIsNotStored) {
  BatchTest::Open();
  TurnRequest before = Request("talk", 20, 1, Greedy(3));
  before.store = StoreOptions{.replace = true};
  before.runs_last = true;
  const TurnRequest good = Request("good", 20, 2, Greedy(60));
  const llama::Generation good_alone = Alone(good);
  const DB small = OpenSmall();
  StartScheduler();
  ASSERT_TRUE(Add(before)->AwaitEnd());
  const std::vector<TokenId> stored = Stored("talk");
  const auto add = [&](const TurnRequest& request) {
    auto listener = std::make_shared<RecordingListener>();
    ATTNDB_EXPECT_OK(scheduler_->Add(MakeTurn(request, NewSession(small), listener)));
    return listener;
  };
  const auto endless = add(Request("endless", 2, 4, Greedy(5000)));
  ASSERT_TRUE(endless->AwaitEnd());
  ASSERT_THAT(endless->error(), FailsWith(StatusCode::kResourceExhausted, _));
  const auto num_fit = static_cast<uint32_t>(endless->num_tokens());

  const auto good_listener = Add(good);
  TurnRequest named = Request("talk", 2, 4, Greedy(num_fit));
  named.store = before.store;
  named.runs_last = true;
  named.cut_id = "cut";
  const auto fails = add(named);
  ASSERT_TRUE(fails->AwaitEnd());
  EXPECT_THAT(fails->error(), FailsWith(StatusCode::kResourceExhausted, _));
  EXPECT_EQ(fails->num_tokens(), num_fit) << "the reply was whole";
  EXPECT_FALSE(fails->end());
  ASSERT_TRUE(good_listener->AwaitEnd());
  ATTNDB_EXPECT_OK(good_listener->error());
  EXPECT_EQ(Stored("good"), Held(good, good_alone));
  EXPECT_EQ(Stored("talk"), stored);
}

TEST_F(SchedulerEndsTest, AReplyEndsWithItsWindow) {
  BatchTest::Open();
  StartScheduler();
  for (const uint64_t num_tokens : {20u, 64u, 100u}) {
    TurnRequest request =
        Request("turn" + std::to_string(num_tokens), num_tokens, num_tokens, Greedy(1'000'000));
    request.generate.prefill.window = {.window_tokens = 64};
    request.ends_with_window = true;
    const auto listener = Add(request);
    ASSERT_TRUE(listener->AwaitEnd());
    // Two halves of the window have left a prompt of 100 tokens.
    const uint64_t num_left = num_tokens == 100 ? 100 - 2 * 32 : num_tokens;
    EXPECT_EQ(listener->end()->num_tokens, std::max<uint64_t>(64 - num_left, 1)) << num_tokens;
    EXPECT_EQ(listener->end()->finish, llama::FinishReason::kMaxTokens);
    EXPECT_EQ(listener->end()->num_dropped_tokens, num_tokens == 100 ? 64u : 0u);
  }
}

TEST_F(SchedulerEndsTest, APromptIsKeptWithoutAReply) {
  BatchTest::Open();
  StartScheduler();
  for (const bool runs_last : {false, true}) {
    TurnRequest request = Request(runs_last ? "named" : "turn", 50, 3, Greedy(0));
    request.runs_last = runs_last;
    const auto listener = Add(request);
    ASSERT_TRUE(listener->AwaitEnd());
    ATTNDB_ASSERT_OK(listener->error());
    EXPECT_EQ(listener->end()->num_tokens, 0u);
    EXPECT_EQ(listener->end()->finish, llama::FinishReason::kMaxTokens);
    EXPECT_EQ(listener->end()->first_token_seconds, 0);
    EXPECT_EQ(listener->num_tokens(), 0u);
    EXPECT_EQ(listener->text(), "");
    EXPECT_EQ(Stored(request.id), request.prompt);
  }
}

TEST_F(SchedulerEndsTest, ANamedTurnIsStoredAsItFitsWhenItEnds) {
  BatchTest::Open();
  TurnRequest request = Request("talk", 20, 1, Greedy(3));
  request.store = StoreOptions{.replace = true};
  request.runs_last = true;
  int num_calls = 0;
  request.fit_store = [&num_calls](StoreOptions* store) {
    ++num_calls;
    store->pin = true;
    return Status::Ok();
  };
  StartScheduler();
  const auto listener = Add(request);
  ASSERT_TRUE(listener->AwaitEnd());
  ATTNDB_EXPECT_OK(listener->error());
  EXPECT_EQ(Stored("talk").size(), 23u);
  EXPECT_TRUE(db_->Describe("talk")->pinned);
  EXPECT_EQ(num_calls, 1);
}

TEST_F(SchedulerEndsTest, ANamedTurnThatNoLongerFitsFailsAndIsKept) {
  BatchTest::Open();
  TurnRequest request = Request("talk", 20, 1, Greedy(3));
  request.cut_id = "cut";
  request.store = StoreOptions{.replace = true};
  request.runs_last = true;
  request.fit_store = [](StoreOptions*) { return Status::FailedPrecondition("a document"); };
  StartScheduler();
  const auto listener = Add(request);
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_THAT(listener->error(), FailsWith(StatusCode::kFailedPrecondition, _));
  EXPECT_FALSE(listener->end());
  EXPECT_EQ(Stored("cut").size(), 23u);
  EXPECT_THAT(db_->Describe("talk"), FailsWith(StatusCode::kNotFound, _));
  // A text that is imported has no other id.
  request.cut_id = "";
  const auto import = Add(request);
  ASSERT_TRUE(import->AwaitEnd());
  EXPECT_THAT(import->error(), FailsWith(StatusCode::kFailedPrecondition, _));
  conversations_->WaitForStores();
  EXPECT_EQ(db_->List()->size(), 1u);
}

// Its client has the whole reply, and may go before it hears of the end.
TEST_F(SchedulerEndsTest, ANamedTurnWhoseReplyIsWholeIsStoredThoughItsClientLeaves) {
  BatchTest::Open();
  TurnRequest request = Request("talk", 20, 1, Greedy(3));
  const llama::Generation alone = Alone(request);
  request.store = StoreOptions{.replace = true};
  request.runs_last = true;
  StartScheduler();
  const auto listener = std::make_shared<RecordingListener>();
  const auto turn = MakeTurn(request, NewSession(*db_), listener);
  turn->CountWith([turn = turn.get(), left = uint64_t{20 + 3}](uint64_t n) mutable {
    left -= n;
    if (left == 0) turn->Cancel();
  });
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  ASSERT_TRUE(listener->AwaitEnd());
  std::vector<TokenId> whole = request.prompt;
  whole.insert(whole.end(), alone.tokens.begin(), alone.tokens.end());
  EXPECT_EQ(Stored("talk"), whole);
}

}  // namespace
}  // namespace attndb::server
