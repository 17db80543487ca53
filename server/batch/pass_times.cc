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
constexpr double kPlanned = 0.95;  // Share of the factor's room: replies deepen before it is seen.
constexpr double kLeast = 0.2;     // The same of what a pass takes now, where less is left,
constexpr double kLeastAdded = 0.1;  // and at least this part of a pass, whatever the factor.
constexpr double kChunk = 16;        // Tokens: reading what is before them costs a few.
constexpr double kSavingPasses = 16;
constexpr double kMostDearer = 4;  // Than the mean, what a pass counts for.

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
  return std::max(planned - now, std::max(kLeast * added, kLeastAdded) * now);
}

void PassTimes::EndPrompts() {
  before_seconds_.reset();
  saved_seconds_ = 0;
}

void PassTimes::LearnTokens(uint64_t num_tokens, double seconds) {
  if (seconds <= 0) return;
  double each = seconds / static_cast<double>(num_tokens);
  if (prompt_token_seconds_ > 0) each = std::min(each, kMostDearer * prompt_token_seconds_);
  Average(each, &prompt_token_seconds_);
}

void PassTimes::Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds) {
  if (num_replies == 0) {
    reply_seconds_.clear();  // Those that come will be others.
    EndPrompts();
    return LearnTokens(num_prompt_tokens, seconds);
  }
  if (num_prompt_tokens == 0) {
    if (num_replies != num_replies_) {
      reply_seconds_.clear();
      before_seconds_.reset();
    }
    num_replies_ = num_replies;
    reply_seconds_.push_back(seconds);
    if (reply_seconds_.size() > kMostMeasured) reply_seconds_.pop_front();
    num_passes_since_ = 0;
  }
  if (!IsKnown(num_replies)) return;
  const double added = seconds - ReplyPassSeconds();
  if (before_seconds_) {
    const double room = RoomOfAPass();
    const double most = std::max(kSavingPasses * room, prompt_token_seconds_);
    saved_seconds_ = std::clamp(saved_seconds_ + room - added, -most, most);
  }
  if (num_prompt_tokens == 0) return;
  ++num_passes_since_;
  LearnTokens(num_prompt_tokens, added);
}

PromptRoom PassTimes::Room(uint64_t num_replies, uint64_t most, double tpot_seconds) {
  if (most == 0) {
    EndPrompts();
    return {};
  }
  if (num_replies == 0) return {.tokens = most};
  if (!IsKnown(num_replies) || num_passes_since_ >= kPassesEach * reply_seconds_.size()) return {};
  const double now = ReplyPassSeconds();
  before_seconds_ = std::min(before_seconds_.value_or(now), now);
  if (prompt_token_seconds_ == 0) {
    return {.tokens = std::max<uint64_t>(most / kUnmeasuredShare, 1)};
  }
  const double room = RoomOfAPass();
  const auto tokens_in = [this](double seconds) { return seconds / prompt_token_seconds_; };
  double tokens = std::min(tokens_in(saved_seconds_ + room), static_cast<double>(most));
  double chunk = std::min(kChunk, tokens_in(kSavingPasses * room));
  if (tpot_seconds > now) {  // Where replies alone take longer, waiting would bring nothing.
    const double wished = std::max(tokens_in(tpot_seconds - now), 1.0);
    tokens = std::min(tokens, wished);
    chunk = std::min(chunk, wished);
  }
  return {.tokens = static_cast<uint64_t>(std::max(tokens, 0.0)),
          .chunk = static_cast<uint64_t>(std::max(chunk, 1.0))};
}

}  // namespace attndb::server
