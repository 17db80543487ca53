#include "index/coarse/wave_search.h"

#include <algorithm>
#include <cmath>

#include "common/infinity.h"
#include "common/lane_sum.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {

WaveSearch::WaveSearch(const IndexCall& call, void* scratch, SearchCost* cost)
    : call_(call),
      cost_(cost),
      scratch_(scratch),
      num_keys_(call.num_visible()),
      num_clusters_(CountClusters(call)),
      counts_(scratch_.Take<uint32_t>(num_clusters_)),
      scores_(scratch_.Take<float>(call.num_q_rows * num_clusters_)),
      worth_(scratch_.Take<float>(num_clusters_)),
      weights_(scratch_.Take<float>(num_clusters_)),
      selected_(scratch_.Take<uint32_t>(num_clusters_ + kernels::kSelectSlack)),
      fair_(call, num_clusters_, &scratch_),
      // There may be more clusters than keys in sight, and a selection is of both.
      listed_(call, std::max(num_keys_, num_clusters_), &scratch_) {}

size_t WaveSearch::CountClusters(const IndexCall& call) {
  size_t count = 0;
  for (const IndexRun& run : call.runs) count += SumsOf(run).num_clusters;
  return count;
}

void WaveSearch::CountVisible() {
  uint32_t* counts = counts_;
  for (const IndexRun& run : call_.runs) {
    const ClusterSums& sums = SumsOf(run);
    for (size_t c = 0; c < sums.num_clusters; ++c) {
      counts[c] = static_cast<uint32_t>(sums.CountOf(c));
    }
    const size_t first = std::min(run.first_visible, run.num_visible);
    HideKeys(sums, 0, first, counts);
    HideKeys(sums, run.num_visible, sums.num_keys, counts);
    counts += sums.num_clusters;
  }
}

void WaveSearch::ScoreClusters() {
  size_t first = 0;
  for (const IndexRun& run : call_.runs) {
    const ClusterSums& sums = SumsOf(run);
    kernels::ScoreRows(sums.keys, sums.num_clusters, call_.q, call_.q_stride, call_.num_q_rows,
                       scores_ + first, num_clusters_);
    first += sums.num_clusters;
  }
  cost_->bytes_touched +=
      num_clusters_ * call_.num_channels() * DTypeBytes(call_.runs[0].keys.dtype);
  cost_->keys_scored += num_clusters_ * call_.num_q_rows;
}

// Invisible clusters are worth less than any visible one.
void WaveSearch::Rate() {
  std::fill_n(worth_, num_clusters_, 0.0f);
  for (size_t r = 0; r < call_.num_q_rows; ++r) {
    float* const scores = scores_ + r * num_clusters_;
    for (size_t c = 0; c < num_clusters_; ++c) {
      if (counts_[c] == 0) scores[c] = -kInfinity;
    }
    const float best = kernels::MaxScore(scores, num_clusters_);
    fair_.SetBest(r, call_.best == nullptr ? best : std::max(best, call_.best[r]));
    if (!std::isfinite(best)) continue;
    const kernels::LogitSpec& logit = call_.spec.logit;
    kernels::ExpWeights(scores, num_clusters_, logit, kernels::LogitOf(best, logit), weights_);
    const float sum = LaneSum<float>(num_clusters_, [&](size_t c) { return weights_[c]; });
    for (size_t c = 0; c < num_clusters_; ++c) worth_[c] += weights_[c] / sum;
  }
  for (size_t c = 0; c < num_clusters_; ++c) {
    if (counts_[c] == 0) worth_[c] = -kInfinity;
  }
}

// Keeps the clusters of most worth among the first num_selected of selected_, in this order, until
// they hold num_wanted visible keys; keeps all clusters of a starved row's share. Returns their
// number; num_selected + 1 if all together hold fewer keys.
size_t WaveSearch::TakeBest(size_t num_selected, size_t num_wanted) {
  std::sort(selected_, selected_ + num_selected, [&](uint32_t a, uint32_t b) {
    return worth_[a] > worth_[b] || (worth_[a] == worth_[b] && a < b);
  });
  size_t num_held = 0;
  size_t taken = 0;
  while (taken < num_selected && (num_held < num_wanted || worth_[selected_[taken]] == kInfinity)) {
    num_held += counts_[selected_[taken++]];
  }
  return num_held < num_wanted ? num_selected + 1 : taken;
}

void WaveSearch::SelectByWorth() {
  const size_t num_wanted = NumWanted(call_.spec, num_keys_);
  // By the clusters' mean size; where the best are smaller, from more.
  size_t num_tried = std::min(num_clusters_, 16 + 2 * num_wanted * num_clusters_ / num_keys_);
  while (true) {
    const size_t count =
        kernels::SelectTopK(worth_, num_clusters_, num_tried, selected_, listed_.select_scratch());
    num_selected_ = TakeBest(count, num_wanted);
    if (num_selected_ <= count) break;
    num_tried = std::min(num_clusters_, 2 * num_tried);
  }
  std::sort(selected_, selected_ + num_selected_);
}

void WaveSearch::SelectClusters() {
  do {
    SelectByWorth();
  } while (fair_.Feed({scores_, num_clusters_, worth_}, {selected_, num_selected_},
                      listed_.select_scratch()));
}

void WaveSearch::ListKeys() {
  listed_.Clear();
  size_t i = 0;
  size_t first_cluster = 0;
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    const IndexRun& of = call_.runs[run];
    const ClusterSums& sums = SumsOf(of);
    for (; i < num_selected_ && selected_[i] < first_cluster + sums.num_clusters; ++i) {
      const size_t cluster = selected_[i] - first_cluster;
      for (size_t place = sums.FirstPlace(cluster); place < sums.ends[cluster]; ++place) {
        const size_t key = sums.KeyAt(place);
        if (key >= of.first_visible && key < of.num_visible) listed_.Add(run, key);
      }
    }
    first_cluster += sums.num_clusters;
  }
  cost_->clusters += num_selected_;
}

Status WaveSearch::Run(FoundKeys* found) {
  for (size_t r = 0; r < call_.num_q_rows; ++r) found[r].count = 0;
  if (num_keys_ == 0) return Status::Ok();
  CountVisible();
  ScoreClusters();
  Rate();
  SelectClusters();
  ListKeys();
  ATTNDB_RETURN_IF_ERROR(listed_.Score(cost_));
  for (size_t r = 0; r < call_.num_q_rows; ++r) listed_.Choose(r, &found[r]);
  return Status::Ok();
}

}  // namespace attndb::index
