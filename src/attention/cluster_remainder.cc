#include "attention/cluster_remainder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/infinity.h"
#include "index/cluster_sums.h"
#include "kernels/attend.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::attention {
namespace {

using index::ClusterSums;

// Calls f(parts) for the runs of each object with clusters. A filter cuts an object into several
// runs. Runs in front with moved tokens have no clusters.
template <typename F>
void ForEachParts(std::span<const HeadRun> runs, const F& f) {
  for (size_t first = 0; first < runs.size();) {
    size_t end = first + 1;
    while (end < runs.size() && runs[end].number == runs[first].number) ++end;
    while (first < end && runs[first].sums == nullptr) ++first;
    if (first < end) f(runs.subspan(first, end - first));
    first = end;
  }
}

void HideClustersOf(const ClusterSums& sums, uint64_t first, uint64_t end, uint32_t* counts) {
  for (uint64_t key = first; key < end; ++key) counts[sums.ClusterOf(key)] = 0;
}

}  // namespace

ClusterScratch ClusterScratch::Take(uint32_t group, size_t num_clusters, size_t num_runs,
                                    Arena* arena) {
  ClusterScratch scratch;
  scratch.num_clusters = num_clusters;
  scratch.scores = arena->Take<float>(group * num_clusters);
  scratch.counts = arena->Take<uint32_t>(num_clusters);
  scratch.logs = arena->Take<float>(num_clusters);
  scratch.left = arena->Take<uint32_t>(num_clusters);
  scratch.sums = arena->Take<double>(num_clusters);
  scratch.logits = arena->Take<float>(num_clusters);
  scratch.list = arena->Take<uint32_t>(num_clusters + kernels::kSelectSlack);
  scratch.listed = arena->Take<float>(num_clusters);
  scratch.firsts = arena->Take<size_t>(num_runs);
  scratch.select = arena->Take<std::byte>(kernels::SelectTopKScratchBytes(num_clusters));
  return scratch;
}

size_t NumClusters(std::span<const HeadRun> runs) {
  size_t count = 0;
  ForEachParts(runs, [&](std::span<const HeadRun> parts) { count += parts[0].sums->num_clusters; });
  return count;
}

// Calls f(parts, the number of the first cluster).
template <typename F>
void ClusterRemainder::ForEachObject(const F& f) const {
  size_t first = 0;
  ForEachParts(call_.runs, [&](std::span<const HeadRun> parts) {
    f(parts, first);
    first += parts[0].sums->num_clusters;
  });
}

ClusterRemainder::ClusterRemainder(const ClusterRemainderCall& call, const ClusterScratch& scratch,
                                   CallCost* cost)
    : call_(call), scratch_(scratch), cost_(cost), num_clusters_(NumClusters(call.runs)) {
  ForEachObject([&](std::span<const HeadRun> parts, size_t first) {
    const ClusterSums& sums = *parts[0].sums;
    for (const HeadRun& part : parts) scratch_.firsts[&part - call_.runs.data()] = first;
    CountWhole(parts, scratch_.counts + first);
    kernels::ScoreRows(sums.keys, sums.num_clusters, call_.q.q, call_.q.stride, call_.q.count,
                       scratch_.scores + first, num_clusters_);
    cost_->bytes_touched += sums.num_clusters * parts[0].k_bytes();
  });
  for (size_t c = 0; c < num_clusters_; ++c) {
    scratch_.logs[c] = std::log(static_cast<float>(scratch_.counts[c]));
  }
}

// The size of each cluster of which all keys are seen; 0 of others.
void ClusterRemainder::CountWhole(std::span<const HeadRun> parts, uint32_t* counts) const {
  const ClusterSums& sums = *parts[0].sums;
  for (size_t c = 0; c < sums.num_clusters; ++c) counts[c] = static_cast<uint32_t>(sums.CountOf(c));
  uint64_t seen = 0;  // Keys up to here are seen, or their clusters are not whole.
  for (const HeadRun& part : parts) {
    const uint64_t end = std::min(part.tokens.end, call_.num_tokens);
    if (part.tokens.begin >= end) break;
    HideClustersOf(sums, seen, part.RowOf(part.tokens.begin), counts);
    seen = part.RowOf(end);
  }
  HideClustersOf(sums, seen, sums.num_keys, counts);
}

void ClusterRemainder::Begin(uint32_t head) {
  const float* const scores = scratch_.scores + head * num_clusters_;
  for (size_t c = 0; c < num_clusters_; ++c) {
    scratch_.left[c] = scratch_.counts[c];
    scratch_.sums[c] = double{scores[c]} * scratch_.counts[c];
  }
}

void ClusterRemainder::Take(const SelectedTokens& attended) {
  const HeadRun* run = call_.runs.data();
  for (size_t i = 0; i < attended.count; ++i) {
    const uint64_t token = attended.tokens[i];
    if (token < run->tokens.begin || token >= run->tokens.end) {
      run = &*std::ranges::upper_bound(call_.runs, token, {},
                                       [](const HeadRun& of) { return of.tokens.end; });
    }
    if (run->sums == nullptr) continue;
    const size_t first = scratch_.firsts[run - call_.runs.data()];
    const size_t cluster = first + run->sums->ClusterOf(run->RowOf(token));
    if (scratch_.left[cluster] == 0) continue;  // It is not estimated.
    --scratch_.left[cluster];
    scratch_.sums[cluster] -= double{attended.scores[i]};
  }
}

// Finds the logit of each cluster, which stands for as many tokens as are left of it; -inf where
// none are.
void ClusterRemainder::FindLogits(float best) {
  float* const logits = scratch_.logits;
  for (size_t c = 0; c < num_clusters_; ++c) {
    const double count = std::max<uint32_t>(scratch_.left[c], 1);
    // Rounding of the means may change a few tokens of many a lot: no mean is assumed to score
    // above the best found score.
    logits[c] = static_cast<float>(std::min(scratch_.sums[c] / count, double{best}));
  }
  kernels::ToLogits(logits, num_clusters_, call_.logit, logits);
  for (size_t c = 0; c < num_clusters_; ++c) {
    const uint32_t count = scratch_.left[c];
    if (count == 0) {
      logits[c] = -kInfinity;
    } else {
      const bool is_whole = count == scratch_.counts[c];
      logits[c] += is_whole ? scratch_.logs[c] : std::log(static_cast<float>(count));
    }
  }
}

// Lists clusters, ascending.
size_t ClusterRemainder::ListEstimated() {
  const double wanted = std::ceil(call_.share * static_cast<double>(num_clusters_));
  const auto most = static_cast<size_t>(wanted);
  if (most < num_clusters_) {
    return kernels::SelectTopK(scratch_.logits, num_clusters_, most, scratch_.list,
                               scratch_.select);
  }
  return kernels::SelectRange(scratch_.logits, num_clusters_, -std::numeric_limits<float>::max(),
                              scratch_.list);
}

double ClusterRemainder::Fold(float best, const kernels::StateRows& state) {
  FindLogits(best);
  const size_t num_listed = ListEstimated();
  for (size_t i = 0; i < num_listed; ++i) scratch_.listed[i] = scratch_.logits[scratch_.list[i]];
  const double before = state.sum[0];
  const double max = state.max[0];
  size_t i = 0;
  ForEachObject([&](std::span<const HeadRun> parts, size_t first) {
    const ClusterSums& sums = *parts[0].sums;
    const size_t begin = i;
    for (; i < num_listed && scratch_.list[i] < first + sums.num_clusters; ++i) {
      scratch_.list[i] -= static_cast<uint32_t>(first);
    }
    kernels::AttendScored(scratch_.listed + begin, 0, 1, sums.values, scratch_.list + begin,
                          i - begin, {.scale = 1.0f}, state);
  });
  if (num_listed > 0) cost_->bytes_touched += num_listed * call_.runs[0].v_bytes();
  return double{state.sum[0]} - before * std::exp(max - double{state.max[0]});
}

}  // namespace attndb::attention
