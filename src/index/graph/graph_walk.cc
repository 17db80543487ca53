#include "index/graph/graph_walk.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "common/check.h"
#include "index/graph/graph_list_walk.h"
#include "index/graph/graph_queues.h"
#include "index/graph/graph_sight.h"
#include "kernels/score.h"

namespace attndb::index {
namespace {

// A walk starts at the keys of kStartRouters routers for each q row. It finds them among the first
// kRouters, which are spread over all training queries.
constexpr size_t kRouters = 256;
constexpr size_t kStartRouters = 4;

// Keys that a row follows in one step. More keys make longer batches, whose rows memory delivers at
// the same time, but also follow keys that better ones would have displaced.
constexpr size_t kStepKeys = 4;

// The number of visible keys, over the search window, up to which all are scored. Their rows are
// read in order, at a sixth of the cost of scattered rows, and a walk would see through most keys
// that it meets.
constexpr size_t kScanFactor = 32;

constexpr size_t kDefaultRangeEffort = 192;

size_t Window(const WalkCall& call) {
  const size_t k = std::max<size_t>(call.spec.k, 1);
  const size_t wanted =
      call.spec.effort > 0 ? static_cast<size_t>(call.spec.effort) : 3 * (k - call.spec.spare);
  return std::min(std::max(wanted, k), call.num_visible - call.first_visible);
}

size_t RangeEffort(const WalkCall& call) {
  return call.spec.effort > 0 ? static_cast<size_t>(call.spec.effort) : kDefaultRangeEffort;
}

bool ScansAll(const WalkCall& call) {
  const size_t window = call.spec.kind == SearchKind::kTopK ? Window(call) : RangeEffort(call);
  return call.num_visible - call.first_visible <= kScanFactor * window;
}

size_t NumStartRouters(const GraphView& graph) {
  return std::min<size_t>(kRouters, graph.header.num_routers);
}

struct WalkScratch {
  WalkScratch(const GraphView& graph, const WalkCall& call, void* scratch) : pieces(scratch) {
    const size_t set_bytes = KeySet::Bytes(graph.header.num_keys);
    sets = pieces.Take<std::byte>(KeySight::NumSets(graph, call) * set_bytes);
    followed = pieces.Take<uint64_t>(set_bytes / sizeof(uint64_t));
    const size_t rows = call.num_q_rows;
    batch = pieces.Take<uint32_t>(kBatchKeys + 1);  // A key that was seen is written, too.
    listed = pieces.Take<uint32_t>(kBatchKeys);
    work.indices = pieces.Take<uint32_t>(kBatchKeys + kernels::kSelectSlack);
    work.sorted = pieces.Take<Candidate>(kBatchKeys);
    scores = pieces.Take<float>(rows * std::max(kBatchKeys, kRouters));
    queues = pieces.Take<std::byte>(rows * std::max(sizeof(TopQueue), sizeof(RangeQueue)));
    room_stride = call.spec.kind == SearchKind::kTopK ? Window(call) : call.num_visible;
    room = pieces.Take<Candidate>(rows * room_stride);
  }

  SearchScratch pieces;
  std::byte* sets;
  uint64_t* followed;
  uint32_t* batch;
  uint32_t* listed;
  OfferWork work;
  float* scores;  // [q row][kBatchKeys].
  std::byte* queues;
  size_t room_stride = 0;
  Candidate* room;  // [q row][room_stride].
};

template <typename Queue>
class Walk {
 public:
  Walk(const GraphView& graph, const WalkCall& call, const WalkScratch& scratch, Queue* queues,
       SearchCost* cost)
      : graph_(graph),
        call_(call),
        sight_(graph, call, scratch.sets, cost),
        scorer_(call, scratch.listed),
        followed_(scratch.followed, graph.header.num_keys),
        batch_(scratch.batch),
        work_(scratch.work),
        scores_(scratch.scores),
        queues_(queues),
        cost_(*cost) {}

  // Scores all visible keys.
  Status Scan() {
    for (size_t first = call_.first_visible; first < call_.num_visible; first += kBatchKeys) {
      const size_t count = std::min(kBatchKeys, call_.num_visible - first);
      ATTNDB_RETURN_IF_ERROR(ScoreRange(first, count));
      std::iota(batch_, batch_ + count, static_cast<uint32_t>(first));
      Offer(count);
    }
    return Status::Ok();
  }

  Status Run() {
    See(graph_.header.entry_point);
    SeeRouters();
    if (sight_.hides_keys()) SeeSpacedKeys();
    ScoreBatch();
    while (status_.ok() && Step()) {
    }
    return std::move(status_);
  }

 private:
  // False if no row had a key to follow.
  bool Step() {
    bool any = false;
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      for (size_t i = 0; i < kStepKeys; ++i) {
        const uint32_t key = queues_[r].Next(followed_);
        if (key == kNoKey) break;
        followed_.Add(key);
        any = true;
        Follow(key);
      }
    }
    cost_.hops += static_cast<uint64_t>(any);
    ScoreBatch();
    return any;
  }

  void Follow(uint32_t key) {
    if (sight_.hides_keys()) return sight_.SeeFrom(key, [&](uint32_t id) { Append(id); });
    uint32_t ids[kMaxSlotIds];
    const size_t count = graph_.neighbours.Read(key, ids);
    cost_.bytes_touched += graph_.header.slot_bytes;
    if (num_batch_ + count > kBatchKeys) ScoreBatch();
    for (size_t j = 0; j < count; ++j) {
      // Whether it was seen cannot be guessed, so nothing branches on it.
      scorer_.Prefetch(ids[j]);
      batch_[num_batch_] = ids[j];
      num_batch_ += static_cast<size_t>(sight_.seen().Add(ids[j]));
    }
  }

  void See(uint32_t key) {
    sight_.See(key, [&](uint32_t id) { Append(id); });
  }

  void Append(uint32_t key) {
    scorer_.Prefetch(key);
    batch_[num_batch_++] = key;
    if (num_batch_ == kBatchKeys) ScoreBatch();
  }

  // Nothing once a read has failed.
  void ScoreBatch() {
    if (num_batch_ == 0) return;
    if (status_.ok()) {
      status_ = scorer_.Score(batch_, num_batch_, call_.q, call_.num_q_rows, scores_);
    }
    if (status_.ok()) Offer(num_batch_);
    num_batch_ = 0;
  }

  Status ScoreRange(size_t first, size_t count) {
    call_.rows->Clear();
    call_.rows->Request(call_.strip, call_.first_key + first, count);
    ATTNDB_RETURN_IF_ERROR(call_.rows->Read());
    uint64_t num_rows = 0;
    for (size_t from = 0; from < count; from += num_rows) {
      const kernels::RowsView rows = call_.rows->Piece(0, from, &num_rows);
      kernels::ScoreRows(rows, num_rows, call_.q, call_.q_stride, call_.num_q_rows, scores_ + from,
                         kBatchKeys);
    }
    return Status::Ok();
  }

  void SeeRouters() {
    const size_t num_routers = NumStartRouters(graph_);
    if (num_routers == 0) return;
    kernels::ScoreRows(graph_.router_rows, num_routers, call_.q, call_.q_stride, call_.num_q_rows,
                       scores_, kRouters);
    cost_.keys_scored += num_routers * call_.num_q_rows;
    cost_.bytes_touched += num_routers * scorer_.row_bytes();
    uint32_t starts[kStartRouters];
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      const size_t count = BestRouters(scores_ + r * kRouters, num_routers, starts);
      for (size_t i = 0; i < count; ++i) {
        uint32_t ids[kMaxSlotIds];
        const size_t num_ids = std::min(kRouterKeys, graph_.router_keys.Read(starts[i], ids));
        cost_.bytes_touched += graph_.header.router_slot_bytes;
        for (size_t j = 0; j < num_ids; ++j) start_keys_[num_start_++] = ids[j];
      }
      // Scores of the routers lie where a batch's would.
      if (num_start_ + kStartRouters * kRouterKeys > kMaxStart) break;
    }
    for (size_t i = 0; i < num_start_; ++i) See(start_keys_[i]);
  }

  // If the keys on the way to the best are filtered out, some visible keys are still in sight.
  void SeeSpacedKeys() {
    constexpr size_t kSpacedKeys = 16;
    for (size_t i = 0; i < kSpacedKeys; ++i) {
      const size_t num_visible = call_.num_visible - call_.first_visible;
      See(static_cast<uint32_t>(call_.first_visible + i * num_visible / kSpacedKeys));
    }
  }

  // Routers whose best key is visible, best first.
  size_t BestRouters(const float* scores, size_t num_routers, uint32_t* best) const {
    size_t count = 0;
    for (uint32_t i = 0; i < num_routers; ++i) {
      if (sight_.hides_keys() && !sight_.IsVisible(graph_.router_keys.First(i))) continue;
      if (count == kStartRouters && !(scores[i] > scores[best[count - 1]])) continue;
      size_t at = count < kStartRouters ? count++ : count - 1;
      for (; at > 0 && scores[i] > scores[best[at - 1]]; --at) best[at] = best[at - 1];
      best[at] = i;
    }
    return count;
  }

  // Offers the scored keys of the batch to each row's queue.
  void Offer(size_t num_rows) {
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      queues_[r].Offer({batch_, scores_ + r * kBatchKeys, num_rows}, work_);
    }
    cost_.rows_read += num_rows;
    cost_.keys_scored += num_rows * call_.num_q_rows;
    cost_.bytes_touched += num_rows * scorer_.row_bytes();
  }

  // Start keys of all rows. Rows past the first 16 start where these lead.
  static constexpr size_t kMaxStart = 16 * kStartRouters * kRouterKeys;

  const GraphView& graph_;
  const WalkCall& call_;
  KeySight sight_;
  KeyScorer scorer_;
  KeySet followed_;
  uint32_t* batch_;
  OfferWork work_;
  size_t num_batch_ = 0;
  float* scores_;
  Queue* queues_;
  Status status_;  // Error of the first read that failed.
  SearchCost& cost_;
  uint32_t start_keys_[kMaxStart];
  size_t num_start_ = 0;
};

template <typename Queue>
Status Run(const GraphView& graph, const WalkCall& call, const WalkScratch& scratch,
           FoundKeys* found, SearchCost* cost) {
  static_assert(std::is_trivially_destructible_v<Queue>);
  Queue* const queues = reinterpret_cast<Queue*>(scratch.queues);
  for (size_t r = 0; r < call.num_q_rows; ++r) {
    Queue* const queue = ::new (queues + r) Queue;
    Candidate* const room = scratch.room + r * scratch.room_stride;
    const float best =
        call.best == nullptr ? -std::numeric_limits<float>::infinity() : call.best[r];
    if constexpr (std::is_same_v<Queue, TopQueue>) {
      queue->Start(call.spec, Window(call), room);
    } else {
      queue->Start(call.spec, RangeEffort(call), best, &found[r], room);
    }
  }
  Walk<Queue> walk(graph, call, scratch, queues, cost);
  const bool scans_all = ScansAll(call);
  cost->full_scans += static_cast<uint64_t>(scans_all);
  ATTNDB_RETURN_IF_ERROR(scans_all ? walk.Scan() : walk.Run());
  for (size_t r = 0; r < call.num_q_rows; ++r) queues[r].Finish(&found[r]);
  return Status::Ok();
}

bool WalksList(const WalkCall& call) {
  return call.spec.kind == SearchKind::kRange && call.spec.range_walk == RangeWalk::kListOrder;
}

}  // namespace

size_t WalkScratchBytes(const GraphView& graph, const WalkCall& call) {
  if (WalksList(call)) return ListWalkScratchBytes(graph, call);
  return WalkScratch(graph, call, nullptr).pieces.num_bytes();
}

Status WalkGraph(const GraphView& graph, const WalkCall& call, void* scratch, FoundKeys* found,
                 SearchCost* cost) {
  if (WalksList(call)) return WalkInListOrder(graph, call, scratch, found, cost);
  const WalkScratch pieces(graph, call, scratch);
  if (call.spec.kind == SearchKind::kTopK) return Run<TopQueue>(graph, call, pieces, found, cost);
  return Run<RangeQueue>(graph, call, pieces, found, cost);
}

}  // namespace attndb::index
