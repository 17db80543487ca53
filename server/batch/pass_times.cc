#include "server/batch/pass_times.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "server/batch/moving_mean.h"

namespace attndb::server {
namespace {

constexpr uint64_t kUnmeasuredShare = 8;
constexpr size_t kMostMeasured = 9;
constexpr uint64_t kPassesEach = 3;  // With prompts, for each that is measured without.
constexpr double kPlanned = 0.95;    // Of what the factor leaves: replies deepen before it is seen.
constexpr double kLeast = 0.2;       // The same of what a pass takes now, where less is left,
constexpr double kLeastFactor = 0.1;  // or this, where the factor itself leaves nothing.
constexpr double kChunk = 16;         // Tokens: reading what is before them costs a few.
constexpr double kSavingPasses = 16;  // Save for a chunk, at most.

}  // namespace

bool PassTimes::IsKnown(uint64_t num_replies) const {
  return num_replies == num_replies_ && !reply_seconds_.empty();
}

double PassTimes::ReplyPassSeconds() const {
  std::vector<double> sorted(reply_seconds_.begin(), reply_seconds_.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double PassTimes::RoomOfAPass() const {
  const double now = ReplyPassSeconds();
  const double added = stall_factor_ - 1;
  const double planned = (1 + kPlanned * added) * before_seconds_.value_or(now);
  return std::max(planned - now, std::max(kLeast * added, kLeastFactor) * now);
}

double PassTimes::MostSaved() const {
  return std::max(kSavingPasses * RoomOfAPass(), prompt_token_seconds_);
}

void PassTimes::EndPrompts() {
  before_seconds_.reset();
  saved_seconds_ = 0;
}

void PassTimes::Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds) {
  if (num_prompt_tokens == 0) {
    if (num_replies != num_replies_) {
      reply_seconds_.clear();
      EndPrompts();
    }
    num_replies_ = num_replies;
    reply_seconds_.push_back(seconds);
    if (reply_seconds_.size() > kMostMeasured) reply_seconds_.pop_front();
    num_passes_since_ = 0;
  }
  double added = seconds;
  if (num_replies > 0) {
    if (!IsKnown(num_replies)) return;
    added -= ReplyPassSeconds();
    if (before_seconds_) {
      saved_seconds_ =
          std::clamp(saved_seconds_ + RoomOfAPass() - added, -MostSaved(), MostSaved());
    }
  }
  if (num_prompt_tokens == 0) return;
  if (num_replies > 0) ++num_passes_since_;
  if (added > 0) Average(added / static_cast<double>(num_prompt_tokens), &prompt_token_seconds_);
}

uint64_t PassTimes::PromptBudget(uint64_t num_replies, uint64_t most) {
  if (num_replies == 0) return most;
  if (!IsKnown(num_replies) || num_passes_since_ >= kPassesEach * reply_seconds_.size()) return 0;
  const double now = ReplyPassSeconds();
  before_seconds_ = std::min(before_seconds_.value_or(now), now);
  if (prompt_token_seconds_ == 0) return std::max<uint64_t>(most / kUnmeasuredShare, 1);
  const double tokens = (saved_seconds_ + RoomOfAPass()) / prompt_token_seconds_;
  const double chunk = std::min(
      {kChunk, kSavingPasses * RoomOfAPass() / prompt_token_seconds_, static_cast<double>(most)});
  if (tokens < std::max(chunk, 1.0)) return 0;
  return static_cast<uint64_t>(std::min(tokens, static_cast<double>(most)));
}

}  // namespace attndb::server
