#include "server/batch/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <new>
#include <string>
#include <utility>

#include "engines/llama/prompt_layout.h"
#include "engines/llama/reply.h"
#include "engines/llama/window.h"
#include "server/batch/turn_id.h"

namespace attndb::server {
namespace {

constexpr std::chrono::milliseconds kStorePoll{5};  // How often it looks whether stores have ended.
constexpr uint64_t kMostPassesBetween =
    64;  // Those that take tokens of a prompt: shorter ones wait.
// Tokens that are worth a pass's wait, or a fork. The first words of a chat template are fewer.
constexpr uint64_t kWorthSharing = 32;

// The first tokens of both prompts that `turn` can go on from once `other` has read them: those
// before any token leaves the window of either turn.
uint64_t SharedTokens(const TurnRequest& other, const Session& session, const TurnRequest& turn) {
  if (other.tenant != turn.tenant) return 0;
  uint64_t most = turn.prompt.size() - 1;
  for (const TurnRequest* const request : {&other, &turn}) {
    const uint64_t window = request->generate.prefill.window.window_tokens;
    if (window > 0) most = std::min(most, window - 1);
  }
  if (!session.cuts().empty()) most = std::min(most, session.cuts().front().at - 1);
  return std::min<uint64_t>(most, CommonLength(other.prompt, turn.prompt));
}

// What a listener is told of an exception.
Status StatusOf(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return Status::ResourceExhausted("no memory for the request");
  }
  return Status::Internal(std::string(e.what()) + "; this is a bug of attndb");
}

// Tells a listener. If that throws, the client gets what its responder sends in the end.
void EndQuietly(TurnListener* listener, const Status& status) {
  try {
    listener->OnError(status);
  } catch (const std::exception&) {
  }
}

}  // namespace

Scheduler::Scheduler(llama::LlamaEngine* engine, Conversations* conversations,
                     const SchedulerOptions& options)
    : engine_(engine),
      conversations_(conversations),
      options_(options),
      times_(options.stall_factor),
      pacer_(engine->options().num_threads) {
  thread_ = std::thread([this] { Loop(); });
}

Scheduler::~Scheduler() { Stop(); }

void Scheduler::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

Status Scheduler::Add(std::shared_ptr<Turn> turn) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stopping_) return Status::Cancelled("the server stops");
    if (waiting_.size() >= options_.max_waiting) {
      // Not how many: that is of other tenants.
      return Status::ResourceExhausted("too many requests wait already; try again later");
    }
    waiting_.push_back(std::move(turn));
  }
  changed_.notify_one();
  return Status::Ok();
}

void Scheduler::Wake() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

size_t Scheduler::num_waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return waiting_.size();
}

void Scheduler::Loop() {
  for (bool goes_on = true; goes_on;) {
    try {
      goes_on = TakeTurns();
      if (goes_on) RunOnce();
    } catch (const std::exception& e) {  // No one knows how far the turns of the pass are.
      const Status status = StatusOf(e);
      while (!active_.empty()) GiveUp(active_.front().get(), status);
    }
    num_active_ = active_.size();
  }
  const Status stopped = Status::Cancelled("the server stops");
  while (!active_.empty()) {
    Turn* const turn = active_.front().get();
    Guarded(turn, [&] {
      KeepCut(turn);
      Fail(turn, stopped);
      return true;
    });
  }
  std::deque<std::shared_ptr<Turn>> waiting;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting.swap(waiting_);
  }
  for (const std::shared_ptr<Turn>& turn : waiting) EndQuietly(turn->listener_.get(), stopped);
}

void Scheduler::RunOnce() {
  RemoveCancelled();
  const std::vector<Part> parts = MakeParts();
  if (!parts.empty()) {
    Run(parts);
  } else if (!active_.empty()) {
    AwaitStores();
  }
}

// Runs a step of one turn. An exception ends that turn, and the result is false.
bool Scheduler::Guarded(const Turn* turn, const std::function<bool()>& step) {
  try {
    return step();
  } catch (const std::exception& e) {
    GiveUp(turn, StatusOf(e));
    return false;
  }
}

// Ends a turn after an exception, whatever its state. Does nothing if the turn has ended already.
void Scheduler::GiveUp(const Turn* turn, const Status& status) {
  const auto found = std::ranges::find(active_, turn, &std::shared_ptr<Turn>::get);
  if (found == active_.end()) return;
  EndQuietly((*found)->listener_.get(), status);
  Remove(turn);
}

// Waits for something to do. False: it is to stop.
bool Scheduler::TakeTurns() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock,
                [this] { return stopping_ || woken_ || !active_.empty() || !waiting_.empty(); });
  woken_ = false;
  // A pass takes a token of each.
  const size_t most = std::min(engine_->options().max_sessions, engine_->options().ubatch_tokens);
  std::vector<Turn*> taken;
  while (!waiting_.empty() && active_.size() < most) {
    active_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    taken.push_back(active_.back().get());
  }
  num_active_ = active_.size();
  const bool goes_on = !stopping_;
  lock.unlock();
  for (Turn* const turn : taken) FindBeginnings(turn);
  return goes_on;
}

// Notes what the turns before this one have, or will have, of its prompt.
void Scheduler::FindBeginnings(Turn* turn) const {
  for (const std::shared_ptr<Turn>& other : active_) {
    if (other.get() == turn) break;
    const uint64_t num_tokens = SharedTokens(other->request_, other->session_, turn->request_);
    if (num_tokens >= turn->session_.num_tokens() + kWorthSharing) {
      turn->beginnings_.push_back({other.get(), num_tokens});
    }
  }
  std::ranges::stable_sort(turn->beginnings_, std::ranges::greater(), &Turn::Beginning::num_tokens);
}

// Takes what other turns have read of the turn's prompt. True: one of them is to read more of it,
// which is worth waiting for.
bool Scheduler::AwaitsBeginning(Turn* turn) {
  if (turn->num_run_ > 0) return false;
  while (!turn->beginnings_.empty()) {
    const auto [other, num_tokens] = turn->beginnings_.front();
    const bool is_worth = num_tokens >= turn->session_.num_tokens() + kWorthSharing;
    const uint64_t num_read = other->session_.num_tokens();
    if (is_worth && num_read < num_tokens) {
      const uint64_t num_missing = num_tokens - num_read;
      uint64_t& num_wanted = other->num_wanted_;
      num_wanted = num_wanted == 0 ? num_missing : std::min(num_wanted, num_missing);
      turn->looks_ = true;  // The other turn may end before.
      return true;
    }
    turn->beginnings_.erase(turn->beginnings_.begin());
    if (!is_worth) continue;
    if (auto fork = ForkOf(other->session_, num_tokens, PlanOf(*turn)))
      GoOnFrom(*std::move(fork), turn);
  }
  if (!std::exchange(turn->looks_, false)) return false;
  const TurnRequest& request = turn->request_;
  const uint64_t num_known = turn->session_.num_tokens() + kWorthSharing - 1;
  auto live = conversations_->ForkLive(request.tenant, request.prompt, num_known, PlanOf(*turn),
                                       request.generate.prefill.window);
  // A session that is not all in memory would hold up the pass.
  if (live && !live->is_unread) GoOnFrom(std::move(live->session), turn);
  return false;
}

// `session` has more of the turn's prompt than the turn's own session.
void Scheduler::GoOnFrom(Session session, Turn* turn) {
  const std::vector<TokenId>& prompt = turn->request_.prompt;
  turn->rest_.assign(prompt.begin() + static_cast<std::ptrdiff_t>(session.num_tokens()),
                     prompt.end());
  turn->session_ = std::move(session);
}

// The turn's own plan, or that of its session.
std::string Scheduler::PlanOf(const Turn& turn) {
  const std::string& plan = turn.request_.plan;
  return plan.empty() ? turn.session_.Explain().plan : plan;
}

// The tokens that the turn is to read next: all of the rest, unless others wait for fewer of them.
uint64_t Scheduler::NumNext(const Turn& turn) {
  const uint64_t num_rest = turn.rest().size();
  return turn.num_wanted_ == 0 ? num_rest : std::min(num_rest, turn.num_wanted_);
}

void Scheduler::RemoveCancelled() {
  for (auto next = active_.begin(); next != active_.end();) {
    Turn* const turn = (next++)->get();  // Remove destroys it.
    if (!turn->cancelled()) continue;
    // Its reply is whole, and it ends soon.
    if (turn->finish_ && (turn->is_done_ || turn->awaited_.empty())) continue;
    Guarded(turn, [&] {
      KeepCut(turn);
      Remove(turn);
      return true;
    });
  }
  std::deque<std::shared_ptr<Turn>> gone;  // Destroyed without the mutex.
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto begin = std::ranges::stable_partition(
      waiting_, [](const std::shared_ptr<Turn>& turn) { return !turn->cancelled(); });
  std::ranges::move(begin, std::back_inserter(gone));
  waiting_.erase(begin.begin(), begin.end());
}

bool Scheduler::Pause(Turn* turn) {
  turn->awaited_ = conversations_->PendingStores();
  return !turn->awaited_.empty();
}

// Those that wait for a store that has ended try again.
void Scheduler::ResumeTurns() {
  for (const std::shared_ptr<Turn>& turn : active_) {
    const auto is_done = [](const PendingStore& store) { return store.done(); };
    if (std::ranges::any_of(turn->awaited_, is_done)) turn->awaited_.clear();
  }
}

// All turns wait for stores: for a while, or until there is something else to do.
void Scheduler::AwaitStores() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, kStorePoll, [this] { return stopping_ || woken_; });
}

std::vector<Scheduler::Part> Scheduler::MakeParts() {
  ResumeTurns();
  EndDone();
  std::vector<Part> parts;
  AddReplyParts(&parts);
  AddPromptParts(&parts);
  return parts;
}

void Scheduler::AddReplyParts(std::vector<Part>* parts) {
  for (auto next = active_.begin(); next != active_.end();) {
    Turn* const turn = (next++)->get();  // Fail removes it.
    if (!turn->decodes() || !turn->awaited_.empty()) continue;
    Guarded(turn, [&] {
      const Result<uint64_t> room =
          llama::MakeRoom(turn->request_.generate.prefill.window, 1, &turn->session_);
      if (!room.ok()) {
        Fail(turn, room.status());
      } else {
        parts->push_back({turn, {turn->reply_->tokens().back()}});
      }
      return room.ok();
    });
  }
}

void Scheduler::AddPromptParts(std::vector<Part>* parts) {
  const uint64_t num_replies = parts->size();
  std::vector<Turn*> prompts;
  uint64_t num_tokens = 0;  // Those of prompts that lack memory, too: they wait.
  double tpot = 0;
  for (const std::shared_ptr<Turn>& turn : active_) turn->num_wanted_ = 0;
  for (auto next = active_.begin(); next != active_.end();) {
    Turn* const turn = (next++)->get();  // Guarded may remove it.
    if (!turn->decodes()) {
      if (!Guarded(turn, [&] { return !AwaitsBeginning(turn); })) continue;
      num_tokens += turn->rest().size();
      if (turn->awaited_.empty()) prompts.push_back(turn);
    } else if (const double wished = turn->request_.tpot_seconds; wished > 0) {
      tpot = tpot == 0 ? wished : std::min(tpot, wished);
    }
  }
  const uint64_t most = std::min(engine_->options().ubatch_tokens - num_replies, num_tokens);
  const PromptRoom room = times_.Room(num_replies, most, tpot);
  if (num_replies == 0) return ShareRoom(prompts, room.tokens, parts);
  SpendRoom(&prompts, room, parts);
}

// Without replies, a pass has room for so many tokens that each prompt has its share.
void Scheduler::ShareRoom(std::span<Turn* const> prompts, uint64_t num_tokens,
                          std::vector<Part>* parts) {
  uint64_t num_left = prompts.size();
  for (Turn* const turn : prompts) {
    const uint64_t share = std::max<uint64_t>(num_tokens / num_left--, 1);
    num_tokens -= std::min(num_tokens, AddPromptPart(turn, share, parts));
    if (num_tokens == 0) return;
  }
}

// Beside replies, those that need no more than there is come first, the shortest before the others,
// so that who continues a conversation waits for no long prompt; then one of the others has a
// chunk, whichever has waited for the most passes. One that has waited for too many goes first.
void Scheduler::SpendRoom(std::vector<Turn*>* prompts, PromptRoom room, std::vector<Part>* parts) {
  const uint64_t pass = pass_ + 1;
  for (Turn* const turn : *prompts) {
    if (turn->read_pass_ == 0) turn->read_pass_ = pass;  // It comes.
  }
  const auto take = [&](Turn* turn) {
    const uint64_t most = std::min(room.tokens, NumNext(*turn));
    room.tokens -= std::min(room.tokens, AddPromptPart(turn, most, parts));
  };
  std::ranges::stable_sort(*prompts, {}, [](const Turn* turn) { return NumNext(*turn); });
  const auto first_long = std::ranges::find_if(
      *prompts, [&room](const Turn* turn) { return NumNext(*turn) > room.tokens; });
  const auto next = std::min_element(first_long, prompts->end(), [](const Turn* a, const Turn* b) {
    return a->read_pass_ < b->read_pass_;
  });
  Turn* const long_one = next == prompts->end() ? nullptr : *next;
  if (long_one != nullptr && room.tokens > 0 && pass - long_one->read_pass_ > kMostPassesBetween) {
    return take(long_one);
  }
  for (auto turn = prompts->begin(); turn != first_long; ++turn) {
    if (NumNext(**turn) <= room.tokens) take(*turn);
  }
  if (long_one != nullptr && room.tokens >= room.chunk) take(long_one);
}

// So many tokens of the turn's prompt, as far as there is room in its window: how many.
uint64_t Scheduler::AddPromptPart(Turn* turn, uint64_t most, std::vector<Part>* parts) {
  uint64_t num_added = 0;
  Guarded(turn, [&] {
    const Result<uint64_t> room = MakeRoomForPrompt(turn);
    if (!room.ok()) {
      Fail(turn, room.status());
      return false;
    }
    const auto tokens = turn->rest().first(std::min({most, *room, turn->rest().size()}));
    parts->push_back({turn, {tokens.begin(), tokens.end()}});
    turn->read_pass_ = pass_ + 1;
    num_added = tokens.size();
    return true;
  });
  return num_added;
}

// Room for the rest of the prompt, or a part of it, in a session that attends to all it has.
Result<uint64_t> Scheduler::MakeRoomForPrompt(Turn* turn) {
  const TurnRequest& request = turn->request_;
  if (turn->num_run_ == 0 && !request.plan.empty()) {
    ATTNDB_RETURN_IF_ERROR(turn->session_.SetPlan("full"));
  }
  ATTNDB_ASSIGN_OR_RETURN(
      const uint64_t room,
      llama::MakeRoom(request.generate.prefill.window, turn->rest().size(), &turn->session_));
  if (turn->num_run_ == 0) {
    turn->num_reused_ = turn->session_.num_tokens() - turn->session_.num_dropped();
  }
  return room;
}

void Scheduler::Run(const std::vector<Part>& parts) {
  const double start = MonotonicSeconds();
  ++pass_;
  std::vector<Status> statuses;
  const Status status = RunPass(parts, &statuses);
  if (!status.ok()) return RunAlone(parts);
  Learn(parts, MonotonicSeconds() - start);
  std::vector<Part> failed;
  std::vector<Turn*> done;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!statuses[i].ok()) {
      failed.push_back(parts[i]);
    } else if (Guarded(parts[i].turn, [&] { return Advance(parts[i], engine_->Logits(i)); })) {
      done.push_back(parts[i].turn);
    }
  }
  // Not in the loop above: a listener may run the engine, which overwrites the other turns' logits.
  for (Turn* const turn : done) GuardedLeave(turn);
  if (!failed.empty()) RunAlone(failed);
}

// Runs parts of a pass that failed one by one: what fails alone ends, or waits for memory.
void Scheduler::RunAlone(std::span<const Part> parts) {
  counts_.num_failed_passes.fetch_add(1);
  for (const Part& part : parts) {
    Status status = RunPass({&part, 1}, nullptr);
    if (status.code() == StatusCode::kResourceExhausted) {
      conversations_->DropLive();
      status = RunPass({&part, 1}, nullptr);
    }
    if (status.ok()) {
      Turn* const turn = part.turn;
      if (Guarded(turn, [&] { return Advance(part, engine_->Logits(0)); })) GuardedLeave(turn);
    } else if (status.code() != StatusCode::kResourceExhausted || !Pause(part.turn)) {
      Fail(part.turn, status);
    }
  }
}

Status Scheduler::RunPass(std::span<const Part> parts, std::vector<Status>* statuses) {
  std::vector<llama::BatchEntry> entries;
  for (const Part& part : parts) entries.push_back({part.turn->session(), part.tokens});
  const Status status = engine_->DecodeBatch(entries, statuses);
  if (status.ok()) Count(parts, statuses == nullptr ? std::span<const Status>() : *statuses);
  return status;
}

// Counts a pass. Without statuses, all of its parts have run.
void Scheduler::Count(std::span<const Part> parts, std::span<const Status> statuses) {
  counts_.num_passes.fetch_add(1);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!statuses.empty() && !statuses[i].ok()) continue;
    const bool replies = parts[i].turn->decodes();
    (replies ? counts_.num_reply_tokens : counts_.num_prompt_tokens)
        .fetch_add(parts[i].tokens.size());
  }
}

void Scheduler::Learn(std::span<const Part> parts, double seconds) {
  uint64_t num_replies = 0;
  uint64_t num_prompt_tokens = 0;
  for (const Part& part : parts) {
    if (part.turn->decodes()) {
      ++num_replies;
    } else {
      num_prompt_tokens += part.tokens.size();
    }
  }
  times_.Learn(num_replies, num_prompt_tokens, seconds);
  if (num_prompt_tokens == 0) return Pace(parts, seconds);
  conversations_->prices().LearnRun(times_.prompt_token_seconds());
}

void Scheduler::Pace(std::span<const Part> parts, double seconds) {
  std::vector<PacedSession> sessions;
  for (const Part& part : parts) {
    Turn* const turn = part.turn;
    sessions.push_back({turn->session(), turn->request_.tpot_seconds, &turn->attention_share_});
  }
  pacer_.Learn(seconds, sessions);
}

// Takes what a pass gave a turn, and runs nothing. True: the turn is done, and is to leave.
bool Scheduler::Advance(const Part& part, const Result<std::span<const float>>& logits) {
  Turn* const turn = part.turn;
  if (!turn->decodes()) {
    if (!ReadPart(part)) return false;
    if (!turn->request_.replies) return true;
    if (!Begin(turn)) return false;
  }
  // The pass ran the last token of the reply, or of the prompt if the reply is to have none.
  if (turn->finish_) return true;
  if (turn->cancelled()) return false;
  if (!logits.ok()) {
    Fail(turn, logits.status());
    return false;
  }
  return Sample(turn, *logits);
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

// Takes the next token of the turn's reply. True: the turn is done.
bool Scheduler::Sample(Turn* turn, std::span<const float> logits) {
  const size_t num_before = turn->reply_->tokens().size();
  turn->finish_ = turn->reply_->Next(logits);
  const bool is_token = turn->reply_->tokens().size() > num_before;  // Or the model's end.
  if (is_token) NoteToken(turn);
  if (turn->first_token_seconds_ == 0) turn->first_token_seconds_ = MonotonicSeconds();
  if (!turn->finish_) return false;
  turn->reply_->Finish();
  return !LacksLastToken(*turn);
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

TurnStart Scheduler::StartOf(const Turn& turn) {
  const TurnRequest& request = turn.request_;
  return {.id = request.id,
          .num_prompt_tokens = request.prompt.size(),
          .num_cached_tokens = turn.num_reused_,
          .num_run_tokens = turn.rest_.size(),
          .num_dropped_tokens = turn.session_.num_dropped()};
}

// The prompt is read: the reply begins. False: it can't, and the turn is gone.
bool Scheduler::Begin(Turn* turn) {
  const TurnRequest& request = turn->request_;
  llama::GenerateOptions generate = request.generate;
  if (request.ends_with_window) {
    generate.max_tokens = std::min(generate.max_tokens, RoomForReply(*turn));
  }
  generate.on_piece = [listener = turn->listener_.get()](std::string_view piece) {
    listener->OnText(piece);
    return true;
  };
  Result<std::unique_ptr<llama::Reply>> reply = engine_->BeginReply(generate);
  if (!reply.ok()) {
    Fail(turn, reply.status());
    return false;
  }
  turn->reply_ = *std::move(reply);
  turn->reply_->SeePrompt(request.prompt);  // All of it: what was reused is chance.
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
  turn->awaited_ = conversations_->PendingStoresOf(request.tenant, request.id);
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
  const uint64_t num_dropped = turn->session_.num_dropped();
  std::vector<TokenId> tokens = HeldTokens(*turn);
  const TextLayout text = HeldText(request, tokens.size());
  const StoreTicket stored =
      conversations_->Keep(request.tenant, request.id, std::move(turn->session_), std::move(tokens),
                           std::move(store), text);
  turn->listener_->OnEnd(
      {.finish = *turn->finish_,
       .num_tokens = turn->reply_->tokens().size(),
       .first_token_seconds = turn->first_token_seconds_ == 0
                                  ? 0
                                  : turn->first_token_seconds_ - request.received_seconds,
       .num_dropped_tokens = num_dropped,
       .stored = stored});
  Remove(turn);
}

// What the session holds: of a reply, the last token that was sampled may not have been run.
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
  if (request.cut_id.empty() || turn->num_run_ == 0) return;
  std::vector<TokenId> tokens = HeldTokens(*turn);
  const TextLayout text = HeldText(request, tokens.size());
  conversations_->Keep(request.tenant, turn->decodes() ? request.cut_id : NewTurnId(""),
                       std::move(turn->session_), std::move(tokens), std::nullopt, text);
}

void Scheduler::Fail(Turn* turn, const Status& status) {
  // The session that it was a fork of would fail the next request alike.
  if (status.code() == StatusCode::kCorruption) conversations_->DropLive(turn->request_.tenant);
  EndQuietly(turn->listener_.get(), status);
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
