#include "db/merge_policy.h"

#include <algorithm>

namespace attndb::internal {
namespace {

bool IsSmall(const MergeLink& link) { return link.mergeable && link.num_tokens < kSmallTokens; }

}  // namespace

std::optional<MergeChoice> ChooseMerge(std::span<const MergeLink> chain) {
  if (chain.empty() || !IsSmall(chain.back())) return std::nullopt;
  size_t begin = chain.size() - 1;
  uint64_t num_tokens = chain[begin].num_tokens;
  bool shared = chain[begin].shared;
  while (begin > 0 && IsSmall(chain[begin - 1]) &&
         (chain[begin - 1].num_tokens <= num_tokens || chain[begin - 1].shared)) {
    --begin;
    num_tokens += chain[begin].num_tokens;
    shared = shared || chain[begin].shared;
  }
  const size_t length = chain.size() - begin;
  if (length < 2 || (shared && length < kMinSharedRun)) return std::nullopt;
  return MergeChoice{begin, chain.size()};
}

std::optional<MergeChoice> ChooseThoroughMerge(std::span<const MergeLink> chain) {
  for (size_t begin = 0; begin < chain.size(); ++begin) {
    size_t end = begin;
    while (end < chain.size() && IsSmall(chain[end])) ++end;
    if (end - begin >= 2) return MergeChoice{begin, end};
    begin = std::max(begin, end);
  }
  return std::nullopt;
}

}  // namespace attndb::internal
