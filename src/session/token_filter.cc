#include "session/token_filter.h"

#include <string>

#include "attndb/units.h"

namespace attndb::internal {
namespace {

std::string Text(TokenRange range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

}  // namespace

Result<TokenFilter> TokenFilter::Of(std::span<const TokenRange> ranges, uint64_t num_tokens) {
  TokenFilter filter;
  uint64_t end = 0;
  for (const TokenRange& range : ranges) {
    const std::string what = "token range " + Text(range);
    if (range.begin >= range.end) {
      return Status::InvalidArgument(what + " holds no token; expected begin < end");
    }
    if (range.begin < end) {
      return Status::InvalidArgument(what + " begins before the end of the one in front of it, " +
                                     std::to_string(end) + "; expected ranges in order");
    }
    if (range.end > num_tokens) {
      return Status::InvalidArgument(what + " goes beyond the " + Counted(num_tokens, "token") +
                                     " that the session holds");
    }
    end = range.end;
    filter.ranges_.push_back(range);
  }
  if (!ranges.empty()) filter.end_ = num_tokens;
  return filter;
}

void TokenFilter::Crop(uint64_t num_tokens) {
  if (num_tokens >= end_) return;
  end_ = num_tokens;
  std::erase_if(ranges_, [=](const TokenRange& range) { return range.begin >= num_tokens; });
  if (!ranges_.empty()) ranges_.back().end = std::min(ranges_.back().end, num_tokens);
}

}  // namespace attndb::internal
