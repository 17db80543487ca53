// Scheduler: which tokens of which turns a pass runs.
#include <algorithm>
#include <string>
#include <utility>

#include "engines/llama/reply.h"
#include "engines/llama/window.h"
#include "server/batch/scheduler.h"

namespace attndb::server {
namespace {

constexpr uint64_t kMostPassesBetween =
    64;  // Those that take tokens of a prompt: shorter ones wait.
// Tokens that are worth a pass's wait, or a fork. The first words of a chat template are fewer.
constexpr uint64_t kWorthSharing = 32;

// The first tokens of both prompts that `turn` can go on from once `other` has read them: those
// before any token leaves the window of either turn.
uint64_t SharedTokens(const TurnRequest& other, const Session& session, const TurnRequest& turn) {
  if (other.tenant != turn.tenant || !other.is_kept || !turn.is_kept) return 0;
  uint64_t most = turn.prompt.size() - 1;
  for (const TurnRequest* const request : {&other, &turn}) {
    const uint64_t window = request->generate.prefill.window.window_tokens;
    if (window > 0) most = std::min(most, window - 1);
  }
  if (!session.cuts().empty()) most = std::min(most, session.cuts().front().at - 1);
  return std::min<uint64_t>(most, CommonLength(other.prompt, turn.prompt));
}

}  // namespace

// Notes what the turns before this one have, or will have, of its prompt.
void Scheduler::FindBeginnings(Turn* turn) const {
  if (!turn->request_.left_out.empty()) return;  // Its session has lost them, no other one has.
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
  const TurnRequest& request = turn->request_;
  if (turn->num_run_ > 0 || !request.is_kept || !request.left_out.empty()) return false;
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

bool Scheduler::Pause(Turn* turn) {
  turn->awaited_ = conversations_->PendingStores();
  return !turn->awaited_.empty();
}

// Turns that waited for a Store try again once it has ended.
void Scheduler::ResumeTurns() {
  for (const std::shared_ptr<Turn>& turn : active_) {
    const auto is_done = [](const PendingStore& store) { return store.done(); };
    if (std::ranges::any_of(turn->awaited_, is_done)) turn->awaited_.clear();
  }
}

std::vector<Scheduler::Part> Scheduler::MakeParts() {
  ResumeTurns();
  EndDone();
  SettleLate();
  std::vector<Part> parts;
  AddReplyParts(&parts);
  AddPromptParts(&parts);
  return parts;
}

void Scheduler::AddReplyParts(std::vector<Part>* parts) {
  for (auto next = active_.begin(); next != active_.end();) {
    Turn* const turn = (next++)->get();  // Fail removes it.
    if (!turn->decodes() || !turn->awaited_.empty() || turn->settles_) continue;
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

}  // namespace attndb::server
