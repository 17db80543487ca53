#include "session/truncation.h"

#include <string>
#include <utility>

#include "session/token_filter.h"

namespace attndb::internal {
namespace {

std::string Text(uint64_t value) { return std::to_string(value); }

// Ranges in order, as few as hold the same tokens.
std::vector<TokenRange> Joined(std::vector<TokenRange> ranges) {
  std::ranges::sort(ranges, {}, &TokenRange::begin);
  std::vector<TokenRange> joined;
  for (const TokenRange& range : ranges) {
    if (!joined.empty() && joined.back().end == range.begin) {
      joined.back().end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// Calls f(range) for the parts of `tokens` outside of `ranges`, which are in order.
template <typename F>
void ForEachOutside(std::span<const TokenRange> ranges, TokenRange tokens, const F& f) {
  uint64_t begin = tokens.begin;
  for (const TokenRange& range : ranges) {
    const uint64_t end = std::min(tokens.end, range.begin);
    if (begin < end) f(TokenRange{begin, end});
    begin = std::max(begin, range.end);
  }
  if (begin < tokens.end) f(TokenRange{begin, tokens.end});
}

}  // namespace

uint64_t Truncation::num_moved() const {
  uint64_t count = 0;
  for (const TokenRange& piece : pieces_) count += piece.end - piece.begin;
  return count;
}

void Truncation::FindPieces() {
  dropped_.clear();
  for (const Cut& cut : cuts_) {
    dropped_.insert(dropped_.end(), cut.dropped.begin(), cut.dropped.end());
  }
  dropped_ = Joined(std::move(dropped_));
  pieces_.clear();
  moves_.clear();
  num_dropped_ = 0;
  for (const TokenRange& range : dropped_) num_dropped_ += range.end - range.begin;
  uint64_t gone = 0;  // Tokens that are gone in front of the piece.
  uint64_t begin = 0;
  for (const TokenRange& range : dropped_) {
    if (begin < range.begin) {
      pieces_.push_back({begin, range.begin});
      moves_.push_back(static_cast<int64_t>(num_dropped_ - gone));
    }
    gone += range.end - range.begin;
    begin = range.end;
  }
}

Status Truncation::Drop(uint64_t n, const DropOptions& options, uint64_t num_tokens) {
  if (n == 0) return Status::Ok();
  // Checks them; a filter of no ranges hides nothing, so that they are not taken from it.
  ATTNDB_RETURN_IF_ERROR(TokenFilter::Of(options.keep, num_tokens).status());
  const uint64_t first_gap = dropped_.empty() ? num_tokens : dropped_.front().begin;
  if (options.keep_first > first_gap) {
    return Status::InvalidArgument("keep_first is " + Text(options.keep_first) +
                                   ", but of the tokens that are attended to only " +
                                   Text(first_gap) + " stand before the first gap");
  }
  const bool takes_sink = options.sink && options.keep_first == 0 && first_gap > 0;
  const uint64_t begin = takes_sink ? 1 : options.keep_first;
  std::vector<TokenRange> left;
  uint64_t available = 0;
  const TokenRange old = {begin, num_tokens == 0 ? 0 : num_tokens - 1};
  ForEachKept(old, [&](TokenRange kept, uint32_t) {
    ForEachOutside(options.keep, kept, [&](TokenRange range) {
      const uint64_t count = std::min(range.end - range.begin, n - std::min(n, available));
      available += range.end - range.begin;
      if (count > 0) left.push_back({range.begin, range.begin + count});
    });
  });
  if (n > available) {
    return Status::InvalidArgument(
        "n is " + Text(n) + ", but of the tokens that are attended to only " + Text(available) +
        " stand between the first " + Text(begin) +
        (options.keep.empty() ? "" : ", outside of keep,") + " and the newest one, which stays");
  }
  Truncation next = *this;
  if (next.cuts_.empty() || next.cuts_.back().at != num_tokens) next.cuts_.push_back({num_tokens});
  if (next.cuts_.size() > kMaxCuts) {
    return Status::ResourceExhausted("tokens have left " + Text(kMaxCuts) +
                                     " times, which is the most; drop more at once");
  }
  std::vector<TokenRange>& dropped = next.cuts_.back().dropped;
  dropped.insert(dropped.end(), left.begin(), left.end());
  dropped = Joined(std::move(dropped));
  next.FindPieces();
  if (next.pieces_.size() > kMaxPieces) {
    return Status::ResourceExhausted("the tokens that are kept would stand in " +
                                     Text(next.pieces_.size()) + " pieces, expected at most " +
                                     Text(kMaxPieces) + ": keep fewer ranges");
  }
  *this = std::move(next);
  return Status::Ok();
}

void Truncation::Crop(uint64_t num_tokens) {
  if (cuts_.empty() || cuts_.back().at <= num_tokens) return;
  std::erase_if(cuts_, [num_tokens](const Cut& cut) { return cut.at > num_tokens; });
  FindPieces();
}

}  // namespace attndb::internal
