// One request for text: what is asked, who listens, and how far it is.
//
// Units:   tokens; seconds by MonotonicSeconds.
// Threads: made by one thread and handed over to the scheduler, whose thread it then belongs to;
//          Cancel may come from any.
#ifndef ATTNDB_SERVER_BATCH_TURN_H_
#define ATTNDB_SERVER_BATCH_TURN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "attndb/options.h"
#include "attndb/session.h"
#include "attndb/status.h"
#include "attndb/types.h"
#include "engines/llama/llama_engine.h"
#include "server/batch/store_ledger.h"

namespace attndb::server {

double MonotonicSeconds();

// What is known of a turn before its first token.
struct TurnStart {
  std::string id;                  // Names the context that it will be stored as.
  uint64_t num_prompt_tokens = 0;  // Without num_cut_tokens.
  // Tokens of the prompt that were reused: their K and V were there when the first new one ran.
  uint64_t num_cached_tokens = 0;
  uint64_t num_run_tokens = 0;      // Those of the prompt that were run.
  uint64_t num_dropped_tokens = 0;  // Those of the prompt that left the window.
  uint64_t num_cut_tokens = 0;      // Stored tokens that the prompt leaves out (edits.h).
  // Where the prompt parts from the stored turn that it follows (parting.h). Empty: nowhere.
  std::string parted;
  bool is_kept = true;             // False: the turn is not stored, and `id` names no context.
  std::vector<std::string> found;  // The contexts that were found for the question.
};

struct TurnEnd {
  llama::FinishReason finish = llama::FinishReason::kEnd;
  std::string stop;         // With kStop: the stop string that ended the reply.
  uint64_t num_tokens = 0;  // In the reply.
  // The reply's, and end_token, if TurnRequest::tells_tokens says so.
  std::vector<TokenId> tokens;
  std::optional<TokenId> end_token;  // With kEnd: the model's token that ended the reply.
  // Tokens that are thinking; nullopt: nobody knows the marks of the model's thinking.
  std::optional<uint64_t> num_thinking_tokens;
  double first_token_seconds = 0;   // From the request to the first token; 0: there is none.
  uint64_t num_dropped_tokens = 0;  // Those of prompt and reply that left the window.
  StoreTicket stored;               // The Store of the turn.
};

// Listens to a turn. Calls come from the scheduler's thread, and none may wait. A turn that replies
// calls OnStart, then OnChances, OnText and OnToken any number of times, then OnEnd. A turn that
// asks for no reply calls OnStart, then OnRead. OnError may come at any point, and is the last.
class TurnListener {
 public:
  virtual ~TurnListener() = default;
  // So many of the prompt's tokens that are not reused have run. Comes before OnStart, too.
  virtual void OnProgress(uint64_t /*num_run*/, uint64_t /*num_to_run*/) {}
  virtual void OnStart(const TurnStart& start) = 0;
  // How likely these tokens of the reply were (TurnRequest::tells_chances). Comes before the OnText
  // that shows their last bytes; the tokens that are left at the end come before OnEnd.
  virtual void OnChances(std::vector<llama::ReplyToken> /*tokens*/) {}
  virtual void OnText(std::string_view text) = 0;
  // The reply has one token more, so many seconds after the one before it; the first, after the
  // request. What text it completes has come before.
  virtual void OnToken(double /*seconds*/) {}
  virtual void OnEnd(const TurnEnd& end) = 0;
  // The session that has read the prompt, which nobody stores. The engine is the listener's until
  // it returns.
  virtual void OnRead(llama::LlamaEngine* /*engine*/, Session /*session*/) {}
  virtual void OnError(const Status& status) = 0;
};

struct TurnRequest {
  std::string id;
  std::string tenant;
  std::vector<TokenId> prompt;  // All of it, what is stored included.
  // Tokens of `prompt` that its words leave out: Prompt::left_out. The session has lost them.
  std::vector<TokenRange> left_out;
  TextLayout text;     // Whose words these are; unknown: they say themselves.
  std::string parted;  // TurnStart::parted.
  std::string title;   // The context's, unless `store` has one.
  // The reply's; the prompt is run under `full`. Empty: both are run under the session's.
  std::string plan;
  llama::GenerateOptions generate;  // Its window says when the oldest tokens leave.
  bool tells_chances = false;       // Those that generate.chances asks for.
  bool tells_tokens = false;        // TurnEnd::tokens.
  bool replies = true;              // False: the prompt is read, and no more.
  // False: the session is over several contexts, or sees some tokens of its context alone. The turn
  // is not stored, it takes no other session, and no other turn goes on from its session.
  bool is_kept = true;
  // The reply ends when the window is full. Without it the oldest tokens leave, and it goes on.
  bool ends_with_window = false;
  double received_seconds = 0;
  double tpot_seconds = 0;  // What a token may take; 0: it does not say.
  // How it is stored, under `id` in any case; none: as conversations are.
  std::optional<StoreOptions> store;
  // Called before the turn is stored, on the scheduler's thread, when no other Store of the name is
  // under way. Checks which context has the name now, and adapts `store` to it. If it returns an
  // error, the turn fails and is kept as a cut one. May be null.
  std::function<Status(StoreOptions* store)> fit_store;
  // Gives the note that the turn is stored with, where `store` is set: called on the scheduler's
  // thread behind fit_store, with all of the end but `stored`. May be null.
  std::function<std::string(const TurnEnd& end)> note;
  // The last token of the reply is run, too, in one more pass: what is stored has all of it. If
  // this pass fails, so does the turn, and it is not stored.
  bool runs_last = false;
  // If the client leaves or the scheduler stops, the tokens that have run are stored under this id.
  // A prompt that was not read to its end gets a new id instead. Empty: a cut turn is not stored.
  std::string cut_id;
  std::shared_ptr<void> under_way;  // Conversations::NoteUnderWay; may be null.
};

// Choices of a request share all but this.
struct TurnOwn {
  std::string id;                                       // In place of TurnRequest::id.
  std::string cut_id;                                   // In place of TurnRequest::cut_id.
  uint32_t seed = 0;                                    // In place of SamplerOptions::seed.
  std::function<std::string(const TurnEnd& end)> note;  // In place of TurnRequest::note.
};

// Choices: a turn may have further replies to its prompt. Each is a turn of its own, with its own
//          id, seed, listener and session, and shares the request. The scheduler runs the prompt
//          once, for the first turn.
//          Then each choice gets a fork of the first turn's session, and replies beside it: one of
//          them may end, fail or be cancelled, and the others go on. Whatever ends the first turn
//          before its prompt is read ends all choices.
class Turn {
 public:
  Turn(TurnRequest request, Session session, std::vector<TokenId> rest,
       std::shared_ptr<TurnListener> listener);
  // One of the choices of a request. `own`: nullopt is what the request itself has.
  Turn(std::shared_ptr<const TurnRequest> request, std::optional<TurnOwn> own, Session session,
       std::vector<TokenId> rest, std::shared_ptr<TurnListener> listener);

  ~Turn();

  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  // Ends the model's thinking at the next token. May come from any thread.
  void EndThinking() { ends_thinking_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // These four REQUIRE that no scheduler has the turn.
  // Adds further replies to this turn's prompt. Their requests have the same tenant, prompt, window
  // and plan. They should share this turn's request, which saves memory. Their sessions are
  // replaced when the prompt is read: any will do.
  void AddChoices(std::vector<std::shared_ptr<Turn>> choices) { choices_ = std::move(choices); }
  // It and its choices hold what it was admitted with, until the last of them is gone.
  void Hold(const std::shared_ptr<void>& place);
  // Calls `count` with the number of tokens of each step, once they have run, or were sampled: on
  // the scheduler's thread, whatever becomes of the turn. Choices count likewise.
  void CountWith(const std::function<void(uint64_t)>& count);
  // Tells the listeners of the turn and of its choices that it will not run.
  void Refuse(const Status& status);

  // The further choices of the request that have not begun.
  std::span<const std::shared_ptr<Turn>> choices() const { return choices_; }
  const TurnRequest& request() const { return *shared_; }
  const std::string& id() const { return own_.id; }
  Session* session() { return &session_; }
  // Tokens of the prompt that are still to be run.
  std::span<const TokenId> rest() const { return std::span(rest_).subspan(num_run_); }
  bool decodes() const { return num_run_ == rest_.size(); }

 private:
  friend class Scheduler;

  // What an earlier turn that is under way has, or will have, of this turn's prompt.
  struct Beginning {
    Turn* turn = nullptr;     // Not owned.
    uint64_t num_tokens = 0;  // The first tokens of both prompts.
  };

  const std::shared_ptr<const TurnRequest> shared_;
  const TurnRequest& request_ = *shared_;
  const TurnOwn own_;
  Session session_;
  std::vector<TokenId> rest_;
  const std::shared_ptr<TurnListener> listener_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> ends_thinking_ = false;
  std::shared_ptr<void> place_;
  std::function<void(uint64_t)> count_;

  // The scheduler's.
  uint32_t num_overtaken_ = 0;  // Turns that came later and began earlier.
  std::vector<std::shared_ptr<Turn>> choices_;
  std::vector<Beginning> beginnings_;  // The longest first.
  bool looks_ = true;        // Conversations may have more of the prompt than session_ has.
  uint64_t num_wanted_ = 0;  // The next tokens of rest_, which other turns wait for; 0: none do.
  uint64_t num_run_ = 0;     // Tokens of rest_.
  uint64_t read_pass_ = 0;   // The last that took tokens of its prompt; first, that which met it.
  uint64_t num_reused_ = 0;  // TurnStart::num_cached_tokens, once the first part of rest_ is made.
  std::unique_ptr<llama::Reply> reply_;
  // The reply's grammar has not answered yet about the next token: the turn is left out of passes.
  bool settles_ = false;
  bool is_late_ = false;                       // The pass did not wait any longer for this answer.
  std::optional<llama::FinishReason> finish_;  // Once the reply has its last token.
  // Its last pass is over. It ends once the Stores of its name have ended.
  bool is_done_ = false;
  double first_token_seconds_ = 0;  // When it came.
  double last_token_seconds_ = 0;   // When the last one so far came.
  double attention_share_ = 0;      // PacedSession::share.
  // Not empty: it waits until one of them has ended. It lacks memory, or is_done_.
  std::vector<PendingStore> awaited_;
};

}  // namespace attndb::server

#endif  // ATTNDB_SERVER_BATCH_TURN_H_
