// The tokens of a session that its calls attend to: ranges of the tokens that it held when the
// filter was set, and all later tokens.
//
// Threads: a value.
#ifndef ATTNDB_SESSION_TOKEN_FILTER_H_
#define ATTNDB_SESSION_TOKEN_FILTER_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"

namespace attndb::internal {

class TokenFilter {
 public:
  TokenFilter() = default;  // Hides nothing.
  // An empty list hides nothing.
  // Errors: kInvalidArgument (a range is empty, runs backwards, does not follow the one before, or
  //         goes beyond num_tokens).
  static Result<TokenFilter> Of(std::span<const TokenRange> ranges, uint64_t num_tokens);

  bool hides() const { return end_ > 0; }
  std::span<const TokenRange> ranges() const { return ranges_; }
  // All tokens from this one on are visible.
  uint64_t end() const { return end_; }

  // Calls f(range) for each visible part of `tokens`, in order.
  template <typename F>
  void ForEachSeen(TokenRange tokens, const F& f) const {
    const auto seen = [&](TokenRange range) {
      const TokenRange part = {std::max(tokens.begin, range.begin),
                               std::min(tokens.end, range.end)};
      if (part.begin < part.end) f(part);
    };
    for (const TokenRange& range : ranges_) seen(range);
    seen({end_, tokens.end});
  }
  uint64_t NumSeen(TokenRange tokens) const {
    uint64_t count = 0;
    ForEachSeen(tokens, [&count](TokenRange part) { count += part.end - part.begin; });
    return count;
  }

  // Index of the i-th visible token.
  uint64_t SeenToken(uint64_t i) const {
    for (const TokenRange& range : ranges_) {
      if (i < range.end - range.begin) return range.begin + i;
      i -= range.end - range.begin;
    }
    return end_ + i;
  }

  // Follows the session's Crop. Tokens that are appended afterwards are visible.
  void Crop(uint64_t num_tokens);

 private:
  std::vector<TokenRange> ranges_;  // In order, not adjacent, up to end_.
  uint64_t end_ = 0;
};

}  // namespace attndb::internal

#endif  // ATTNDB_SESSION_TOKEN_FILTER_H_
