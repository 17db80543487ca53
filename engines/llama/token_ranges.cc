#include "engines/llama/token_ranges.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <system_error>

namespace attndb::llama {
namespace {

constexpr uint64_t kFirstTokens = 4;

// The whole text as one number.
std::optional<uint64_t> NumberIn(std::string_view text) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

Result<std::vector<TokenRange>> ParseTokenRanges(std::string_view text) {
  std::vector<TokenRange> ranges;
  std::string_view rest = text;
  for (bool more = !text.empty(); more;) {
    const size_t comma = rest.find(',');
    const std::string_view item = rest.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);
    const size_t dash = std::min(item.find('-'), item.size());
    const std::optional<uint64_t> begin = NumberIn(item.substr(0, dash));
    const std::optional<uint64_t> end = NumberIn(item.substr(std::min(dash + 1, item.size())));
    const uint64_t last_end = ranges.empty() ? 0 : ranges.back().end;
    if (!begin || !end || *begin >= *end || *begin < last_end) {
      return Status::InvalidArgument("tokens '" + std::string(text) +
                                     "', expected ranges in order that do not overlap, as in "
                                     "0-800,1200-1500");
    }
    ranges.push_back({*begin, *end});
  }
  return ranges;
}

std::vector<TokenRange> WithFirstTokens(std::vector<TokenRange> ranges) {
  if (ranges.empty()) return ranges;
  TokenRange& first = ranges.front();
  if (first.begin <= kFirstTokens) {
    first = {0, std::max(first.end, kFirstTokens)};
  } else {
    ranges.insert(ranges.begin(), {0, kFirstTokens});
  }
  // A first range of fewer tokens may have grown into the next ones.
  while (ranges.size() > 1 && ranges[1].begin <= ranges[0].end) {
    ranges[0].end = std::max(ranges[0].end, ranges[1].end);
    ranges.erase(ranges.begin() + 1);
  }
  return ranges;
}

}  // namespace attndb::llama
