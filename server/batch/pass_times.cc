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
constexpr double kPlanned = 0.8;     // Share of what the factor leaves: passes vary.
constexpr double kLeast = 0.25;      // The same of what a pass takes now, where less is left.

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

void PassTimes::Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds) {
  if (num_prompt_tokens == 0) {
    if (num_replies != num_replies_) {
      reply_seconds_.clear();
      before_seconds_.reset();
    }
    num_replies_ = num_replies;
    reply_seconds_.push_back(seconds);
    if (reply_seconds_.size() > kMostMeasured) reply_seconds_.pop_front();
    num_passes_since_ = 0;
    return;
  }
  double added = seconds;
  if (num_replies > 0) {
    if (!IsKnown(num_replies)) return;
    ++num_passes_since_;
    added -= ReplyPassSeconds();
  }
  if (added > 0) Average(added / static_cast<double>(num_prompt_tokens), &prompt_token_seconds_);
}

uint64_t PassTimes::PromptBudget(uint64_t num_replies, uint64_t most, double stall_factor) {
  if (num_replies == 0) return most;
  if (!IsKnown(num_replies) || num_passes_since_ >= kPassesEach * reply_seconds_.size()) return 0;
  const double now = ReplyPassSeconds();
  before_seconds_ = std::min(before_seconds_.value_or(now), now);
  if (prompt_token_seconds_ == 0) return std::max<uint64_t>(most / kUnmeasuredShare, 1);
  const double planned = (1 + kPlanned * (stall_factor - 1)) * *before_seconds_;
  const double room = std::max(planned - now, kLeast * (stall_factor - 1) * now);
  const double tokens = room / prompt_token_seconds_;
  const auto wanted = static_cast<uint64_t>(std::min(tokens, static_cast<double>(most)));
  return std::max<uint64_t>(wanted, 1);
}

}  // namespace attndb::server
