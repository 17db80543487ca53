#include "index/graph/neighbour_pruner.h"

#include <numeric>

#include "index/graph/ordered_score.h"
#include "kernels/convert.h"
#include "kernels/score.h"

namespace attndb::index {
NeighbourPruner::NeighbourPruner(const kernels::RowsView& keys)
    : keys_(keys), row_(keys.num_elements) {}

void NeighbourPruner::Score(uint32_t key, std::span<const uint32_t> others) {
  kernels::LoadRows(keys_, key, 1, row_.data());
  scores_.resize(others.size());
  kernels::ScoreGather(keys_, others.data(), others.size(), row_.data(), row_.size(), 1,
                       scores_.data(), others.size());
  for (float& score : scores_) score = Ordered(score);
}

const std::vector<uint32_t>& NeighbourPruner::Choose(uint32_t key,
                                                     std::span<const uint32_t> candidates,
                                                     size_t max_kept, bool fills) {
  Score(key, candidates);
  order_.resize(candidates.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::sort(order_.begin(), order_.end(), [&](uint32_t a, uint32_t b) {
    return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : candidates[a] < candidates[b];
  });
  open_.clear();
  of_open_.clear();
  for (uint32_t& place : order_) {
    of_open_.push_back(scores_[place]);
    place = candidates[place];
    open_.push_back(place);
  }
  kept_.clear();
  while (!open_.empty() && kept_.size() < max_kept) {
    kept_.push_back(open_.front());
    PassOver(open_.front());
  }
  for (size_t i = 0; fills && i < order_.size() && kept_.size() < max_kept; ++i) {
    if (std::ranges::find(kept_, order_[i]) == kept_.end()) kept_.push_back(order_[i]);
  }
  return kept_;
}

void NeighbourPruner::PassOver(uint32_t chosen) {
  Score(chosen, open_);
  size_t count = 0;
  for (size_t i = 1; i < open_.size(); ++i) {
    if (scores_[i] > of_open_[i]) continue;
    open_[count] = open_[i];
    of_open_[count++] = of_open_[i];
  }
  open_.resize(count);
  of_open_.resize(count);
}

}  // namespace attndb::index
