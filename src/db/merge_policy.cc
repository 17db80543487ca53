#include "db/merge_policy.h"

#include <algorithm>

namespace attndb::internal {
namespace {

bool IsSmall(const MergeLink& link) { return link.mergeable && link.num_tokens < kSmallTokens; }

bool IsShared(const MergeLink& link) { return link.num_contexts > 1; }

}  // namespace

std::optional<MergeChoice> ChooseMerge(std::span<const MergeLink> chain) {
  if (chain.empty() || !IsSmall(chain.back())) return std::nullopt;
  size_t begin = chain.size() - 1;
  uint64_t num_tokens = chain[begin].num_tokens;
  bool shared = IsShared(chain[begin]);
  while (begin > 0 && IsSmall(chain[begin - 1]) &&
         (chain[begin - 1].num_tokens <= num_tokens || IsShared(chain[begin - 1]))) {
    --begin;
    num_tokens += chain[begin].num_tokens;
    shared = shared || IsShared(chain[begin]);
  }
  const size_t length = chain.size() - begin;
  if (length < 2 || (shared && length < kMinSharedRun)) return std::nullopt;
  return MergeChoice{begin, chain.size()};
}

std::optional<MergeChoice> ChooseThoroughMerge(std::span<const MergeLink> chain) {
  for (size_t begin = 0; begin < chain.size(); ++begin) {
    size_t end = begin;
    while (end < chain.size() && IsSmall(chain[end]) &&
           chain[end].num_contexts == chain[begin].num_contexts) {
      ++end;
    }
    if (end - begin >= 2) return MergeChoice{begin, end};
    if (end > begin) begin = end - 1;
  }
  return std::nullopt;
}

}  // namespace attndb::internal
