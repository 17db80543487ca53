// What tests of turns share: a listener that writes down what it is told, and turns on tiny models.
//
// Threads: a RecordingListener is thread-safe; a BatchTest belongs to the test's thread, and its
//          engine to the scheduler's once that has started.
#ifndef ATTNDB_SERVER_BATCH_BATCH_TEST_UTIL_H_
#define ATTNDB_SERVER_BATCH_BATCH_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/conversations.h"
#include "server/batch/scheduler.h"
#include "server/batch/turn.h"
#include "testing/event.h"
#include "testing/temp_dir.h"

namespace attndb::server {

inline constexpr char kMine[] = "mine";  // Tenants.
inline constexpr char kTheirs[] = "theirs";

inline std::vector<TokenId> Joined(std::vector<TokenId> front, const std::vector<TokenId>& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

class RecordingListener final : public TurnListener {
 public:
  // `on_start` is called by OnStart, on the scheduler's thread, and may hold it up.
  explicit RecordingListener(std::function<void()> on_start = nullptr)
      : on_start_(std::move(on_start)) {}

  void OnStart(const TurnStart& start) override;
  void OnChances(std::vector<llama::ReplyToken> tokens) override;
  void OnText(std::string_view text) override;
  void OnToken(double seconds) override;
  void OnEnd(const TurnEnd& end) override;
  void OnError(const Status& status) override;

  // Waits for what is named; false, and the test fails, if it does not come.
  bool AwaitStart();
  bool AwaitEnd();  // An end or an error.

  std::optional<TurnStart> start() const;
  std::optional<TurnEnd> end() const;
  Status error() const;
  std::string text() const;
  std::vector<llama::ReplyToken> chances() const;
  uint64_t num_tokens() const;
  int num_calls() const;

 private:
  bool Await(const std::function<bool()>& is_true);
  // Notes a call; the test fails if the turn has ended.
  void Note();

  const std::function<void()> on_start_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<TurnStart> start_;
  std::optional<TurnEnd> end_;
  std::optional<Status> error_;
  std::string text_;
  std::vector<llama::ReplyToken> chances_;
  uint64_t num_tokens_ = 0;
  int num_calls_ = 0;
};

// So many tokens, each the likeliest, whatever they are.
llama::GenerateOptions Greedy(uint32_t max_tokens);

class BatchTest : public ::testing::Test {
 protected:
  // An engine on a tiny model, and an empty store.
  void Open(const std::string& kind, llama::EngineOptions options,
            const ConversationOptions& conversations = {});
  void Open(const std::string& kind = "llama");
  // Another store, with memory for some 30 tokens.
  DB OpenSmall() const;
  // Once what each turn gives alone is known.
  void StartScheduler(const SchedulerOptions& options = {});
  void TearDown() override;

  // A request of random tokens; the same for the same seed.
  TurnRequest Request(const std::string& id, size_t num_tokens, uint64_t seed,
                      const llama::GenerateOptions& generate) const;
  // A session that has run nothing.
  Session NewSession(const DB& db) const;
  // One of the tenant's that has run `tokens`.
  Session SessionOf(const std::string& tenant, const std::vector<TokenId>& tokens);
  // What the engine makes of the request when nobody else asks.
  llama::Generation Alone(const TurnRequest& request);

  // Adds a turn; with Start's session, or with one of the test's own.
  std::shared_ptr<RecordingListener> Add(const TurnRequest& request,
                                         std::function<void()> on_start = nullptr);
  // Adds a turn of one token that holds the scheduler up until `gate_` is set, and waits for it.
  void Block();
  // Adds turns while the scheduler is held up, and lets it go on: it finds them all at once.
  std::vector<std::shared_ptr<RecordingListener>> AddAtOnce(
      const std::vector<TurnRequest>& requests);
  // Starts the scheduler, and expects that each of the requests, all at once, is answered and
  // stored as the engine answers it alone. Returns what listened to them.
  std::vector<std::shared_ptr<RecordingListener>> ExpectEachAsAlone(
      const std::vector<TurnRequest>& requests);
  std::shared_ptr<Turn> MakeTurn(const TurnRequest& request, Session session,
                                 std::shared_ptr<RecordingListener> listener) const;
  // The tokens that a turn was stored as.
  std::vector<TokenId> Stored(const std::string& id);

  // Stores of the tenant that begin from here on end behind ResumeStores: its quota is full, and
  // they wait for a merge that may make room, and that stands still.
  void StopStores(const std::string& tenant);
  void ResumeStores();

  ::attndb::test::TempDir directory_;
  std::optional<llama::LlamaEngine> engine_;
  std::optional<DB> db_;
  std::optional<Conversations> conversations_;
  std::optional<Scheduler> scheduler_;
  ::attndb::test::Event gate_;  // Block waits for it; TearDown sets it.

 private:
  struct Stop {
    explicit Stop(DB opened) : db(std::move(opened)) {}
    const DB db;
    ::attndb::test::Event begun;
    ::attndb::test::Event go_on;
    std::thread merge;
  };
  std::unique_ptr<Stop> stop_;
};

// `request`'s prompt and what `generation` says, as far as a session has run it.
std::vector<TokenId> Held(const TurnRequest& request, const llama::Generation& generation);

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_BATCH_TEST_UTIL_H_
