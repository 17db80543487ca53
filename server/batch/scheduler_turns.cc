// Scheduler: what becomes of a turn whose tokens have run.
#include <algorithm>
#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include "engines/llama/prompt_layout.h"
#include "engines/llama/reply.h"
#include "engines/llama/window.h"
#include "server/batch/edits.h"
#include "server/batch/scheduler.h"
#include "server/batch/turn_id.h"

namespace attndb::server {

// Takes what an entry of a pass gave its turn, and runs nothing. Appends the turns that are done
// and are to leave.
void Scheduler::Advance(const Part& part, size_t entry, std::vector<Turn*>* done) {
  Turn* const turn = part.turn;
  const bool begins = !turn->decodes();
  std::vector<Turn*> replying = {turn};
  const auto read = [&] {
    if (!ReadPart(part)) return false;
    BeginChoices(turn, &replying);
    return true;
  };
  if (begins && !Guarded(turn, read)) {
    // An exception came between two choices. Those before it have nothing to go on with.
    const Status status = Status::ResourceExhausted("the choices of the request could not begin");
    for (size_t i = 1; i < replying.size(); ++i) GiveUp(replying[i], status);
    return;
  }
  if (!turn->request_.replies) return done->push_back(turn);
  for (Turn* const reply : replying) {
    const auto sample = [&] {
      return (!begins || Begin(reply)) && Sample(reply, engine_->Logits(entry));
    };
    if (Guarded(reply, sample)) done->push_back(reply);
  }
}

// The turn's prompt is read. Its choices go on from here, each with a fork of its session. Appends
// those that do.
void Scheduler::BeginChoices(Turn* turn, std::vector<Turn*>* replying) {
  for (; !turn->choices_.empty(); turn->choices_.erase(turn->choices_.begin())) {
    const std::shared_ptr<Turn>& choice = turn->choices_.front();
    if (choice->cancelled()) continue;
    Result<Session> fork = turn->session_.Fork();
    if (!fork.ok()) {
      EndQuietly(*choice, fork.status());
      continue;
    }
    choice->session_ = *std::move(fork);
    choice->rest_ = turn->rest_;
    choice->num_run_ = turn->num_run_;
    choice->num_reused_ = turn->num_reused_;
    replying->push_back(choice.get());
    active_.push_back(choice);
  }
}

// Takes the next token of a turn's reply from the logits that a pass gave. True: the turn is done.
bool Scheduler::Sample(Turn* turn, const Result<std::span<const float>>& logits) {
  // The pass ran the last token of the reply, or of the prompt if the reply is to have none.
  if (turn->finish_) return true;
  if (turn->cancelled()) return false;
  if (!logits.ok()) {
    Fail(turn, logits.status());
    return false;
  }
  if (turn->ends_thinking_.exchange(false, std::memory_order_relaxed)) turn->reply_->EndThinking();
  return TakeStep(turn, turn->reply_->Propose(*logits));
}

// The pass has run a part of the turn's prompt. True: the prompt is read.
bool Scheduler::ReadPart(const Part& part) {
  Turn* const turn = part.turn;
  turn->num_run_ += part.tokens.size();
  if (turn->count_) turn->count_(part.tokens.size());
  turn->listener_->OnProgress(turn->num_run_, turn->rest_.size());
  if (!turn->decodes()) return false;
  const std::string& plan = turn->request_.plan;
  const Status status = plan.empty() ? Status::Ok() : turn->session_.SetPlan(plan);
  if (!status.ok()) Fail(turn, status);
  return status.ok();
}

// Takes the next token of the turn's reply, if the reply has it. True: the turn is done.
bool Scheduler::TakeStep(Turn* turn, const Result<llama::ReplyStep>& step) {
  if (!step.ok()) {
    Fail(turn, step.status());
    return false;
  }
  turn->settles_ = !step->is_settled;
  turn->is_late_ = turn->is_late_ && turn->settles_;
  if (turn->settles_) return false;
  turn->finish_ = step->finish;
  if (turn->finish_ != llama::FinishReason::kEnd) NoteToken(turn);  // The model's end is no token.
  if (turn->first_token_seconds_ == 0) turn->first_token_seconds_ = MonotonicSeconds();
  if (!turn->finish_) return false;
  turn->reply_->Finish();
  return !LacksLastToken(*turn);
}

// Takes the answers of grammars that are there, and waits for those that are not late. Appends the
// turns that are done.
void Scheduler::SettleReplies(std::chrono::milliseconds wait, std::vector<Turn*>* done) {
  const auto end = std::chrono::steady_clock::now() + wait;
  while (true) {
    for (auto next = active_.begin(); next != active_.end();) {
      Turn* const turn = (next++)->get();  // An error removes it.
      if (!turn->settles_) continue;
      if (Guarded(turn, [&] { return TakeStep(turn, turn->reply_->Settle()); })) {
        done->push_back(turn);
      }
    }
    std::vector<pollfd> answers = AwaitedAnswers(/*with_late=*/false);
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (answers.empty()) return;
    if (left.count() <= 0) break;
    poll(answers.data(), answers.size(), static_cast<int>(left.count()));
  }
  for (const std::shared_ptr<Turn>& turn : active_) turn->is_late_ = turn->settles_;
}

// Takes the answers that came between two passes.
void Scheduler::SettleLate() {
  std::vector<Turn*> done;
  SettleReplies(std::chrono::milliseconds(0), &done);
  for (Turn* const turn : done) GuardedLeave(turn);
}

// The answers that turns wait for, for poll().
std::vector<pollfd> Scheduler::AwaitedAnswers(bool with_late) const {
  std::vector<pollfd> answers;
  for (const std::shared_ptr<Turn>& turn : active_) {
    if (turn->settles_ && (with_late || !turn->is_late_)) {
      answers.push_back(turn->reply_->awaited());
    }
  }
  return answers;
}

// Whether the last token of the turn's reply is still to be run, in the next pass.
bool Scheduler::LacksLastToken(const Turn& turn) {
  const uint64_t num_tokens = turn.request_.prompt.size() + turn.reply_->tokens().size();
  return turn.request_.runs_last && turn.session_.num_tokens() < num_tokens;
}

// A token of the reply was sampled.
void Scheduler::NoteToken(Turn* turn) {
  const double now = MonotonicSeconds();
  const bool is_first = turn->last_token_seconds_ == 0;
  const double before = is_first ? turn->request_.received_seconds : turn->last_token_seconds_;
  turn->last_token_seconds_ = now;
  const double tpot = turn->request_.tpot_seconds;
  if (!is_first && tpot > 0 && now - before > tpot) counts_.num_late_tokens.fetch_add(1);
  if (turn->count_) turn->count_(1);
  turn->listener_->OnToken(now - before);
}

// The tokens that left the turn's window.
uint64_t Scheduler::NumDropped(const Turn& turn) {
  return turn.session_.num_dropped() - llama::NumTokensOf(turn.request_.left_out);
}

TurnStart Scheduler::StartOf(const Turn& turn) {
  const TurnRequest& request = turn.request_;
  return {.id = turn.own_.id,
          .num_prompt_tokens = request.prompt.size() - llama::NumTokensOf(request.left_out),
          .num_cached_tokens = turn.num_reused_,
          .num_run_tokens = turn.rest_.size(),
          .num_dropped_tokens = NumDropped(turn),
          .num_cut_tokens = llama::NumTokensOf(request.left_out),
          .parted = request.parted,
          .is_kept = request.is_kept};
}

// The prompt is read: the reply begins. False: it can't, and the turn is gone.
bool Scheduler::Begin(Turn* turn) {
  const TurnRequest& request = turn->request_;
  llama::GenerateOptions generate = request.generate;
  generate.sampler.seed = turn->own_.seed;
  if (request.ends_with_window) {
    generate.max_tokens = std::min(generate.max_tokens, RoomForReply(*turn));
  }
  generate.on_piece = [listener = turn->listener_.get()](std::string_view piece) {
    listener->OnText(piece);
    return true;
  };
  if (request.tells_chances) {
    generate.on_tokens = [listener = turn->listener_.get()](std::vector<llama::ReplyToken> tokens) {
      listener->OnChances(std::move(tokens));
    };
  }
  Result<std::unique_ptr<llama::Reply>> reply = engine_->BeginReply(generate);
  if (!reply.ok()) {
    Fail(turn, reply.status());
    return false;
  }
  turn->reply_ = *std::move(reply);
  // All of it: what was reused is chance.
  turn->reply_->SeePrompt(Without(request.prompt, request.left_out));
  turn->listener_->OnStart(StartOf(*turn));
  if (generate.max_tokens == 0) turn->finish_ = llama::FinishReason::kMaxTokens;
  return true;
}

// The tokens that the turn's window still takes behind its prompt; 1 at least.
uint32_t Scheduler::RoomForReply(const Turn& turn) {
  const uint64_t window = turn.request_.generate.prefill.window.window_tokens;
  if (window == 0) return UINT32_MAX;
  const uint64_t taken = std::min(llama::TokensOfWindow(turn.session_), window);
  return static_cast<uint32_t>(std::clamp<uint64_t>(window - taken, 1, UINT32_MAX));
}

// A turn of the last pass is done. May run the engine: the logits of the pass are gone then.
void Scheduler::Leave(Turn* turn) {
  if (!turn->request_.replies) return HandOver(turn);
  if (!AwaitsName(turn)) End(turn);
}

void Scheduler::GuardedLeave(Turn* turn) {
  Guarded(turn, [&] {
    Leave(turn);
    return true;
  });
}

// Stores are begun by this thread alone: none of the name begins between here and End.
bool Scheduler::AwaitsName(Turn* turn) {
  const TurnRequest& request = turn->request_;
  if (!request.fit_store) return false;
  turn->awaited_ = conversations_->PendingStoresOf(request.tenant, turn->own_.id);
  turn->is_done_ = !turn->awaited_.empty();
  return turn->is_done_;
}

// Ends the turns that waited for Stores of their names.
void Scheduler::EndDone() {
  for (auto next = active_.begin(); next != active_.end();) {
    Turn* const turn = (next++)->get();  // Leave removes it.
    if (turn->is_done_ && turn->awaited_.empty()) GuardedLeave(turn);
  }
}

// The prompt of a turn that asks for no reply is read.
void Scheduler::HandOver(Turn* turn) {
  turn->listener_->OnStart(StartOf(*turn));
  turn->listener_->OnRead(engine_, std::move(turn->session_));
  Remove(turn);
}

void Scheduler::End(Turn* turn) {
  const TurnRequest& request = turn->request_;
  std::optional<StoreOptions> store = request.store;
  const Status fits = store && request.fit_store ? request.fit_store(&*store) : Status::Ok();
  if (!fits.ok()) {
    KeepCut(turn);
    return Fail(turn, fits);
  }
  TurnEnd end = {.finish = *turn->finish_,
                 .stop = turn->reply_->stop(),
                 .num_tokens = turn->reply_->tokens().size(),
                 .tokens = {},
                 .end_token = turn->reply_->end_token(),
                 .num_thinking_tokens = turn->reply_->num_thinking_tokens(),
                 .first_token_seconds = turn->first_token_seconds_ == 0
                                            ? 0
                                            : turn->first_token_seconds_ - request.received_seconds,
                 .num_dropped_tokens = NumDropped(*turn),
                 .stored = {}};
  if (request.tells_tokens) {
    end.tokens = turn->reply_->tokens();
    if (end.end_token) end.tokens.push_back(*end.end_token);
  }
  if (store && turn->own_.note) store->note = turn->own_.note(end);
  if (request.is_kept) {
    std::vector<TokenId> tokens = HeldTokens(*turn);
    const TextLayout text = HeldText(request, tokens.size());
    end.stored = conversations_->Keep(request.tenant, turn->own_.id, std::move(turn->session_),
                                      std::move(tokens), std::move(store), text, request.title);
  }
  turn->listener_->OnEnd(end);
  Remove(turn);
}

// Returns the tokens that the session holds. The last token of a reply may not have been run.
std::vector<TokenId> Scheduler::HeldTokens(const Turn& turn) {
  std::vector<TokenId> tokens = turn.request_.prompt;
  if (turn.reply_ != nullptr) {
    const std::vector<TokenId>& reply = turn.reply_->tokens();
    tokens.insert(tokens.end(), reply.begin(), reply.end());
  }
  tokens.resize(turn.session_.num_tokens());
  return tokens;
}

// Whose words the first `num_tokens` of prompt and reply are. An import has no reply.
TextLayout Scheduler::HeldText(const TurnRequest& request, uint64_t num_tokens) {
  TextLayout text = llama::FirstOf(request.text, num_tokens);
  if (num_tokens > request.prompt.size()) {
    llama::AddReply({request.prompt.size(), num_tokens}, &text);
  }
  return text;
}

// Keeps what was run of a turn that comes to no end. A part of a prompt answers no messages: its
// id has no digest of them.
void Scheduler::KeepCut(Turn* turn) {
  const TurnRequest& request = turn->request_;
  if (turn->own_.cut_id.empty() || !request.is_kept || turn->num_run_ == 0) return;
  std::vector<TokenId> tokens = HeldTokens(*turn);
  const TextLayout text = HeldText(request, tokens.size());
  // The rest of `store` is of the whole turn: its name, its pin, its note.
  std::optional<StoreOptions> life;
  if (request.store && !request.fit_store) life = StoreOptions{.ttl = request.store->ttl};
  conversations_->Keep(request.tenant, turn->decodes() ? turn->own_.cut_id : NewTurnId(""),
                       std::move(turn->session_), std::move(tokens), std::move(life), text,
                       request.title);
}

// Tells a turn's listener, and those of choices that have not begun, of an error. If a listener
// throws, the client gets what its responder sends in the end.
void Scheduler::EndQuietly(const Turn& turn, const Status& status) {
  try {
    turn.listener_->OnError(status);
  } catch (const std::exception&) {
  }
  for (const std::shared_ptr<Turn>& choice : turn.choices_) EndQuietly(*choice, status);
}

void Scheduler::Fail(Turn* turn, const Status& status) {
  // The session that it was a fork of would fail the next request alike.
  if (status.code() == StatusCode::kCorruption) conversations_->DropLive(turn->request_.tenant);
  EndQuietly(*turn, status);
  Remove(turn);
}

void Scheduler::Remove(const Turn* turn) {
  ForgetBeginningsOf(turn);
  active_.remove_if([turn](const std::shared_ptr<Turn>& other) { return other.get() == turn; });
}

void Scheduler::ForgetBeginningsOf(const Turn* turn) {
  for (const std::shared_ptr<Turn>& other : active_) {
    std::erase_if(other->beginnings_,
                  [turn](const Turn::Beginning& beginning) { return beginning.turn == turn; });
  }
}

}  // namespace attndb::server
