#include "server/batch/scheduler.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <functional>
#include <iterator>
#include <new>
#include <numeric>
#include <string>
#include <utility>

namespace attndb::server {
namespace {

// How many turns may begin before one that came earlier and waits for places for all its choices.
constexpr uint32_t kMaxOvertakes = 64;
constexpr std::chrono::milliseconds kStorePoll{5};  // How often it looks whether stores have ended.
// How long a pass waits for the grammars of its replies. An answer takes some 50 us if the token is
// allowed, and some milliseconds if not.
constexpr std::chrono::milliseconds kSettleWait{2};

// The error that a listener gets for an exception.
Status StatusOf(const std::exception& e) {
  if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) {
    return Status::ResourceExhausted("no memory for the request");
  }
  return Status::Internal(std::string(e.what()) + "; this is a bug of attndb");
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
  if (turn->choices().size() >= max_replies()) {
    return Status::InvalidArgument("more choices than a pass has places for");
  }
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

// A pass takes a token of each.
size_t Scheduler::max_replies() const {
  return std::min(engine_->options().max_sessions, engine_->options().ubatch_tokens);
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
  for (const std::shared_ptr<Turn>& turn : waiting) EndQuietly(*turn, stopped);
}

void Scheduler::RunOnce() {
  RemoveCancelled();
  const std::vector<Part> parts = MakeParts();
  if (!parts.empty()) {
    Run(parts);
  } else if (!active_.empty()) {
    AwaitOthers();
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
  EndQuietly(*turn, status);
  Remove(turn);
}

// The places of turns that are under way, those of choices that have not begun included.
size_t Scheduler::NumPlacesTaken() const {
  size_t num_taken = 0;
  for (const std::shared_ptr<Turn>& turn : active_) num_taken += 1 + turn->choices_.size();
  return num_taken;
}

// Waits for something to do. False: it is to stop.
bool Scheduler::TakeTurns() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock,
                [this] { return stopping_ || woken_ || !active_.empty() || !waiting_.empty(); });
  woken_ = false;
  size_t num_free = max_replies() - NumPlacesTaken();
  std::vector<Turn*> taken;
  for (auto next = waiting_.begin(); next != waiting_.end() && num_free > 0;) {
    Turn* const turn = next->get();
    if (1 + turn->choices_.size() > num_free) {
      if (turn->num_overtaken_ == kMaxOvertakes) break;
      ++next;
      continue;
    }
    for (auto before = waiting_.begin(); before != next; ++before) ++(*before)->num_overtaken_;
    num_free -= 1 + turn->choices_.size();
    active_.push_back(std::move(*next));
    next = waiting_.erase(next);
    taken.push_back(turn);
  }
  num_active_ = active_.size();
  const bool goes_on = !stopping_;
  lock.unlock();
  for (Turn* const turn : taken) FindBeginnings(turn);
  return goes_on;
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
  const auto begin =
      std::stable_partition(waiting_.begin(), waiting_.end(),
                            [](const std::shared_ptr<Turn>& turn) { return !turn->cancelled(); });
  std::move(begin, waiting_.end(), std::back_inserter(gone));
  waiting_.erase(begin, waiting_.end());
}

// All turns wait, for stores or grammars: for a while, or until there is something else to do.
// While it waits for grammars, it sees only afterwards what other threads want.
void Scheduler::AwaitOthers() {
  std::vector<pollfd> answers = AwaitedAnswers(/*with_late=*/true);
  if (!answers.empty()) {
    poll(answers.data(), answers.size(), static_cast<int>(kStorePoll.count()));
    return;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, kStorePoll, [this] { return stopping_ || woken_; });
}

// The parts in the order in which their turns take what the pass gave: replies under grammars
// first, whose processes then check while the others sample.
std::vector<size_t> Scheduler::InOrder(std::span<const Part> parts) {
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_partition(order.begin(), order.end(), [parts](size_t i) {
    return parts[i].turn->request_.generate.constraint.has_value();
  });
  return order;
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
  for (const size_t i : InOrder(parts)) {
    if (!statuses[i].ok()) {
      failed.push_back(parts[i]);
    } else {
      Advance(parts[i], i, &done);
    }
  }
  SettleReplies(kSettleWait, &done);
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
      std::vector<Turn*> done;
      Advance(part, 0, &done);
      for (Turn* const turn : done) GuardedLeave(turn);
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

}  // namespace attndb::server
