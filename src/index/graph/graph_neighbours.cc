#include "index/graph/graph_neighbours.h"

#include <algorithm>

namespace attndb::index {
namespace {

constexpr size_t kCandidates = 200;

// These numbers sort by farness, then by id.
constexpr uint32_t kSignBit = uint32_t{1} << 31;
uint64_t RankOf(int32_t farness, uint32_t id) {
  return uint64_t{static_cast<uint32_t>(farness) ^ kSignBit} << 32 | id;
}
uint32_t IdOf(uint64_t rank) { return static_cast<uint32_t>(rank); }
int32_t FarnessOf(uint64_t rank) {
  return static_cast<int32_t>(static_cast<uint32_t>(rank >> 32) ^ kSignBit);
}

}  // namespace

void ListCompanions::Find(const NearestLists& nearest, std::span<const uint32_t> lists,
                          uint32_t key, std::vector<uint32_t>* found) {
  found->clear();
  for (const uint32_t list : lists) {
    for (const uint32_t other : nearest.list(list)) {
      if (counts_[other]++ == 0) found->push_back(other);
    }
  }
  counts_[key] = 0;
  std::erase(*found, key);
  if (found->size() > kCandidates) KeepMostCounted(kCandidates, found);
  for (const uint32_t other : *found) counts_[other] = 0;
}

void ListCompanions::KeepMostCounted(size_t num_kept, std::vector<uint32_t>* found) {
  std::ranges::fill(of_count_, 0);
  for (const uint32_t key : *found) ++of_count_[counts_[key]];
  size_t least = of_count_.size();  // Keys that are counted so often, or more, are all kept.
  size_t num_more = num_kept;       // Keys counted once less that are kept, too.
  while (of_count_[least - 1] < num_more) num_more -= of_count_[--least];
  size_t num_left = 0;
  for (const uint32_t key : *found) {
    const size_t count = counts_[key];
    if (count >= least || (count + 1 == least && num_more > 0)) {
      if (count < least) --num_more;
      (*found)[num_left++] = key;
    } else {
      counts_[key] = 0;
    }
  }
  found->resize(num_left);
}

void NeighbourChooser::Rank(uint32_t key, std::span<const uint32_t> candidates) {
  dots_.resize(candidates.size());
  codes_->Dots(key, candidates, dots_.data());
  ranked_.clear();
  for (size_t i = 0; i < candidates.size(); ++i) {
    ranked_.push_back(RankOf(codes_->norm(candidates[i]) - 2 * dots_[i], candidates[i]));
  }
  std::sort(ranked_.begin(), ranked_.end());
  from_key_.clear();
  open_.clear();
  open_rank_.clear();
  for (const uint64_t rank : ranked_) {
    open_rank_.push_back(static_cast<uint32_t>(open_.size()));
    open_.push_back(IdOf(rank));
    from_key_.push_back(FarnessOf(rank) - codes_->norm(IdOf(rank)) + codes_->norm(key));
  }
}

void NeighbourChooser::HideBehindFirst() {
  const uint32_t first = open_[0];
  codes_->Dots(first, std::span(open_).subspan(1), dots_.data());
  size_t num_open = 0;
  for (size_t i = 1; i < open_.size(); ++i) {
    const uint32_t rank = open_rank_[i];
    if (codes_->norm(first) - 2 * dots_[i - 1] < from_key_[rank]) {
      hidden_.push_back(ranked_[rank]);
      continue;
    }
    open_[num_open] = open_[i];
    open_rank_[num_open++] = rank;
  }
  open_.resize(num_open);
  open_rank_.resize(num_open);
}

const std::vector<uint32_t>& NeighbourChooser::Choose(uint32_t key, size_t max_kept,
                                                      std::span<const uint32_t> candidates) {
  Rank(key, candidates);
  hidden_.clear();
  kept_.clear();
  while (!open_.empty() && kept_.size() < max_kept) {
    kept_.push_back(open_[0]);
    HideBehindFirst();
  }
  const size_t num_more = std::min(max_kept - kept_.size(), hidden_.size());
  std::partial_sort(hidden_.begin(), hidden_.begin() + static_cast<ptrdiff_t>(num_more),
                    hidden_.end());
  for (size_t i = 0; i < num_more; ++i) kept_.push_back(IdOf(hidden_[i]));
  return kept_;
}

}  // namespace attndb::index
