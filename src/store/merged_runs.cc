#include "store/merged_runs.h"

#include <algorithm>
#include <utility>

namespace attndb::store {
namespace {

using storage::ChainEntry;

bool Holds(const ChainEntry& entry, const ChainLink& link) {
  return static_cast<SegmentId>(entry.segment->id()) == link.segment && entry.first_token == 0;
}

// Whether the chain begins with the run. REQUIRES: the chain has at least as many entries.
bool HoldsRun(std::span<const ChainEntry> chain, std::span<const ChainLink> run) {
  for (size_t i = 0; i < run.size(); ++i) {
    const bool is_last = i + 1 == run.size();
    const uint64_t num_tokens = chain[i].num_tokens_used;
    const bool fits =
        num_tokens == run[i].num_tokens_used || (is_last && num_tokens < run[i].num_tokens_used);
    if (!Holds(chain[i], run[i]) || !fits) return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<ChainEntry>> ReplaceRun(std::span<const ChainEntry> chain,
                                                  const MergedRun& merged) {
  const size_t length = merged.run.size();
  for (size_t begin = 0; begin + length <= chain.size(); ++begin) {
    if (!HoldsRun(chain.subspan(begin), merged.run)) continue;
    uint64_t num_tokens = 0;
    for (const ChainEntry& entry : chain.subspan(begin, length)) {
      num_tokens += entry.num_tokens_used;
    }
    std::vector<ChainEntry> renewed(chain.begin(), chain.begin() + static_cast<ptrdiff_t>(begin));
    renewed.push_back({merged.merged, num_tokens});
    const std::span<const ChainEntry> rest = chain.subspan(begin + length);
    renewed.insert(renewed.end(), rest.begin(), rest.end());
    return renewed;
  }
  return std::nullopt;
}

void MergedRuns::Add(MergedRun run) {
  {
    MutexLock lock(&mutex_);
    runs_.push_back(std::move(run));
    num_added_.fetch_add(1, std::memory_order_release);
  }
  Announce();
}

void MergedRuns::Announce() const {
  if (changed_ && num_added_.load(std::memory_order_relaxed) > 0) changed_();
}

size_t MergedRuns::Forget(const Test& test) {
  MutexLock lock(&mutex_);
  return std::erase_if(runs_, test);
}

std::optional<std::vector<ChainEntry>> MergedRuns::Renew(std::span<const ChainEntry> chain) const {
  std::optional<std::vector<ChainEntry>> renewed;
  MutexLock lock(&mutex_);
  for (const MergedRun& run : runs_) {
    std::optional<std::vector<ChainEntry>> next = ReplaceRun(renewed ? *renewed : chain, run);
    if (next && is_ready_(run)) renewed = std::move(next);
  }
  return renewed;
}

}  // namespace attndb::store
