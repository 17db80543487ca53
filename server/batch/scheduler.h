// Continuous batching: one pass of the model for all turns that are under way.
//
// Method:  each pass runs one token of every turn that replies. Some passes also run tokens of
//          prompts. Their number keeps the mean time of a pass below stall_factor times what it was
//          before the prompt came (pass_times.h). Prompts that fit go first; the others take turns.
//          Where no turn replies, prompts share the pass evenly. As in Sarathi-Serve (Agrawal et
//          al. 2024, arXiv:2403.02310), but by the mean.
//          A turn in which a library throws, as where memory is full, ends alone.
//          What fails in a pass is run again alone, once, and ends its turn if it fails again: the
//          others do not notice. Where memory is short, sessions that nobody uses are let go of
//          first; a turn that still lacks some is left out of passes until something that is being
//          stored is durable, and ends where there is no such thing.
//          Prompts of a tenant that begin alike are run once: a turn that spares much by it waits
//          until an earlier turn has read their common beginning, and goes on from a fork of that
//          session. The earlier turn reads this beginning as if it had no more to read.
//          A reply under a grammar asks another process about each token (llama/reply.h). These
//          replies ask first, then the others sample, and then the scheduler waits a little for
//          the answers. A turn whose answer comes later is left out of passes until then, so that
//          a slow grammar delays its own reply alone.
//          The engine's next call overwrites the logits of a pass. So every turn of the pass takes
//          its token first; sessions are kept and handed over after that.
//          A turn with `fit_store` ends after all pending Stores of its name, because only then
//          does the catalog show the context that has the name.
//          The choices of a turn (turn.h) begin in the pass that reads the end of its prompt, and
//          sample their first tokens from its logits. The turn is taken once passes have places for
//          all of its choices.
//          A turn whose client leaves, or that the stop cuts, is kept as far as it was run, so
//          that whoever asks again does not wait for that again.
// Promise: prompts attend to all of their sessions, replies by the plan of their own: what is made
//          of a request does not depend on how its neighbours cut its prompt into passes, but for
//          the rounding of the engine's matrix products: attention has the same bits.
// Limits:  EngineOptions::max_sessions in passes, max_waiting before them; more are refused.
// Threads: Add, Wake and the counts are thread-safe. The engine belongs to the scheduler's thread.
#ifndef ATTNDB_SERVER_BATCH_SCHEDULER_H_
#define ATTNDB_SERVER_BATCH_SCHEDULER_H_

#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "attndb/result.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/conversations.h"
#include "server/batch/pacer.h"
#include "server/batch/pass_times.h"
#include "server/batch/turn.h"

namespace attndb::llama {
struct ReplyStep;
}  // namespace attndb::llama

namespace attndb::server {

struct SchedulerOptions {
  size_t max_waiting = 1024;
  double stall_factor = 2.0;
};

// Sums since the start, for metrics: of what has run, together or alone.
struct PassCounts {
  std::atomic<uint64_t> num_passes = 0;
  std::atomic<uint64_t> num_prompt_tokens = 0;  // Run.
  std::atomic<uint64_t> num_reply_tokens = 0;
  std::atomic<uint64_t> num_failed_passes = 0;
  std::atomic<uint64_t> num_late_tokens = 0;  // Later than their requests want.
};

class Scheduler {
 public:
  // Both outlive it.
  Scheduler(llama::LlamaEngine* engine, Conversations* conversations,
            const SchedulerOptions& options);
  // As Stop.
  ~Scheduler();

  // Errors: kResourceExhausted (max_waiting turns wait); kCancelled (it stops); kInvalidArgument
  //         (more choices than max_replies()).
  Status Add(std::shared_ptr<Turn> turn);
  // Ends what is under way, behind the pass that runs: listeners get kCancelled. From one thread.
  void Stop();
  // Lets the scheduler look for turns that were cancelled.
  void Wake();

  // Replies in one pass, at most.
  size_t max_replies() const;
  size_t num_active() const { return num_active_; }
  size_t num_waiting() const;
  const PassCounts& counts() const { return counts_; }

 private:
  using Turns = std::list<std::shared_ptr<Turn>>;

  // What one turn runs in a pass.
  struct Part {
    Turn* turn = nullptr;
    std::vector<TokenId> tokens;
  };

  // Taking turns and running passes: scheduler.cc.
  void Loop();
  bool TakeTurns();
  size_t NumPlacesTaken() const;
  void RunOnce();
  void RemoveCancelled();
  void AwaitOthers();
  bool Guarded(const Turn* turn, const std::function<bool()>& step);
  void GiveUp(const Turn* turn, const Status& status);
  static std::vector<size_t> InOrder(std::span<const Part> parts);
  void Run(const std::vector<Part>& parts);
  void RunAlone(std::span<const Part> parts);
  Status RunPass(std::span<const Part> parts, std::vector<Status>* statuses);
  void Count(std::span<const Part> parts, std::span<const Status> statuses);
  void Learn(std::span<const Part> parts, double seconds);
  void Pace(std::span<const Part> parts, double seconds);

  // Choosing the tokens of a pass: scheduler_parts.cc.
  void FindBeginnings(Turn* turn) const;
  bool AwaitsBeginning(Turn* turn);
  static void GoOnFrom(Session session, Turn* turn);
  static std::string PlanOf(const Turn& turn);
  static uint64_t NumNext(const Turn& turn);
  // Has the turn wait for what is being stored. False: there is nothing.
  bool Pause(Turn* turn);
  void ResumeTurns();
  std::vector<Part> MakeParts();
  void AddReplyParts(std::vector<Part>* parts);
  void AddPromptParts(std::vector<Part>* parts);
  void ShareRoom(std::span<Turn* const> prompts, uint64_t num_tokens, std::vector<Part>* parts);
  void SpendRoom(std::vector<Turn*>* prompts, PromptRoom room, std::vector<Part>* parts);
  uint64_t AddPromptPart(Turn* turn, uint64_t most, std::vector<Part>* parts);
  static Result<uint64_t> MakeRoomForPrompt(Turn* turn);

  // Going on with a turn whose tokens have run: scheduler_turns.cc.
  void Advance(const Part& part, size_t entry, std::vector<Turn*>* done);
  bool ReadPart(const Part& part);
  void BeginChoices(Turn* turn, std::vector<Turn*>* replying);
  bool Sample(Turn* turn, const Result<std::span<const float>>& logits);
  bool TakeStep(Turn* turn, const Result<llama::ReplyStep>& step);
  void SettleReplies(std::chrono::milliseconds wait, std::vector<Turn*>* done);
  void SettleLate();
  std::vector<pollfd> AwaitedAnswers(bool with_late) const;
  static bool LacksLastToken(const Turn& turn);
  void NoteToken(Turn* turn);
  static uint64_t NumDropped(const Turn& turn);
  static TurnStart StartOf(const Turn& turn);
  bool Begin(Turn* turn);
  static uint32_t RoomForReply(const Turn& turn);
  void Leave(Turn* turn);
  void GuardedLeave(Turn* turn);
  bool AwaitsName(Turn* turn);
  void EndDone();
  void HandOver(Turn* turn);
  void End(Turn* turn);
  static std::vector<TokenId> HeldTokens(const Turn& turn);
  static TextLayout HeldText(const TurnRequest& request, uint64_t num_tokens);
  void KeepCut(Turn* turn);
  static void EndQuietly(const Turn& turn, const Status& status);
  void Fail(Turn* turn, const Status& status);
  void Remove(const Turn* turn);
  void ForgetBeginningsOf(const Turn* turn);

  llama::LlamaEngine* const engine_;
  Conversations* const conversations_;
  const SchedulerOptions options_;
  PassCounts counts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Turn>> waiting_;  // Guarded by mutex_.
  bool woken_ = false;                         // Guarded by mutex_.
  bool stopping_ = false;                      // Guarded by mutex_.

  // The thread's.
  Turns active_;
  std::atomic<size_t> num_active_ = 0;
  uint64_t pass_ = 0;  // Counts the passes that were tried.
  PassTimes times_;
  Pacer pacer_;

  std::thread thread_;  // Last: it uses all of the above.
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_SCHEDULER_H_
