// Goal:   replies whose thinking is too long are those of the engine alone, and are stored with the
//         tokens that ended the thinking.
// Method: a tiny random model with a tokenizer, which never ends a thinking by itself: prompts
//         begin one. A grammar is slow because the process that would start it is stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/batch/batch_test_util.h"
#include "server/batch/running_turns.h"
#include "server/batch/scheduler.h"
#include "testing/child_processes.h"
#include "testing/event.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

using ::attndb::test::Event;
using ::testing::HasSubstr;

constexpr uint32_t kBudget = 4;
constexpr char kMessage[] = " so";
constexpr char kEnd[] = "</think>";

class SchedulerThinkingTest : public BatchTest {
 protected:
  void SetUp() override { Open("llama_bpe"); }

  TurnRequest Thinking(const std::string& id, uint64_t seed,
                       std::optional<llama::ReplyConstraint> constraint = std::nullopt) const {
    llama::GenerateOptions generate = Greedy(40);
    generate.thinking = {.start = "<think>",
                         .ends = {kEnd},
                         .before = "<think>",
                         .max_tokens = kBudget,
                         .message = kMessage};
    generate.constraint = std::move(constraint);
    return Request(id, 9, seed, generate);
  }
  std::vector<TokenId> EndTokens() const {
    std::vector<TokenId> tokens = *engine_->Tokenize(kMessage, false, false);
    return Joined(std::move(tokens), *engine_->Tokenize(kEnd, false, true));
  }
};

TEST_F(SchedulerThinkingTest, RepliesAreThoseOfTheEngineAlone) {
  const llama::ReplyConstraint lazy = {.grammar = R"(root ::= "[" [0-9]{3} "]")",
                                       .is_lazy = true,
                                       .triggers = {{.text = "["}},
                                       .before = ""};
  const llama::ReplyConstraint whole = {
      .grammar = R"(root ::= [a-z ]+ "</think>" [0-9]{4})", .triggers = {}, .before = ""};
  std::vector<TurnRequest> requests = {Thinking("a", 1), Request("b", 7, 2, Greedy(20)),
                                       Thinking("c", 3, lazy), Thinking("d", 4, whole),
                                       Thinking("e", 5)};
  requests[4].generate.sampler = {.temperature = 1, .seed = 9, .logit_bias = {}};
  const auto listeners = ExpectEachAsAlone(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i == 1) continue;
    SCOPED_TRACE(i);
    const std::vector<TokenId> stored = Stored(requests[i].id);
    EXPECT_THAT(listeners[i]->text(), HasSubstr(std::string(kMessage) + kEnd));
    const std::vector<TokenId> end = EndTokens();
    const auto forced =
        stored.begin() + static_cast<ptrdiff_t>(requests[i].prompt.size() + kBudget);
    EXPECT_TRUE(std::equal(end.begin(), end.end(), forced));
  }
}

TEST_F(SchedulerThinkingTest, ItsTokensAreCounted) {
  StartScheduler();
  TurnRequest request = Thinking("a", 1);
  request.tells_tokens = true;
  const auto listener = Add(request);
  ASSERT_TRUE(listener->AwaitEnd());
  const size_t num_message = engine_->Tokenize(kMessage, false, false)->size();
  EXPECT_EQ(listener->end()->num_thinking_tokens, kBudget + num_message);
  EXPECT_EQ(listener->end()->tokens.size(), listener->end()->num_tokens);
  const auto plain = Add(Request("b", 9, 2, Greedy(3)));
  ASSERT_TRUE(plain->AwaitEnd());
  EXPECT_EQ(plain->end()->num_thinking_tokens, std::nullopt);
  EXPECT_TRUE(plain->end()->tokens.empty());
}

TEST_F(SchedulerThinkingTest, AClientMayEndTheThinkingOfAllChoices) {
  StartScheduler();
  TurnRequest request = Thinking("a", 1);
  request.generate.thinking.max_tokens.reset();
  request.generate.max_tokens = 60;
  const auto shared = std::make_shared<const TurnRequest>(request);
  std::vector<std::shared_ptr<RecordingListener>> listeners;
  std::vector<std::shared_ptr<Turn>> turns;
  for (const char* id : {"a", "b"}) {
    listeners.push_back(std::make_shared<RecordingListener>());
    turns.push_back(std::make_shared<Turn>(
        shared, TurnOwn{.id = id, .cut_id = id, .seed = 0, .note = nullptr}, NewSession(*db_),
        turns.empty() ? request.prompt : std::vector<TokenId>(), listeners.back()));
  }
  const auto first = turns[0];
  first->AddChoices({turns[1]});
  RunningTurns running;
  running.Add(first, /*is_controlled=*/true);
  EXPECT_EQ(running.EndThinking("other", "a"), RunningTurns::Found::kNone);
  EXPECT_EQ(running.EndThinking(request.tenant, "b"), RunningTurns::Found::kNone)
      << "the first names it";
  // Once both think.
  const auto count = std::make_shared<std::atomic<int>>(0);
  first->CountWith([&running, &request, count](uint64_t) {
    if (++*count == 1 + 2 * 5) {
      EXPECT_EQ(running.EndThinking(request.tenant, "a"), RunningTurns::Found::kDone);
    }
  });
  ATTNDB_ASSERT_OK(scheduler_->Add(first));
  for (const auto& listener : listeners) {
    ASSERT_TRUE(listener->AwaitEnd());
    EXPECT_THAT(listener->text(), HasSubstr(std::string(kMessage) + kEnd));
    const uint64_t num_message = engine_->Tokenize(kMessage, false, false)->size();
    EXPECT_EQ(listener->end()->num_thinking_tokens, 5 + num_message);
  }
}

TEST_F(SchedulerThinkingTest, ATurnIsControlledAsLongAsItIsThere) {
  RunningTurns running;
  const TurnRequest request = Thinking("a", 1);
  auto turn = MakeTurn(request, NewSession(*db_), std::make_shared<RecordingListener>());
  running.Add(turn, /*is_controlled=*/false);
  EXPECT_EQ(running.EndThinking(request.tenant, "a"), RunningTurns::Found::kFixed);
  turn.reset();
  EXPECT_EQ(running.EndThinking(request.tenant, "a"), RunningTurns::Found::kNone);
}

TEST_F(SchedulerThinkingTest, AThinkingDoesNotWaitForALazyGrammar) {
  const llama::ReplyConstraint lazy = {.grammar = R"(root ::= "[" [0-9]{3} "]")",
                                       .is_lazy = true,
                                       .triggers = {{.text = "["}},
                                       .before = ""};
  // Starts the process that starts the others.
  ATTNDB_ASSERT_OK(engine_->CheckGrammar(lazy));
  const std::vector<pid_t> children = test::ChildrenOf(getpid());
  ASSERT_FALSE(children.empty());
  const pid_t starter = children[0];
  const TurnRequest request = Thinking("a", 1, lazy);
  const llama::Generation alone = Alone(request);
  StartScheduler();
  ASSERT_EQ(kill(starter, SIGSTOP), 0);
  const auto listener = std::make_shared<RecordingListener>();
  auto turn = MakeTurn(request, NewSession(*db_), listener);
  Event thought;
  turn->CountWith([&thought, left = request.prompt.size() + kBudget +
                                    EndTokens().size()](uint64_t num_more) mutable {
    left -= std::min<uint64_t>(left, num_more);
    if (left == 0) thought.Set();
  });
  ATTNDB_ASSERT_OK(scheduler_->Add(turn));
  thought.Await();
  EXPECT_FALSE(listener->end());
  ASSERT_EQ(kill(starter, SIGCONT), 0);
  ASSERT_TRUE(listener->AwaitEnd());
  EXPECT_EQ(listener->text(), alone.text);
}

}  // namespace
}  // namespace attndb::server
