#include "index/clustered/cluster_search.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "common/check.h"
#include "common/lane_sum.h"
#include "index/clustered/key_order.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kAlignment = 64;

// Clusters that each q row looks at first: as many keys as it wants, several times, but at least a
// few.
constexpr size_t kFirstTimes = 3;
constexpr size_t kFirstLeast = 4;

// Standard deviations of the estimates' error by which a candidate may look too light.
constexpr float kMargin = 2.5f;

size_t Words(size_t num_bits) { return (num_bits + 63) / 64; }

size_t ClustersOf(size_t num_visible, size_t num_clusters) {
  constexpr size_t kOfPiece = kPieceKeys / kernels::kWeightBlock;
  const size_t num_pieces = (num_visible + kPieceKeys - 1) / kPieceKeys;
  return std::min(num_clusters, num_pieces * kOfPiece);
}

size_t NumFirst(const SearchSpec& spec, size_t num_clusters) {
  const size_t wanted =
      spec.kind == SearchKind::kTopK
          ? (kFirstTimes * spec.k + kernels::kWeightBlock - 1) / kernels::kWeightBlock
          : 0;
  return std::min(num_clusters, std::max(wanted, kFirstLeast));
}

}  // namespace

static_assert(kernels::kWeightBlock == kernels::kOffsetKeys);

template <typename Take>
ClusterSearch::Scratch ClusterSearch::Lay(const ClusteredKeys& keys, const IndexCall& call,
                                          const Take& take) {
  const size_t rows = call.num_q_rows;
  const size_t clusters = keys.num_clusters();
  const size_t places = clusters * kClusterKeys;
  Scratch scratch;
  take(&scratch.spare, rows * call.keys.num_elements);
  take(&scratch.codes, rows * QueryCodeBytes(call.keys.num_elements));
  take(&scratch.queries, rows);
  take(&scratch.means, rows * clusters);
  take(&scratch.bounds, rows * clusters);
  take(&scratch.offsets, rows * clusters);
  take(&scratch.floors, rows);
  take(&scratch.clusters, clusters);
  take(&scratch.marks, Words(clusters));
  take(&scratch.scores, rows * places);
  take(&scratch.selected, places + kernels::kSelectSlack);
  take(&scratch.near, places + kernels::kSelectSlack);
  take(&scratch.candidates, Words(places));
  take(&scratch.places, places);
  take(&scratch.exact, rows * places);
  std::byte* select = nullptr;
  take(&select, kernels::SelectTopKScratchBytes(places));
  scratch.select = select;
  return scratch;
}

size_t ClusterSearch::ScratchBytes(const ClusteredKeys& keys, const IndexCall& call) {
  size_t bytes = 0;
  (void)Lay(keys, call, [&]<typename T>(T**, size_t count) {
    bytes += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  });
  return bytes;
}

ClusterSearch::ClusterSearch(const ClusteredKeys& keys, const IndexCall& call, void* scratch,
                             SearchCost* cost)
    : keys_(keys),
      call_(call),
      cost_(cost),
      num_clusters_(ClustersOf(call.num_visible, keys.num_clusters())),
      stride_(keys.num_clusters() * kClusterKeys) {
  auto* next = static_cast<std::byte*>(scratch);
  scratch_ = Lay(keys, call, [&]<typename T>(T** to, size_t count) {
    *to = reinterpret_cast<T*>(next);
    next += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  });
}

void ClusterSearch::Prepare() {
  const float effort = call_.spec.effort > 0 ? call_.spec.effort : ClusteredKeys::kEffort;
  for (size_t r = 0; r < num_rows(); ++r) {
    scratch_.queries[r] =
        keys_.planes_.Prepare(4, call_.q + r * call_.q_stride, scratch_.spare + r * channels(),
                              scratch_.codes + r * QueryCodeBytes(channels()));
  }
  const std::span<const EstimateQuery> queries(scratch_.queries, num_rows());
  const size_t stride = keys_.num_clusters();
  keys_.planes_.ScoreMeans(queries, num_clusters_, scratch_.means, stride);
  for (size_t r = 0; r < num_rows(); ++r) {
    const auto q_norm = static_cast<float>(Norm({call_.q + r * call_.q_stride, channels()}));
    const float* const means = scratch_.means + r * stride;
    float* const bounds = scratch_.bounds + r * stride;
    for (size_t c = 0; c < num_clusters_; ++c) {
      bounds[c] = means[c] + effort * q_norm * keys_.reaches_[c];
    }
  }
  std::memset(scratch_.marks, 0, Words(num_clusters_) * sizeof(uint64_t));
  cost_->bytes_touched += num_clusters_ * channels() * sizeof(uint16_t);
}

// Whether all keys of its piece may be found, and so all of its own.
bool ClusterSearch::IsWhole(uint32_t cluster) const {
  const size_t begin = cluster * kClusterKeys;
  const size_t piece = begin / kPieceKeys * kPieceKeys;
  return piece >= call_.first_visible && begin + kClusterKeys <= keys_.num_keys() &&
         std::min(piece + kPieceKeys, keys_.num_keys()) <= call_.num_visible;
}

// In the piece where the visible ones end, clusters may have none.
bool ClusterSearch::IsVisible(uint32_t cluster) const {
  if (IsWhole(cluster)) return true;
  const size_t begin = cluster * kClusterKeys;
  const size_t end = std::min(begin + kClusterKeys, keys_.num_keys());
  for (size_t place = begin; place < end; ++place) {
    const uint32_t key = keys_.KeyAt(place);
    if (key >= call_.first_visible && key < call_.num_visible) return true;
  }
  return false;
}

void ClusterSearch::Mark(uint32_t cluster) {
  uint64_t& word = scratch_.marks[cluster / 64];
  const uint64_t bit = uint64_t{1} << cluster % 64;
  if ((word & bit) != 0) return;
  word |= bit;
  if (IsVisible(cluster)) scratch_.clusters[num_marked_++] = cluster;
}

void ClusterSearch::MarkFirst() {
  const size_t num_first = NumFirst(call_.spec, num_clusters_);
  for (size_t r = 0; r < num_rows(); ++r) {
    const size_t count =
        kernels::SelectTopK(scratch_.bounds + r * keys_.num_clusters(), num_clusters_, num_first,
                            scratch_.selected, scratch_.select);
    for (size_t i = 0; i < count; ++i) Mark(scratch_.selected[i]);
  }
}

void ClusterSearch::MarkAbove() {
  for (size_t r = 0; r < num_rows(); ++r) {
    const size_t count = kernels::SelectRange(scratch_.bounds + r * keys_.num_clusters(),
                                              num_clusters_, scratch_.floors[r], scratch_.selected);
    for (size_t i = 0; i < count; ++i) Mark(scratch_.selected[i]);
  }
}

// Scans the clusters that were marked since the last scan.
void ClusterSearch::ScanMarked() {
  const size_t first = num_visited_;
  const size_t count = num_marked_ - first;
  if (count == 0) return;
  const std::span<const EstimateQuery> queries(scratch_.queries, num_rows());
  keys_.planes_.ScanBlocks({.queries = queries,
                            .blocks = {scratch_.clusters + first, count},
                            .means = scratch_.means,
                            .means_stride = keys_.num_clusters(),
                            .work = scratch_.offsets},
                           scratch_.scores + first * kClusterKeys, stride_);
  num_visited_ = num_marked_;
  HideOthers(first);
  cost_->clusters += count;
  cost_->keys_scored += count * kClusterKeys * num_rows();
  cost_->bytes_touched += count * kClusterKeys * keys_.planes_.ScanBytes(4);
}

// Of what was scanned from the first-th cluster on, places of keys that may not be found.
void ClusterSearch::HideOthers(size_t first) {
  for (size_t i = first; i < num_visited_; ++i) {
    if (IsWhole(scratch_.clusters[i])) continue;
    const size_t begin = scratch_.clusters[i] * kClusterKeys;
    for (size_t j = 0; j < kClusterKeys; ++j) {
      const bool is_key = begin + j < keys_.num_keys();
      const uint32_t key = is_key ? keys_.KeyAt(begin + j) : 0;
      if (is_key && key >= call_.first_visible && key < call_.num_visible) continue;
      for (size_t r = 0; r < num_rows(); ++r) {
        scratch_.scores[r * stride_ + i * kClusterKeys + j] = -kInfinity;
      }
    }
  }
}

// The least of the k largest scores; -inf if there are not so many.
float ClusterSearch::KthLargest(const float* scores, size_t count) {
  if (count < call_.spec.k) return -kInfinity;
  const size_t k =
      kernels::SelectTopK(scores, count, call_.spec.k, scratch_.selected, scratch_.select);
  float least = kInfinity;
  for (size_t i = 0; i < k; ++i) least = std::min(least, scores[scratch_.selected[i]]);
  return least;
}

// What a key must score to be wanted by the row, by what the scanned clusters say.
float ClusterSearch::Floor(size_t row) {
  const float* const scores = scratch_.scores + row * stride_;
  if (call_.spec.kind == SearchKind::kTopK) return KthLargest(scores, num_places());
  return std::max(kernels::MaxScore(scores, num_places()), call_.best[row]) - call_.spec.beta;
}

void ClusterSearch::FindFloors() {
  for (size_t r = 0; r < num_rows(); ++r) scratch_.floors[r] = Floor(r);
}

float ClusterSearch::Margin(size_t row) const {
  const auto q_norm = static_cast<float>(Norm({call_.q + row * call_.q_stride, channels()}));
  return kMargin * keys_.planes_.ScoreError(4, q_norm);
}

// Marks the places whose estimates come near the row's floor, which has risen since it was found.
void ClusterSearch::MarkCandidates(size_t row) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();  // Above what is hidden.
  const float* const scores = scratch_.scores + row * stride_;
  const float margin = Margin(row);
  const float floor = std::max(scratch_.floors[row] - margin, kLeast);
  const size_t count = kernels::SelectRange(scores, num_places(), floor, scratch_.near);
  float* const listed = scratch_.exact;
  for (size_t i = 0; i < count; ++i) listed[i] = scores[scratch_.near[i]];
  const float risen =
      call_.spec.kind == SearchKind::kTopK
          ? KthLargest(listed, count)
          : std::max(kernels::MaxScore(listed, count), call_.best[row]) - call_.spec.beta;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t place = scratch_.near[i];
    if (listed[i] >= risen - margin) {
      scratch_.candidates[place / 64] |= uint64_t{1} << place % 64;
    }
  }
}

// The union of what each row's estimates bring up, as keys. Returns how many.
size_t ClusterSearch::TakeCandidates() {
  std::memset(scratch_.candidates, 0, Words(num_places()) * sizeof(uint64_t));
  for (size_t r = 0; r < num_rows(); ++r) MarkCandidates(r);
  size_t count = 0;
  for (size_t w = 0; w < Words(num_places()); ++w) {
    for (uint64_t bits = scratch_.candidates[w]; bits != 0; bits &= bits - 1) {
      const auto in_cluster = static_cast<size_t>(std::countr_zero(bits));
      scratch_.places[count++] = keys_.KeyAt(scratch_.clusters[w] * kClusterKeys + in_cluster);
    }
  }
  return count;
}

void ClusterSearch::Choose(size_t num_candidates, FoundKeys* found) {
  kernels::ScoreGather(call_.keys, scratch_.places, num_candidates, call_.q, call_.q_stride,
                       num_rows(), scratch_.exact, stride_);
  cost_->rows_read += num_candidates;
  cost_->bytes_touched += num_candidates * call_.keys.num_elements * DTypeBytes(call_.keys.dtype);
  for (size_t r = 0; r < num_rows(); ++r) {
    const float* const exact = scratch_.exact + r * stride_;
    size_t count = 0;
    if (call_.spec.kind == SearchKind::kTopK) {
      count = kernels::SelectTopK(exact, num_candidates, call_.spec.k, scratch_.selected,
                                  scratch_.select);
    } else {
      const float best = std::max(kernels::MaxScore(exact, num_candidates), call_.best[r]);
      count =
          kernels::SelectRange(exact, num_candidates, best - call_.spec.beta, scratch_.selected);
    }
    for (size_t i = 0; i < count; ++i) {
      found[r].keys[i] = scratch_.places[scratch_.selected[i]];
      found[r].scores[i] = exact[scratch_.selected[i]];
    }
    found[r].count = count;
  }
}

void ClusterSearch::Run(FoundKeys* found) {
  for (size_t r = 0; r < num_rows(); ++r) found[r].count = 0;
  if (num_clusters_ == 0 || call_.first_visible >= call_.num_visible) return;
  Prepare();
  MarkFirst();
  ScanMarked();
  FindFloors();
  MarkAbove();
  ScanMarked();
  Choose(TakeCandidates(), found);
}

size_t ClusteredKeys::ScratchBytes(const IndexCall& call) const {
  return ClusterSearch::ScratchBytes(*this, call);
}

void ClusteredKeys::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                           SearchCost* cost) const {
  ClusterSearch(*this, call, scratch, cost).Run(found);
}

}  // namespace attndb::index
