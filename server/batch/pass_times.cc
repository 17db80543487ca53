#include "server/batch/pass_times.h"

#include <algorithm>

#include "server/batch/moving_mean.h"

namespace attndb::server {
namespace {

constexpr uint64_t kUnmeasuredShare = 8;

}  // namespace

void PassTimes::Learn(uint64_t num_replies, uint64_t num_prompt_tokens, double seconds) {
  if (num_prompt_tokens == 0) return Average(seconds, &reply_pass_seconds_);
  const double added = seconds - (num_replies > 0 ? reply_pass_seconds_ : 0);
  if (added > 0) Average(added / static_cast<double>(num_prompt_tokens), &prompt_token_seconds_);
}

uint64_t PassTimes::PromptBudget(uint64_t num_replies, uint64_t most, double stall_factor) const {
  if (num_replies == 0) return most;
  if (prompt_token_seconds_ == 0 || reply_pass_seconds_ == 0) {
    return std::max<uint64_t>(most / kUnmeasuredShare, 1);
  }
  const double tokens = (stall_factor - 1) * reply_pass_seconds_ / prompt_token_seconds_;
  const auto wanted = static_cast<uint64_t>(std::min(tokens, static_cast<double>(most)));
  return std::max<uint64_t>(wanted, 1);
}

}  // namespace attndb::server
