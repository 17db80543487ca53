// Goal:   /metrics tells operators, and nobody else, what was counted where it happened.
// Method: prompts over a context on disk, at prices that the test gives; a responder that keeps
//         what it is sent.
#include "server/routes/info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/llama/engine_test_util.h"
#include "server/batch/batch_test_util.h"
#include "server/routes/routes_test_util.h"
#include "testing/matchers.h"

namespace attndb::server {
namespace {

class InfoTest : public BatchTest {
 protected:
  static constexpr size_t kStored = 90;

  // A context is on disk alone, and nothing that was read is in memory.
  void SetUp() override {
    Open();
    prompt_ = llama::RandomIds(kStored + 10, 1, engine_->info().vocab_size);
    const std::vector<TokenId> turn(prompt_.begin(), prompt_.begin() + kStored);
    conversations_->Keep(tenant_, "turn", SessionOf(tenant_, turn), turn);
    conversations_->WaitForStores();
    conversations_.reset();
    db_.reset();
    ATTNDB_ASSERT_OK_AND_ASSIGN(db_, DB::Open(directory_.File("store"), {}));
    conversations_.emplace(*db_, &*engine_, ConversationOptions{});
    StartScheduler();
    service_.engine = &*engine_;
    service_.conversations = &*conversations_;
    service_.scheduler = &*scheduler_;
    service_.metrics = &metrics_;
    service_.gate = &gate_;
    service_.log = &log_;
    service_.admission = &admission_;
    service_.run_later = [](const Call&, const std::function<void()>& work) { work(); };
    service_.loads = &loads_;
    service_.run_loading = [this](const Call&, std::function<void()> work,
                                  std::function<bool()> is_gone) {
      loads_.Add(std::move(work), std::move(is_gone));
    };
  }

  // A turn whose first tokens are on disk, which reading_ reads.
  Status ScheduleUnread(const std::shared_ptr<KeepingResponder>& responder,
                        const std::shared_ptr<RecordingListener>& listener) {
    TurnRequest request = Request("next", 1, 1, Greedy(2));
    request.prompt = prompt_;
    ATTNDB_ASSIGN_OR_RETURN(Continuation start, conversations_->Start(tenant_, prompt_, "full"));
    const auto turn =
        std::make_shared<Turn>(request, std::move(start.session), std::move(start.rest), listener);
    return ScheduleTurn(&service_, CallWith(responder, ""), turn, true);
  }

  Response AskMetrics(bool is_operator) {
    const auto responder = std::make_shared<KeepingResponder>();
    Call call = CallWith(responder, "", "GET");
    call.rules.is_operator = is_operator;
    AnswerMetrics(&service_, std::move(call));
    return responder->sent;
  }
  // `gone`: whether the client is.
  Response AskTokens(const Json& body, bool gone = false) {
    const auto responder = std::make_shared<KeepingResponder>();
    responder->gone = gone;
    AnswerTokenize(&service_, CallWith(responder, ToText(body)));
    return responder->sent;
  }
  // The value of a counter; -1: there is none of that name.
  double CounterOf(const std::string& name) { return NumberBehind("\n" + name + "_total "); }
  // The value of a gauge; -1: there is none of that name.
  double GaugeOf(const std::string& name) { return NumberBehind("\n" + name + " "); }
  // Where the prompt's first tokens come from.
  ReuseWay Start() {
    const Result<Continuation> start = conversations_->Start(tenant_, prompt_, "full");
    EXPECT_THAT(start, ::attndb::test::IsOk());
    return start.ok() ? start->reuse.way : ReuseWay::kNone;
  }

  const std::string tenant_ = TenantRules().tenant;
  std::vector<TokenId> prompt_;
  Metrics metrics_;  // What waits in loads_ counts in it until it ends.
  MemoryGate gate_{0, 0, [](const std::function<void()>& run) { run(); }};
  std::function<void()> reading_;  // What a thread that reads would run.
  LoadQueue loads_{[this](std::function<void()> run) { reading_ = std::move(run); },
                   [](const std::function<void()>& let_go) { let_go(); }};
  Service service_;

 private:
  double NumberBehind(const std::string& line) {
    const std::string body = AskMetrics(true).body;
    const size_t found = body.find(line);
    return found == std::string::npos ? -1 : std::stod(body.substr(found + line.size()));
  }

  Admission admission_;
  RequestLog log_{LogFormat::kOff, stderr};
};

TEST_F(InfoTest, TokensThatAreRunAlthoughTheyAreStoredAreCounted) {
  EXPECT_EQ(CounterOf("attndb_declined_tokens"), 0);
  conversations_->prices().LearnRead(uint64_t{1} << 20, 1e6);
  conversations_->prices().LearnRun(1e-3);
  for (int num_declined = 1; num_declined <= 2; ++num_declined) {
    ASSERT_EQ(Start(), ReuseWay::kRun);
    EXPECT_EQ(CounterOf("attndb_declined_tokens"), num_declined * double{kStored});
  }
  conversations_->prices().LearnRun(1e9);
  ASSERT_EQ(Start(), ReuseWay::kDisk);
  EXPECT_EQ(CounterOf("attndb_declined_tokens"), 2 * double{kStored}) << "what is read is not";
}

TEST_F(InfoTest, RequestsWhoseConversationsAreBeingReadAreCounted) {
  const auto listener = std::make_shared<RecordingListener>();
  ATTNDB_ASSERT_OK(ScheduleUnread(std::make_shared<KeepingResponder>(), listener));
  EXPECT_EQ(GaugeOf("attndb_loading_turns"), 1);
  ASSERT_NE(reading_, nullptr);
  reading_();
  EXPECT_EQ(GaugeOf("attndb_loading_turns"), 0);
  EXPECT_TRUE(listener->AwaitEnd());
}

TEST_F(InfoTest, ARequestWhoseClientGoesWaitsForNoReadAnyMore) {
  const auto responder = std::make_shared<KeepingResponder>();
  ATTNDB_ASSERT_OK(ScheduleUnread(responder, std::make_shared<RecordingListener>()));
  EXPECT_EQ(loads_.num_waiting(), 1u);
  EXPECT_GT(gate_.num_held_bytes(), 0u);
  ASSERT_NE(responder->when_closed, nullptr);
  responder->when_closed();
  EXPECT_EQ(loads_.num_waiting(), 0u);
  EXPECT_EQ(GaugeOf("attndb_loading_turns"), 0) << "all that it held is gone";
  EXPECT_EQ(gate_.num_held_bytes(), 0u);
  EXPECT_EQ(CounterOf("attndb_cancelled_requests"), 1);
  reading_();
  EXPECT_EQ(scheduler_->num_waiting() + scheduler_->num_active(), 0u);
}

TEST_F(InfoTest, ALongTextIsTokenizedAsLongAsTheClientStays) {
  using ::testing::HasSubstr;
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const llama::LlamaEngine engine,
      llama::LlamaEngine::Open(llama::TinyModel("llama_spm"), engine_->options()));
  service_.engine = &engine;
  service_.options.window_tokens = 300;
  const std::string short_text(400, 'b');  // Clients count what is too long for the window.
  const Response counted = AskTokens({{"content", short_text}});
  ASSERT_EQ(counted.status, 200) << counted.body;
  EXPECT_GT(ParseJson(counted.body)->at("tokens").size(), 300u);

  std::string text;
  while (text.size() <= llama::TokenizeLimits().piece_bytes) text += "ba be bo bu\n";
  const Response parsed = AskTokens({{"content", text}, {"parse_special", true}});
  EXPECT_EQ(parsed.status, 400);
  EXPECT_THAT(parsed.body, HasSubstr("expected at most 1.0 MiB with 'parse_special'"));

  EXPECT_EQ(AskTokens({{"content", text}}, /*gone=*/true).status, 503);
}

TEST_F(InfoTest, PiecesOfATextAreMadeAsLongAsTheClientStays) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const llama::LlamaEngine engine,
      llama::LlamaEngine::Open(llama::TinyModel("llama_spm"), engine_->options()));
  service_.engine = &engine;
  std::string text;
  while (text.size() < 30'000) text += "ba be bo bu\n";
  Json request = {{"content", text}};
  const Json ids = ParseJson(AskTokens(request).body)->at("tokens");
  ASSERT_GT(ids.size(), 5000u);
  request["with_pieces"] = true;
  const Json pieces = ParseJson(AskTokens(request).body)->at("tokens");
  ASSERT_EQ(pieces.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) ASSERT_EQ(pieces[i]["id"], ids[i]);
  EXPECT_EQ(AskTokens(request, /*gone=*/true).status, 503);
}

TEST_F(InfoTest, MetricsAreForOperators) {
  EXPECT_EQ(AskMetrics(true).status, 200);
  EXPECT_EQ(AskMetrics(false).status, 403);
  EXPECT_EQ(AskMetrics(false).body.find("attndb_passes"), std::string::npos);
}

TEST_F(InfoTest, AServerIsReadyOnlyWhereItsStoreLies) {
  const auto ask = [this] {
    const auto responder = std::make_shared<KeepingResponder>();
    AnswerReady(&service_, CallWith(responder, ""));
    return responder->sent;
  };
  EXPECT_EQ(ask().status, 503) << "prompts are being read";
  service_.ready = true;
  EXPECT_EQ(ask().status, 200);
  const std::string segments = directory_.File("store/segments");
  std::filesystem::rename(segments, directory_.File("elsewhere"));
  const Response gone = ask();
  EXPECT_EQ(gone.status, 503);
  EXPECT_EQ(gone.body.find(directory_.File("store")), std::string::npos) << gone.body;
  std::filesystem::create_directory(segments);
  EXPECT_EQ(ask().status, 503) << "another folder is not the store's";
  std::filesystem::remove(segments);
  std::filesystem::rename(directory_.File("elsewhere"), segments);
  EXPECT_EQ(ask().status, 200);
}

}  // namespace
}  // namespace attndb::server
