#include "store/merge_policy.h"

#include <algorithm>

namespace attndb::store {
namespace {

bool IsSmall(const MergeLink& link, uint64_t small_tokens = kSmallTokens) {
  return link.mergeable && link.num_tokens < small_tokens;
}

bool IsShared(const MergeLink& link) { return link.num_contexts > 1; }

// The run [begin, end) that the counting rule merges, if it merges any.
std::optional<MergeChoice> ChooseRun(std::span<const MergeLink> chain, size_t end) {
  size_t begin = end - 1;
  uint64_t num_tokens = chain[begin].num_tokens;
  bool shared = IsShared(chain[begin]);
  while (begin > 0 && IsSmall(chain[begin - 1]) &&
         (chain[begin - 1].num_tokens <= num_tokens || IsShared(chain[begin - 1]))) {
    --begin;
    num_tokens += chain[begin].num_tokens;
    shared = shared || IsShared(chain[begin]);
  }
  const size_t length = end - begin;
  if (length < 2 || (shared && length < kMinSharedRun)) return std::nullopt;
  return MergeChoice{begin, end};
}

}  // namespace

std::optional<MergeChoice> ChooseMerge(std::span<const MergeLink> chain) {
  for (size_t end = chain.size(); end > 1 && IsSmall(chain[end - 1]); --end) {
    if (const std::optional<MergeChoice> choice = ChooseRun(chain, end)) return choice;
  }
  return std::nullopt;
}

std::vector<MergeChoice> ChooseThoroughMerges(std::span<const MergeLink> chain,
                                              const CompactRule& rule) {
  std::vector<MergeChoice> choices;
  size_t end = 0;
  for (size_t begin = 0; begin < chain.size(); begin = end) {
    uint64_t num_tokens = 0;
    for (end = begin; end < chain.size(); ++end) {
      const MergeLink& link = chain[end];
      if (!IsSmall(link, rule.small_tokens) || link.num_contexts != chain[begin].num_contexts ||
          link.num_tokens > rule.max_tokens - num_tokens) {
        break;
      }
      num_tokens += link.num_tokens;
    }
    if (end - begin >= 2) choices.push_back({begin, end});
    end = std::max(end, begin + 1);
  }
  return choices;
}

}  // namespace attndb::store
