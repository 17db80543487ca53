#include "index/clustered/cluster_search.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "common/check.h"
#include "common/infinity.h"
#include "common/lane_sum.h"
#include "index/clustered/key_order.h"
#include "kernels/prefetch.h"
#include "kernels/score.h"
#include "kernels/select.h"
#include "kernels/weights.h"

namespace attndb::index {
namespace {

constexpr size_t kAlignment = 64;

// Clusters that each q row looks at first: as many keys as it wants, several times, but at least a
// few.
constexpr size_t kFirstTimes = 3;
constexpr size_t kFirstLeast = 4;

// Standard deviations of the estimates' error by which a candidate may look too light, at an effort
// of 1. On captured heads, where all clusters are visited: 1.5 find .993 of the best hundred, 2.5
// .998 with a tenth more rows of K.
constexpr float kMargin = 2.2f;

size_t Words(size_t num_bits) { return (num_bits + 63) / 64; }

// Clusters of the pieces that hold visible keys.
size_t ClustersOf(const IndexRun& run) {
  constexpr size_t kOfPiece = kPieceKeys / kernels::kWeightBlock;
  const size_t num_clusters = kernels::NumWeightBlocks(run.index->num_keys());
  const size_t num_pieces = (run.num_visible + kPieceKeys - 1) / kPieceKeys;
  return std::min(num_clusters, num_pieces * kOfPiece);
}

size_t ClustersOf(const IndexCall& call) {
  size_t count = 0;
  for (const IndexRun& run : call.runs) count += ClustersOf(run);
  return count;
}

size_t NumFirst(const SearchSpec& spec) {
  if (spec.kind == SearchKind::kRange) return kFirstLeast;
  return std::max(kFirstLeast, kernels::NumWeightBlocks(kFirstTimes * spec.k));
}

}  // namespace

static_assert(kernels::kWeightBlock == kernels::kOffsetKeys);

template <typename Take>
ClusterSearch::Scratch ClusterSearch::Lay(const IndexCall& call, const Take& take) {
  const size_t rows = call.num_q_rows;
  const size_t clusters = ClustersOf(call);
  const size_t places = clusters * kClusterKeys;
  Scratch scratch;
  take(&scratch.first_clusters, call.runs.size() + 1);
  take(&scratch.spare, call.num_channels());
  take(&scratch.codes, rows * QueryCodeBytes(call.num_channels()));
  take(&scratch.queries, rows);
  take(&scratch.norms, rows);
  take(&scratch.means, rows * clusters);
  take(&scratch.bounds, rows * clusters);
  take(&scratch.offsets, rows * clusters);
  take(&scratch.floors, rows);
  take(&scratch.margins, rows);
  take(&scratch.clusters, clusters);
  take(&scratch.order, clusters);
  take(&scratch.marked, Words(clusters));
  take(&scratch.visited, Words(clusters));
  take(&scratch.scores, rows * places);
  take(&scratch.selected, places + kernels::kSelectSlack);
  take(&scratch.near, places + kernels::kSelectSlack);
  take(&scratch.candidates, Words(places));
  take(&scratch.keys, places);
  take(&scratch.tokens, places);
  take(&scratch.exact, rows * places);
  std::byte* select = nullptr;
  take(&select, kernels::SelectTopKScratchBytes(places));
  scratch.select = select;
  return scratch;
}

size_t ClusterSearch::ScratchBytes(const IndexCall& call) {
  size_t bytes = 0;
  (void)Lay(call, [&]<typename T>(T**, size_t count) {
    bytes += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  });
  return bytes;
}

ClusterSearch::ClusterSearch(const IndexCall& call, void* scratch, SearchCost* cost)
    : call_(call),
      cost_(cost),
      effort_(call.spec.effort > 0 ? call.spec.effort : ClusteredKeys::kEffort) {
  auto* next = static_cast<std::byte*>(scratch);
  scratch_ = Lay(call, [&]<typename T>(T** to, size_t count) {
    *to = reinterpret_cast<T*>(next);
    next += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  });
  NumberClusters();
}

void ClusterSearch::NumberClusters() {
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    scratch_.first_clusters[run] = num_clusters_;
    num_clusters_ += ClustersOf(call_.runs[run]);
  }
  scratch_.first_clusters[call_.runs.size()] = num_clusters_;
  stride_ = num_clusters_ * kClusterKeys;
  std::memset(scratch_.marked, 0, Words(num_clusters_) * sizeof(uint64_t));
  std::memset(scratch_.visited, 0, Words(num_clusters_) * sizeof(uint64_t));
}

template <typename F>
void ClusterSearch::ForEachRun(const uint32_t* clusters, size_t begin, size_t end,
                               const F& f) const {
  for (size_t run = 0; begin < end; ++run) {
    const size_t next_run = scratch_.first_clusters[run + 1];
    size_t stop = begin;
    while (stop < end && clusters[stop] < next_run) ++stop;
    if (stop > begin) f(run, begin, stop);
    begin = stop;
  }
}

void ClusterSearch::PrepareQueries() {
  const size_t code_bytes = QueryCodeBytes(num_channels());
  const float margin = kMargin * effort_;
  float error = 0;
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    error = std::max(error, KeysOf(run).planes_.ScoreError(4, 1.0f));
  }
  for (size_t r = 0; r < num_rows(); ++r) {
    const float* const q = call_.q + r * call_.q_stride;
    scratch_.queries[r] =
        KeysOf(0).planes_.Prepare(q, scratch_.spare, scratch_.codes + r * code_bytes);
    scratch_.norms[r] = static_cast<float>(Norm({q, num_channels()}));
    scratch_.margins[r] = margin * error * scratch_.norms[r];
  }
}

void ClusterSearch::FindBounds() {
  for (size_t run = 0; run < call_.runs.size(); ++run) {
    const size_t first = scratch_.first_clusters[run];
    const size_t count = scratch_.first_clusters[run + 1] - first;
    const ClusteredKeys& keys = KeysOf(run);
    keys.means_.Scan(count, queries(), scratch_.means + first, num_clusters_);
    for (size_t r = 0; r < num_rows(); ++r) {
      const float* const means = scratch_.means + r * num_clusters_ + first;
      float* const bounds = scratch_.bounds + r * num_clusters_ + first;
      const float reach = effort_ * scratch_.norms[r];
      for (size_t c = 0; c < count; ++c) bounds[c] = means[c] + reach * keys.reaches_[c];
    }
  }
  cost_->bytes_touched += num_clusters_ * num_channels();
}

// Whether all keys of the cluster's piece may be found, and so all of its own.
bool ClusterSearch::IsWhole(size_t run, size_t first_key) const {
  const IndexRun& of = call_.runs[run];
  const size_t num_keys = of.index->num_keys();
  const size_t piece = first_key / kPieceKeys * kPieceKeys;
  return piece >= of.first_visible && first_key + kClusterKeys <= num_keys &&
         std::min(piece + kPieceKeys, num_keys) <= of.num_visible;
}

// Whether all, some or none of a cluster's keys may be found. Fast, because most clusters of a
// piece where visible keys begin or end are all or none.
ClusterSearch::Sight ClusterSearch::SightOf(size_t run, size_t first_key) const {
  if (IsWhole(run, first_key)) return Sight::kAll;
  const NumberRange visible = VisibleNumbers(run, first_key);
  const uint16_t* const numbers = KeysOf(run).numbers_.data() + first_key;
  const size_t count = std::min(kClusterKeys, KeysOf(run).num_keys() - first_key);
  const auto num_visible =
      std::count_if(numbers, numbers + count, [&](uint16_t number) { return visible.Has(number); });
  if (num_visible == 0) return Sight::kNone;
  return num_visible == ptrdiff_t{kClusterKeys} ? Sight::kAll : Sight::kSome;
}

// Visible numbers of the piece that the key lies in.
ClusterSearch::NumberRange ClusterSearch::VisibleNumbers(size_t run, size_t first_key) const {
  const IndexRun& of = call_.runs[run];
  const size_t piece = first_key / kPieceKeys * kPieceKeys;
  const auto number_of = [&](size_t key) {
    return static_cast<uint16_t>(std::clamp(key, piece, piece + kPieceKeys) - piece);
  };
  const uint16_t first = number_of(of.first_visible);
  return {first, static_cast<uint16_t>(number_of(of.num_visible) - first)};
}

void ClusterSearch::MarkAbove(size_t row, float bound) {
  kernels::MarkNotBelow(scratch_.bounds + row * num_clusters_, num_clusters_, bound,
                        scratch_.marked);
}

void ClusterSearch::MarkBest() {
  const size_t num_first = std::min(NumFirst(call_.spec), num_clusters_);
  for (size_t r = 0; r < num_rows(); ++r) {
    const float* const bounds = scratch_.bounds + r * num_clusters_;
    MarkAbove(r, kernels::TopThreshold(bounds, num_clusters_, num_first, scratch_.select));
  }
}

void ClusterSearch::MarkPromising() {
  // A range counts from the best estimate, and the best of many is too high.
  const float share = call_.spec.kind == SearchKind::kRange ? 1.0f : 0.0f;
  for (size_t r = 0; r < num_rows(); ++r) {
    MarkAbove(r, scratch_.floors[r] - share * scratch_.margins[r]);
  }
}

// Scans marked clusters that were not scanned yet, in the order of numbers.
void ClusterSearch::ScanMarked() {
  const size_t first = num_visited_;
  size_t run = 0;
  for (size_t w = 0; w < Words(num_clusters_); ++w) {
    const uint64_t fresh = scratch_.marked[w] & ~scratch_.visited[w];
    scratch_.visited[w] |= fresh;
    for (uint64_t bits = fresh; bits != 0; bits &= bits - 1) {
      const size_t cluster = w * 64 + static_cast<size_t>(std::countr_zero(bits));
      while (cluster >= scratch_.first_clusters[run + 1]) ++run;
      const size_t first_key = (cluster - scratch_.first_clusters[run]) * kClusterKeys;
      // In the piece where the visible ones end, clusters may have none.
      if (SightOf(run, first_key) == Sight::kNone) continue;
      scratch_.clusters[num_visited_++] = static_cast<uint32_t>(cluster);
    }
  }
  ForEachRun(scratch_.clusters, first, num_visited_,
             [&](size_t of, size_t begin, size_t end) { ScanRun(of, begin, end); });
}

// Scans the slots from `first` to `end`, all of one run.
void ClusterSearch::ScanRun(size_t run, size_t first, size_t end) {
  const KeyPlanes& planes = KeysOf(run).planes_;
  const size_t first_cluster = scratch_.first_clusters[run];
  // The planes number their blocks from 0.
  for (size_t i = first; i < end; ++i) {
    scratch_.selected[i - first] = static_cast<uint32_t>(scratch_.clusters[i] - first_cluster);
  }
  planes.ScanBlocks({.queries = queries(),
                     .blocks = {scratch_.selected, end - first},
                     .means = scratch_.means + first_cluster,
                     .means_stride = num_clusters_,
                     .work = scratch_.offsets},
                    scratch_.scores + first * kClusterKeys, stride_);
  for (size_t slot = first; slot < end; ++slot) Hide(run, slot);
  cost_->clusters += end - first;
  cost_->keys_scored += (end - first) * kClusterKeys * num_rows();
  cost_->bytes_touched += (end - first) * kClusterKeys * planes.ScanBytes(4);
}

// Places of keys that may not be found, or are none.
void ClusterSearch::Hide(size_t run, size_t slot) {
  const size_t first_key = (scratch_.clusters[slot] - scratch_.first_clusters[run]) * kClusterKeys;
  if (SightOf(run, first_key) == Sight::kAll) return;
  const NumberRange visible = VisibleNumbers(run, first_key);
  const ClusteredKeys& keys = KeysOf(run);
  for (size_t j = 0; j < kClusterKeys; ++j) {
    const bool is_key = first_key + j < keys.num_keys();
    if (is_key && visible.Has(keys.numbers_[first_key + j])) continue;
    for (size_t r = 0; r < num_rows(); ++r) {
      scratch_.scores[r * stride_ + slot * kClusterKeys + j] = -kInfinity;
    }
  }
}

// Returns the approximate score that a key must reach to enter the row's result, if these are the
// best scores so far.
float ClusterSearch::Floor(size_t row, const float* scores, size_t count) {
  if (call_.spec.kind == SearchKind::kTopK) {
    return kernels::TopThreshold(scores, count, call_.spec.k, scratch_.select);
  }
  return std::max(kernels::MaxScore(scores, count), call_.best[row]) - call_.spec.beta;
}

void ClusterSearch::FindFloors() {
  for (size_t r = 0; r < num_rows(); ++r) {
    scratch_.floors[r] = Floor(r, scratch_.scores + r * stride_, num_places());
  }
}

// Marks the places whose estimates come near the row's floor, which has risen since it was found.
void ClusterSearch::MarkCandidates(size_t row) {
  constexpr float kLeast = std::numeric_limits<float>::lowest();  // Above hidden scores.
  const float* const scores = scratch_.scores + row * stride_;
  const float margin = scratch_.margins[row];
  // Planes that were read may hold anything, and so floors and margins be no numbers.
  const auto at_least = [](float least, float x) { return x > least ? x : least; };
  const float floor = at_least(kLeast, scratch_.floors[row] - margin);
  const size_t count = kernels::TakeNotBelow(scores, num_places(), floor, scratch_.near);
  const float risen = Floor(row, scratch_.near, count) - margin;
  kernels::MarkNotBelow(scores, num_places(), at_least(floor, risen), scratch_.candidates);
}

void ClusterSearch::OrderSlots() {
  uint32_t a = 0;
  auto b = static_cast<uint32_t>(num_first_);
  for (size_t i = 0; i < num_visited_; ++i) {
    const bool is_first =
        a < num_first_ && (b == num_visited_ || scratch_.clusters[a] < scratch_.clusters[b]);
    scratch_.order[i] = is_first ? a++ : b++;
  }
}

// The union of the rows' candidates by estimates, run by run.
void ClusterSearch::TakeCandidates() {
  std::memset(scratch_.candidates, 0, num_visited_ * sizeof(uint64_t));
  for (size_t r = 0; r < num_rows(); ++r) MarkCandidates(r);
  OrderSlots();
  size_t run = 0;
  for (size_t i = 0; i < num_visited_; ++i) {
    const uint32_t slot = scratch_.order[i];
    const size_t cluster = scratch_.clusters[slot];
    while (cluster >= scratch_.first_clusters[run + 1]) ++run;
    const ClusteredKeys& keys = KeysOf(run);
    const IndexRun& of = call_.runs[run];
    const size_t first_key = (cluster - scratch_.first_clusters[run]) * kClusterKeys;
    for (uint64_t bits = scratch_.candidates[slot]; bits != 0; bits &= bits - 1) {
      const uint32_t key = keys.KeyAt(first_key + static_cast<size_t>(std::countr_zero(bits)));
      scratch_.keys[num_candidates_] = key;
      scratch_.tokens[num_candidates_++] = of.first_token + key;
    }
  }
}

// For all runs alike, before the first is scored: a gather of a few rows has nothing to fetch
// ahead.
void ClusterSearch::FetchAhead(const storage::ListedRows& rows, size_t count) const {
  for (size_t i = 0; i < count; ++i) {
    const auto* const row =
        static_cast<const std::byte*>(kernels::RowsFrom(rows.rows, rows.list[i]).data);
    for (size_t at = 0; at < num_channels() * DTypeBytes(rows.rows.dtype); at += kAlignment) {
      kernels::PrefetchNear(row + at);
    }
  }
}

Status ClusterSearch::ScoreCandidates() {
  storage::RowLease& rows = *call_.rows;
  rows.Clear();
  size_t begin = 0;
  for (const IndexRun& run : call_.runs) {
    const auto end_token = static_cast<uint32_t>(run.first_token + run.num_visible);
    size_t end = begin;
    while (end < num_candidates_ && scratch_.tokens[end] < end_token) ++end;
    rows.RequestListed(run.strip, scratch_.keys + begin, end - begin);
    begin = end;
  }
  ATTNDB_RETURN_IF_ERROR(rows.Read());
  for (size_t i = 0; i < call_.runs.size(); ++i) {
    FetchAhead(rows.Listed(i), rows.requests()[i].count);
  }
  float* scores = scratch_.exact;
  for (size_t i = 0; i < call_.runs.size(); ++i) {
    const storage::ListedRows listed = rows.Listed(i);
    const size_t count = rows.requests()[i].count;
    kernels::ScoreGather(listed.rows, listed.list, count, call_.q, call_.q_stride, num_rows(),
                         scores, stride_);
    scores += count;
  }
  cost_->rows_read += num_candidates_;
  cost_->bytes_touched += num_candidates_ * num_channels() * DTypeBytes(call_.runs[0].keys.dtype);
  return Status::Ok();
}

void ClusterSearch::Choose(FoundKeys* found) {
  for (size_t r = 0; r < num_rows(); ++r) {
    const float* const exact = scratch_.exact + r * stride_;
    const size_t count =
        call_.spec.kind == SearchKind::kTopK
            ? kernels::SelectTopK(exact, num_candidates_, call_.spec.k, scratch_.selected,
                                  scratch_.select)
            : kernels::SelectRange(exact, num_candidates_, Floor(r, exact, num_candidates_),
                                   scratch_.selected);
    for (size_t i = 0; i < count; ++i) {
      found[r].tokens[i] = scratch_.tokens[scratch_.selected[i]];
      found[r].scores[i] = exact[scratch_.selected[i]];
    }
    found[r].count = count;
  }
}

Status ClusterSearch::Run(FoundKeys* found) {
  for (size_t r = 0; r < num_rows(); ++r) found[r].count = 0;
  if (num_clusters_ == 0) return Status::Ok();
  PrepareQueries();
  FindBounds();
  MarkBest();
  ScanMarked();
  num_first_ = num_visited_;
  FindFloors();
  MarkPromising();
  ScanMarked();
  TakeCandidates();
  ATTNDB_RETURN_IF_ERROR(ScoreCandidates());
  Choose(found);
  return Status::Ok();
}

size_t ClusteredKeys::ScratchBytes(const IndexCall& call) const {
  return ClusterSearch::ScratchBytes(call);
}

Status ClusteredKeys::Search(const IndexCall& call, void* scratch, FoundKeys* found,
                             SearchCost* cost) const {
  return ClusterSearch(call, scratch, cost).Run(found);
}

}  // namespace attndb::index
