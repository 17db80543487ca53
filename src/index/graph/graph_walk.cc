#include "index/graph/graph_walk.h"

#include <algorithm>
#include <numeric>
#include <type_traits>
#include <utility>

#include "common/check.h"
#include "common/checked_math.h"
#include "index/graph/graph_queues.h"
#include "kernels/prefetch.h"
#include "kernels/score.h"

namespace attndb::index {
namespace {

// Keys of a batch: what comes into sight is scored by so many at most.
constexpr size_t kBatchKeys = 256;

// A walk starts at the keys of so many routers for each q row, found among the first kRouters of
// them: the first of each spread over all of the training queries.
constexpr size_t kRouters = 256;
constexpr size_t kStartRouters = 4;

// Keys that a row follows in one step. More make longer batches, whose rows memory brings at the
// same time, and follow keys that better ones would have displaced.
constexpr size_t kStepKeys = 4;

// Visible keys up to which all are scored, over the search window: their rows are read in order, at
// a sixth of what rows here and there cost, and a walk would see through most of what it meets.
constexpr size_t kScanFactor = 32;

constexpr size_t kDefaultRangeEffort = 192;

size_t Window(const WalkCall& call) {
  const size_t k = std::max<size_t>(call.spec.k, 1);
  const size_t wanted = call.spec.effort > 0 ? static_cast<size_t>(call.spec.effort) : 3 * k;
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

// Whether some keys of the graph may not be found.
bool HidesKeys(const GraphView& graph, const WalkCall& call) {
  return call.first_visible > 0 || call.num_visible < graph.header.num_keys;
}

// Pieces of scratch, each at a multiple of 64 bytes.
struct WalkScratch {
  WalkScratch(const GraphView& graph, const WalkCall& call, RangeWalk range_walk, void* scratch)
      : data(static_cast<std::byte*>(scratch)) {
    const size_t num_keys = graph.header.num_keys;
    seen = Take<uint64_t>(KeySet::Bytes(num_keys) / sizeof(uint64_t));
    followed = Take<uint64_t>(KeySet::Bytes(num_keys) / sizeof(uint64_t));
    const size_t rows = call.num_q_rows;
    batch = Take<uint32_t>(kBatchKeys + 1);  // A key that was seen is written, too.
    listed = Take<uint32_t>(kBatchKeys);
    work.indices = Take<uint32_t>(kBatchKeys + kernels::kSelectSlack);
    work.sorted = Take<Candidate>(kBatchKeys);
    scores = Take<float>(rows * std::max(kBatchKeys, kRouters));
    queues =
        Take<std::byte>(rows * std::max({sizeof(TopQueue), sizeof(RangeQueue), sizeof(ListQueue)}));
    if (call.spec.kind == SearchKind::kTopK) {
      room_stride = Window(call);
    } else if (range_walk == RangeWalk::kBestFirst) {
      room_stride = call.num_visible;
    }
    room = Take<Candidate>(rows * room_stride);
  }

  template <typename T>
  T* Take(size_t count) {
    // Null: who only asks for the bytes.
    std::byte* const piece = data == nullptr ? nullptr : data + num_bytes;
    num_bytes += RoundUp(count * sizeof(T), 64);
    return reinterpret_cast<T*>(piece);
  }

  std::byte* data;
  size_t num_bytes = 0;
  uint64_t* seen;
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
        hides_keys_(HidesKeys(graph, call)),
        seen_(scratch.seen, graph.header.num_keys),
        followed_(scratch.followed, graph.header.num_keys),
        batch_(scratch.batch),
        listed_(scratch.listed),
        work_(scratch.work),
        scores_(scratch.scores),
        queues_(queues),
        row_bytes_(call.keys.num_elements * DTypeBytes(call.keys.dtype)),
        resident_(static_cast<const std::byte*>(call.rows->Resident(call.strip))),
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
    if (hides_keys_) SeeSpacedKeys();
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
    uint32_t ids[kMaxSlotIds];
    const size_t count = graph_.neighbours.Read(key, ids);
    cost_.bytes_touched += graph_.header.slot_bytes;
    if (hides_keys_) {
      for (size_t j = 0; j < count; ++j) See(ids[j]);
      return;
    }
    if (num_batch_ + count > kBatchKeys) ScoreBatch();
    for (size_t j = 0; j < count; ++j) {
      // Whether it was seen cannot be guessed, so nothing branches on it.
      PrefetchRow(ids[j]);
      batch_[num_batch_] = ids[j];
      num_batch_ += static_cast<size_t>(seen_.Add(ids[j]));
    }
  }

  void PrefetchRow(uint32_t key) const {
    if (resident_ == nullptr) return;
    const std::byte* const row = resident_ + (call_.first_key + key) * row_bytes_;
    for (size_t byte = 0; byte < row_bytes_; byte += 64) kernels::PrefetchNear(row + byte);
  }

  bool IsVisible(uint32_t key) const {
    return key >= call_.first_visible && key < call_.num_visible;
  }

  // Puts the key into the batch, or what it leads to if it is filtered out.
  void See(uint32_t key) {
    if (!seen_.Add(key)) return;
    if (IsVisible(key)) return Append(key);
    uint32_t ids[kMaxSlotIds];
    const size_t count = graph_.neighbours.Read(key, ids);
    cost_.bytes_touched += graph_.header.slot_bytes;
    for (size_t j = 0; j < count; ++j) {
      // Those that are filtered out too stay unseen: a key in sight may lead to them.
      if (IsVisible(ids[j]) && seen_.Add(ids[j])) Append(ids[j]);
    }
  }

  void Append(uint32_t key) {
    PrefetchRow(key);
    batch_[num_batch_++] = key;
    if (num_batch_ == kBatchKeys) ScoreBatch();
  }

  // Nothing once a read has failed.
  void ScoreBatch() {
    if (num_batch_ == 0) return;
    if (status_.ok()) status_ = ScoreListed();
    if (status_.ok()) Offer(num_batch_);
    num_batch_ = 0;
  }

  Status ScoreListed() {
    const auto first_key = static_cast<uint32_t>(call_.first_key);
    for (size_t i = 0; i < num_batch_; ++i) listed_[i] = first_key + batch_[i];
    call_.rows->Clear();
    call_.rows->RequestListed(call_.strip, listed_, num_batch_);
    ATTNDB_RETURN_IF_ERROR(call_.rows->Read());
    const storage::ListedRows rows = call_.rows->Listed(0);
    kernels::ScoreGather(rows.rows, rows.list, num_batch_, call_.q, call_.q_stride,
                         call_.num_q_rows, scores_, kBatchKeys);
    return Status::Ok();
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
    cost_.bytes_touched += num_routers * row_bytes_;
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

  // Where what leads to the best is filtered out, something visible still is in sight.
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
      if (hides_keys_ && !IsVisible(graph_.router_keys.First(i))) continue;
      if (count == kStartRouters && !(scores[i] > scores[best[count - 1]])) continue;
      size_t at = count < kStartRouters ? count++ : count - 1;
      for (; at > 0 && scores[i] > scores[best[at - 1]]; --at) best[at] = best[at - 1];
      best[at] = i;
    }
    return count;
  }

  // Of the batch, whose scores are there.
  void Offer(size_t num_rows) {
    for (size_t r = 0; r < call_.num_q_rows; ++r) {
      queues_[r].Offer({batch_, scores_ + r * kBatchKeys, num_rows}, work_);
    }
    cost_.rows_read += num_rows;
    cost_.keys_scored += num_rows * call_.num_q_rows;
    cost_.bytes_touched += num_rows * row_bytes_;
  }

  // Start keys of all rows; those of rows past the first 16 start where these lead.
  static constexpr size_t kMaxStart = 16 * kStartRouters * kRouterKeys;

  const GraphView& graph_;
  const WalkCall& call_;
  const bool hides_keys_;
  KeySet seen_;
  KeySet followed_;
  uint32_t* batch_;
  uint32_t* listed_;  // The batch, as rows of the strip.
  OfferWork work_;
  size_t num_batch_ = 0;
  float* scores_;
  Queue* queues_;
  size_t row_bytes_;
  const std::byte* resident_;  // Row 0 of the strip, or null.
  Status status_;              // Of the first read that failed.
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
    } else if constexpr (std::is_same_v<Queue, RangeQueue>) {
      queue->Start(call.spec, RangeEffort(call), best, &found[r], room);
    } else {
      queue->Start(call.spec, RangeEffort(call), best, &found[r]);
    }
  }
  Walk<Queue> walk(graph, call, scratch, queues, cost);
  const bool scans_all = ScansAll(call);
  cost->full_scans += static_cast<uint64_t>(scans_all);
  ATTNDB_RETURN_IF_ERROR(scans_all ? walk.Scan() : walk.Run());
  for (size_t r = 0; r < call.num_q_rows; ++r) queues[r].Finish(&found[r]);
  return Status::Ok();
}

}  // namespace

size_t WalkScratchBytes(const GraphView& graph, const WalkCall& call, RangeWalk range_walk) {
  return WalkScratch(graph, call, range_walk, nullptr).num_bytes;
}

Status WalkGraph(const GraphView& graph, const WalkCall& call, RangeWalk range_walk, void* scratch,
                 FoundKeys* found, SearchCost* cost) {
  const WalkScratch pieces(graph, call, range_walk, scratch);
  if (call.spec.kind == SearchKind::kTopK) return Run<TopQueue>(graph, call, pieces, found, cost);
  if (range_walk == RangeWalk::kBestFirst) {
    return Run<RangeQueue>(graph, call, pieces, found, cost);
  }
  return Run<ListQueue>(graph, call, pieces, found, cost);
}

}  // namespace attndb::index
