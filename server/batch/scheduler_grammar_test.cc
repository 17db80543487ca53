// Goal:   replies under grammars are those of the engine alone; a grammar that is slow, dies or
//         can't be compiled delays or ends its own turn and no other.
// Method: a tiny random model with a tokenizer. A grammar is slow because the process that would
//         start it is stopped, and goes on when the test lets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/batch/batch_test_util.h"
#include "server/batch/scheduler.h"
#include "testing/child_processes.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::ChildrenOf;
using ::attndb::test::Event;
using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr char kLetters[] = "root ::= [a-z]{24}";
constexpr char kDigits[] = R"(root ::= "[" [0-9]{1,3} ("," [0-9]{1,3}){5} "]")";
// Its stacks double with each "x".
constexpr char kExplodes[] = R"(root ::= "x" root "y" | "x" root "z" | "")";

class SchedulerGrammarTest : public BatchTest {
 protected:
  void SetUp() override {
    Open("llama_bpe");
    // Starts the process that starts the others.
    ATTNDB_ASSERT_OK(engine_->CheckGrammar({.grammar = kLetters, .triggers = {}, .before = ""}));
    const std::vector<pid_t> children = ChildrenOf(getpid());
    ASSERT_EQ(children.size(), 1U);
    starter_ = children[0];
  }
  void TearDown() override {
    Continue();
    BatchTest::TearDown();
  }

  // While it is stopped, no grammar answers that begins from here on.
  void Stop() const { ASSERT_EQ(kill(starter_, SIGSTOP), 0); }
  void Continue() const { kill(starter_, SIGCONT); }

  TurnRequest Under(const std::string& grammar, const std::string& id, uint64_t seed) const {
    llama::GenerateOptions generate = {.max_tokens = 100};
    generate.constraint = llama::ReplyConstraint{.grammar = grammar, .triggers = {}, .before = ""};
    return Request(id, 9, seed, generate);
  }

  // Calls `hook` on the scheduler's thread when the reply has so many tokens.
  static void OnToken(uint64_t num_tokens, Turn* turn, std::function<void()> hook) {
    turn->CountWith([left = turn->request().prompt.size() + num_tokens,
                     hook = std::move(hook)](uint64_t num_more) mutable {
      left -= std::min(left, num_more);
      if (left == 0 && hook) std::exchange(hook, nullptr)();
    });
  }

  pid_t starter_ = -1;
};

TEST_F(SchedulerGrammarTest, RepliesAreThoseOfTheEngineAlone) {
  std::vector<TurnRequest> requests = {Under(kLetters, "a", 1), Request("b", 7, 2, Greedy(20)),
                                       Under(kDigits, "c", 3), Under(kDigits, "d", 4),
                                       Request("e", 5, 5, Greedy(30))};
  requests[3].generate.sampler = {.temperature = 1, .seed = 9, .logit_bias = {}};
  const auto listeners = ExpectEachAsAlone(requests);
  EXPECT_EQ(listeners[0]->text().size(), 24U);
  EXPECT_TRUE(listeners[2]->text().ends_with("]")) << listeners[2]->text();
}

TEST_F(SchedulerGrammarTest, ASlowGrammarLeavesThePassesOfOthersAsTheyAre) {
  const TurnRequest slow = Under(kLetters, "slow", 1);
  const std::vector<TurnRequest> others = {Request("b", 7, 2, Greedy(20)),
                                           Request("c", 5, 3, Greedy(30))};
  const llama::Generation slow_alone = Alone(slow);
  std::vector<llama::Generation> alone;
  for (const TurnRequest& request : others) alone.push_back(Alone(request));
  StartScheduler();
  Stop();
  const auto waiting = Add(slow);
  ASSERT_TRUE(waiting->AwaitStart());
  const uint64_t num_passes = scheduler_->counts().num_passes;
  const auto listeners = AddAtOnce(others);
  for (size_t i = 0; i < others.size(); ++i) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    EXPECT_EQ(listeners[i]->text(), alone[i].text);
  }
  // The longest of the others, its prompt, and the turn that held the scheduler up.
  EXPECT_LE(scheduler_->counts().num_passes - num_passes, 32U);
  EXPECT_EQ(waiting->num_tokens(), 0U);
  EXPECT_FALSE(waiting->end());
  Continue();
  ASSERT_TRUE(waiting->AwaitEnd());
  EXPECT_EQ(waiting->text(), slow_alone.text);
}

TEST_F(SchedulerGrammarTest, ATurnThatIsCancelledWhileItsGrammarIsSlowLeavesAtOnce) {
  StartScheduler();
  Stop();
  Event gone;
  const TurnRequest request = Under(kLetters, "slow", 1);
  const auto listener = std::make_shared<RecordingListener>();
  auto turn = MakeTurn(request, NewSession(*db_), listener);
  turn->Hold(std::shared_ptr<void>(nullptr, [&gone](void*) { gone.Set(); }));
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  ASSERT_TRUE(listener->AwaitStart());
  turn->Cancel();
  turn.reset();
  scheduler_->Wake();
  gone.Await();
  EXPECT_EQ(Stored("slow"), request.prompt) << "what was run is kept";
}

TEST_F(SchedulerGrammarTest, TheSchedulerStopsWhileAGrammarIsSlow) {
  StartScheduler();
  Stop();
  const auto listener = Add(Under(kLetters, "slow", 1));
  ASSERT_TRUE(listener->AwaitStart());
  scheduler_->Stop();
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_EQ(listener->error().code(), StatusCode::kCancelled);
}

TEST_F(SchedulerGrammarTest, AProcessThatDiesEndsOneTurnAlone) {
  const TurnRequest other = Under(kDigits, "b", 2);
  const llama::Generation alone = Alone(other);
  StartScheduler();
  const auto listener = std::make_shared<RecordingListener>();
  const auto dying = std::make_shared<RecordingListener>();
  std::vector<pid_t> before;
  const auto dying_turn = MakeTurn(Under(kLetters, "a", 1), NewSession(*db_), dying);
  OnToken(1, dying_turn.get(), [&] {
    std::vector<pid_t> workers = ChildrenOf(starter_);
    std::erase_if(workers, [&](pid_t worker) { return std::ranges::count(before, worker) > 0; });
    ASSERT_EQ(workers.size(), 1U);
    const test::WatchedProcess worker(workers[0]);
    worker.Kill();
    worker.AwaitEnd();
  });
  // The other reply's process has answered once it has a token.
  const auto turn = MakeTurn(other, NewSession(*db_), listener);
  OnToken(1, turn.get(), [&] {
    before = ChildrenOf(starter_);
    ATTNDB_EXPECT_OK(scheduler_->Add(dying_turn));
  });
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  ASSERT_TRUE(dying->AwaitEnd());
  EXPECT_THAT(dying->error(), FailsWith(StatusCode::kResourceExhausted, HasSubstr("SIGKILL")));
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_EQ(listener->text(), alone.text);
}

TEST_F(SchedulerGrammarTest, AGrammarThatExplodesEndsItsTurnAlone) {
  TurnRequest request = Under(kExplodes, "a", 1);
  const std::vector<TokenId> x = *engine_->Tokenize("x", false, false);
  request.generate.sampler.logit_bias.push_back({x.at(0), 100.0f});
  const TurnRequest other = Request("b", 5, 3, Greedy(40));
  const llama::Generation alone = Alone(other);
  StartScheduler();
  const auto listeners = AddAtOnce({request, other});
  ASSERT_TRUE(listeners[1]->AwaitEnd());
  EXPECT_EQ(listeners[1]->text(), alone.text);
  ASSERT_TRUE(listeners[0]->AwaitEnd());
  EXPECT_THAT(listeners[0]->error(),
              FailsWith(StatusCode::kResourceExhausted, HasSubstr("was not applied")));
}

TEST_F(SchedulerGrammarTest, AGrammarThatCantBeCompiledEndsItsTurnAlone) {
  const TurnRequest other = Request("b", 5, 3, Greedy(10));
  const llama::Generation alone = Alone(other);
  StartScheduler();
  const auto listeners = AddAtOnce({Under("root ::= )", "a", 1), other, Under("", "c", 2),
                                    Under(R"(root ::= [^\x00-\UFFFFFFFF])", "d", 3)});
  for (const size_t i : {size_t{0}, size_t{2}, size_t{3}}) {
    ASSERT_TRUE(listeners[i]->AwaitEnd());
    EXPECT_EQ(listeners[i]->error().code(), StatusCode::kInvalidArgument) << i;
  }
  ASSERT_TRUE(listeners[1]->AwaitEnd());
  EXPECT_EQ(listeners[1]->text(), alone.text);
}

}  // namespace
}  // namespace attndb::server
