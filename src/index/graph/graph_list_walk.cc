#include "index/graph/graph_list_walk.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "index/graph/graph_queues.h"
#include "index/graph/graph_sight.h"

namespace attndb::index {
namespace {

struct ListWalkScratch {
  ListWalkScratch(const GraphView& graph, const WalkCall& call, void* scratch) : pieces(scratch) {
    sets = pieces.Take<std::byte>(KeySight::NumSets(graph, call) *
                                  KeySet::Bytes(graph.header.num_keys));
    batch = pieces.Take<uint32_t>(kBatchKeys);
    listed = pieces.Take<uint32_t>(kBatchKeys);
    scores = pieces.Take<float>(kBatchKeys);
  }

  SearchScratch pieces;
  std::byte* sets;
  uint32_t* batch;
  uint32_t* listed;
  float* scores;
};

class ListWalk {
 public:
  ListWalk(const GraphView& graph, const WalkCall& call, const ListWalkScratch& scratch,
           SearchCost* cost)
      : call_(call),
        start_(std::clamp(graph.header.entry_point, static_cast<uint32_t>(call.first_visible),
                          static_cast<uint32_t>(call.num_visible - 1))),
        sight_(graph, call, scratch.sets, cost),
        scorer_(call, scratch.listed),
        batch_(scratch.batch),
        scores_(scratch.scores),
        cost_(*cost) {}

  Status Run(size_t row, FoundKeys* found) {
    const float best =
        call_.best == nullptr ? -std::numeric_limits<float>::infinity() : call_.best[row];
    row_ = row;
    list_.Start(call_.spec, best, found);
    sight_.Clear();
    sight_.See(start_, [&](uint32_t key) { Append(key); });
    ScoreBatch();
    for (size_t i = 0; i < list_.size() && status_.ok(); ++i) {
      sight_.SeeFrom(list_.key(i), [&](uint32_t key) { Append(key); });
      ScoreBatch();
      ++cost_.hops;
    }
    list_.Finish();
    return std::exchange(status_, Status::Ok());
  }

 private:
  void Append(uint32_t key) {
    scorer_.Prefetch(key);
    batch_[num_batch_++] = key;
    if (num_batch_ == kBatchKeys) ScoreBatch();
  }

  // Nothing once a read has failed.
  void ScoreBatch() {
    const size_t count = std::exchange(num_batch_, 0);
    if (count == 0 || !status_.ok()) return;
    status_ = scorer_.Score(batch_, count, call_.q + row_ * call_.q_stride, 1, scores_);
    if (!status_.ok()) return;
    cost_.rows_read += count;
    cost_.keys_scored += count;
    cost_.bytes_touched += count * scorer_.row_bytes();
    for (size_t i = 0; i < count; ++i) TryAppend(batch_[i], scores_[i]);
  }

  // The best score is that of the list before this key (line 11). The start key is appended with
  // any score (line 1).
  void TryAppend(uint32_t key, float score) {
    if (list_.size() > call_.spec.list_threshold && !list_.InRange(score)) return;
    list_.Append(key, score);
    list_.See(score);
  }

  const WalkCall& call_;
  const uint32_t start_;
  KeySight sight_;
  KeyScorer scorer_;
  RangeFound list_;
  uint32_t* batch_;
  float* scores_;
  size_t num_batch_ = 0;
  size_t row_ = 0;
  Status status_;  // Error of the first read that failed.
  SearchCost& cost_;
};

}  // namespace

size_t ListWalkScratchBytes(const GraphView& graph, const WalkCall& call) {
  return ListWalkScratch(graph, call, nullptr).pieces.num_bytes();
}

Status WalkInListOrder(const GraphView& graph, const WalkCall& call, void* scratch,
                       FoundKeys* found, SearchCost* cost) {
  const ListWalkScratch pieces(graph, call, scratch);
  ListWalk walk(graph, call, pieces, cost);
  for (size_t row = 0; row < call.num_q_rows; ++row) {
    ATTNDB_RETURN_IF_ERROR(walk.Run(row, &found[row]));
  }
  return Status::Ok();
}

}  // namespace attndb::index
