#include "simulate/replay.h"

#include <algorithm>
#include <deque>
#include <queue>
#include <vector>

#include "common/check.h"

namespace attndb::tier {
namespace {

constexpr uint64_t kTurnsPerProgress = 1024;

struct Arrival {
  double when = 0;
  uint64_t conversation = 0;
  friend bool operator>(const Arrival& a, const Arrival& b) {
    return a.when != b.when ? a.when > b.when : a.conversation > b.conversation;
  }
};

struct Fetch {
  double ready = 0;
  ItemId id{};
};

// The progress of a conversation.
struct Progress {
  uint32_t next_turn = 0;
  uint64_t tokens = 0;  // Its history, after truncation.
  double queued_at = 0;
};

// A turn's prompt, after truncation to the window.
struct Prompt {
  uint64_t history = 0;
  uint64_t fresh = 0;
  bool overflowed = false;
};

Prompt MakePrompt(uint64_t history, const Turn& turn, uint64_t window) {
  Prompt prompt = {history, std::min<uint64_t>(turn.new_tokens, window), false};
  if (history > 0 && (history >= window || history + prompt.fresh > window)) {
    prompt.overflowed = true;
    prompt.history -= std::min(history, window / 2);
    prompt.history = std::min(prompt.history, window - prompt.fresh);
  }
  return prompt;
}

// A turn as it is served.
struct Job {
  Prompt prompt;
  bool is_hit = false;
  double stall = 0;
  double prefill = 0;
  uint64_t answer = 0;
};

class Engine {
 public:
  Engine(const Workload& workload, const ReplayOptions& options)
      : workload_(workload),
        options_(options),
        placement_(options.policy, options.capacity),
        progress_(workload.conversations.size()) {
    for (uint64_t i = 0; i < workload.conversations.size(); ++i) {
      arrivals_.push({TurnOf(i, 0).not_before, i});
    }
  }

  Result<ReplayCounts> Run() {
    const uint64_t num_turns = workload_.turns.size();
    for (uint64_t done = 0; done < num_turns; ++done) {
      if (done % kTurnsPerProgress == 0 && options_.progress && !options_.progress(done)) {
        return Status::Cancelled("the simulation was cancelled");
      }
      counting_ = done >= options_.warm_up_turns;
      if (placement_.num_queued() == 0) now_ = std::max(now_, arrivals_.top().when);
      ArriveUntil(now_);
      ServeNext();
    }
    if (options_.progress) options_.progress(num_turns);
    return counts_;
  }

 private:
  const Turn& TurnOf(uint64_t conversation, uint32_t turn) const {
    return workload_.turns[workload_.conversations[conversation].first_turn + turn];
  }

  void ArriveUntil(double when) {
    for (; !arrivals_.empty() && arrivals_.top().when <= when; arrivals_.pop()) {
      const Arrival arrival = arrivals_.top();
      progress_[arrival.conversation].queued_at = arrival.when;
      placement_.Enqueue(ItemId{arrival.conversation}, arrival.when);
    }
  }

  void FetchesArrive() {
    for (; !fetches_.empty() && fetches_.front().ready <= now_; fetches_.pop_front()) {
      placement_.Arrived(fetches_.front().id);
    }
  }

  void ServeNext() {
    const std::optional<ItemId> next = placement_.Next();
    ATTNDB_CHECK(next.has_value());
    FetchesArrive();
    placement_.Expire(now_, &moves_);
    const auto conversation = static_cast<uint64_t>(*next);
    const Turn& turn = TurnOf(conversation, progress_[conversation].next_turn);
    const Found found = placement_.Take(*next, now_, &moves_);
    const ServiceModel& service = options_.service;
    Job job;
    job.prompt = MakePrompt(progress_[conversation].tokens, turn, service.window_tokens);
    job.is_hit =
        found.tier != Tier::kNone && !(job.prompt.overflowed && service.recompute_overflow);
    const double whole_stall = StallOf(*next, found);  // Ends the fetch that was under way.
    job.stall = job.is_hit ? whole_stall : 0;
    const uint64_t computed = job.prompt.fresh + (job.is_hit ? 0 : job.prompt.history);
    job.prefill = static_cast<double>(computed) * service.prefill_seconds_per_token;
    const uint64_t prompt_tokens = job.prompt.history + job.prompt.fresh;
    job.answer = std::min<uint64_t>(turn.answer_tokens, service.window_tokens - prompt_tokens);
    FetchAhead();
    if (counting_) Count(progress_[conversation], job, found);
    const double end = now_ + job.stall + job.prefill + service.decode_seconds;
    ArriveUntil(end);  // They are in the queue when the turn is saved.
    if (counting_) counts_.seconds += end - (counts_.turns == 1 ? now_ : last_end_);
    last_end_ = now_ = end;
    progress_[conversation].tokens = prompt_tokens + job.answer;
    Finish(conversation);
  }

  // Seconds until the KV that was found has been read.
  double StallOf(ItemId id, const Found& found) {
    if (found.tier != Tier::kDisk) return 0;
    const double whole =
        static_cast<double>(found.bytes) / options_.service.disk_read_bytes_per_second;
    if (!found.in_transfer) return whole;
    const auto fetch = std::find_if(fetches_.begin(), fetches_.end(),
                                    [&](const Fetch& each) { return each.id == id; });
    ATTNDB_CHECK(fetch != fetches_.end());
    const double rest = std::min(whole, fetch->ready - now_);
    fetches_.erase(fetch);
    return rest;
  }

  void FetchAhead() {
    const size_t before = moves_.size();
    placement_.Prefetch(now_, &moves_);
    for (size_t i = before; i < moves_.size(); ++i) {
      const Move& move = moves_[i];
      if (move.from != Tier::kDisk || move.to != Tier::kMemory) continue;
      channel_free_ = std::max(now_, channel_free_) +
                      static_cast<double>(move.bytes) / options_.service.disk_read_bytes_per_second;
      fetches_.push_back({channel_free_, move.item});
    }
  }

  void Count(const Progress& progress, const Job& job, const Found& found) {
    counts_.turns += 1;
    const double wait = now_ - progress.queued_at;
    counts_.wait_seconds += wait;
    if (progress.next_turn > 0) {
      counts_.return_turns += 1;
    } else {
      counts_.first_wait_seconds += wait;
      counts_.longest_first_wait_seconds = std::max(counts_.longest_first_wait_seconds, wait);
    }
    counts_.queued_jobs += static_cast<double>(placement_.num_queued());
    counts_.prompt_tokens += job.prompt.history + job.prompt.fresh;
    counts_.answer_tokens += job.answer;
    if (job.prompt.overflowed) counts_.overflows += 1;
    counts_.stall_seconds += job.stall;
    counts_.prefill_seconds += job.prefill;
    counts_.decode_seconds += options_.service.decode_seconds;
    if (!job.is_hit) return;
    counts_.reused_tokens += job.prompt.history;
    (found.tier == Tier::kMemory ? counts_.memory_hits : counts_.disk_hits) += 1;
    if (found.tier == Tier::kDisk && !found.in_transfer) counts_.stalled_bytes += found.bytes;
  }

  void Finish(uint64_t conversation) {
    FetchesArrive();
    Progress& progress = progress_[conversation];
    progress.next_turn += 1;
    const ItemId id{conversation};
    double next_use = kNever;
    if (progress.next_turn < workload_.conversations[conversation].num_turns) {
      const Turn& turn = TurnOf(conversation, progress.next_turn);
      next_use = std::max(turn.not_before, now_ + static_cast<double>(turn.pause));
      arrivals_.push({next_use, conversation});
    }
    placement_.SetNextUse(id, next_use);
    const ServiceModel& service = options_.service;
    const uint64_t bytes = SavedTokens(options_.policy, progress.tokens, service.window_tokens) *
                           service.kv_bytes_per_token;
    placement_.Save(id, bytes, now_, &moves_);
    if (counting_) CountMoves(bytes);
    moves_.clear();
  }

  void CountMoves(uint64_t saved_bytes) {
    counts_.saves += 1;
    counts_.saved_bytes += saved_bytes;
    for (const Move& move : moves_) {
      if (move.to == Tier::kDisk) counts_.demoted_bytes += move.bytes;
      if (move.from == Tier::kDisk && move.to == Tier::kMemory) {
        counts_.fetched_bytes += move.bytes;
      }
    }
  }

  const Workload& workload_;
  const ReplayOptions& options_;
  Placement placement_;
  std::vector<Progress> progress_;  // By conversation.
  std::priority_queue<Arrival, std::vector<Arrival>, std::greater<>> arrivals_;
  std::deque<Fetch> fetches_;  // In the order in which they end.
  Moves moves_;                // The moves of the served turn.
  double now_ = 0;
  double last_end_ = 0;
  double channel_free_ = 0;
  bool counting_ = false;
  ReplayCounts counts_;
};

}  // namespace

Result<ReplayCounts> Replay(const Workload& workload, const ReplayOptions& options) {
  return Engine(workload, options).Run();
}

}  // namespace attndb::tier
