#include "index/graph/roar_builder.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/checked_math.h"
#include "index/graph/graph_queues.h"
#include "index/graph/graph_sight.h"
#include "index/graph/neighbour_table.h"
#include "index/graph/training_queries.h"
#include "kernels/convert.h"
#include "kernels/score.h"
#include "kernels/select.h"

namespace attndb::index {
namespace {

constexpr size_t kPartKeys = 512;
constexpr size_t kQueriesAtOnce = 8;  // A scan of all keys is for so many.

// Sums of huge numbers may be NaN, which has no place in an order.
float Ordered(float score) {
  return score == score ? score : -std::numeric_limits<float>::infinity();
}

struct alignas(64) Line {
  std::byte bytes[64];
};

// The numbers of the largest scores, as many as `best` has room for, best first.
void TakeBest(std::span<const float> scores, std::span<uint32_t> best) {
  std::vector<Line> scratch(kernels::SelectTopKScratchBytes(scores.size()) / sizeof(Line) + 1);
  std::vector<uint32_t> indices(best.size() + kernels::kSelectSlack);
  const size_t count = kernels::SelectTopK(scores.data(), scores.size(), best.size(),
                                           indices.data(), scratch.data());
  std::sort(indices.begin(), indices.begin() + static_cast<ptrdiff_t>(count),
            [&](uint32_t a, uint32_t b) {
              const float of_a = Ordered(scores[a]), of_b = Ordered(scores[b]);
              return of_a != of_b ? of_a > of_b : a < b;
            });
  std::copy_n(indices.begin(), count, best.begin());
}

// Searches a graph that is being built, best first, for the keys that score highest with a key.
class KeySearch {
 public:
  KeySearch(const kernels::RowsView& keys, size_t num_keys, size_t window)
      : keys_(keys),
        window_(window),
        row_(keys.num_elements),
        sets_(2 * KeySet::Bytes(num_keys)),
        seen_(sets_.data(), num_keys),
        followed_(sets_.data() + KeySet::Bytes(num_keys), num_keys),
        room_(window),
        indices_(kMaxSlotIds + kernels::kSelectSlack),
        sorted_(kMaxSlotIds),
        scores_(kMaxSlotIds),
        tokens_(window),
        found_scores_(window) {}

  // The `window` best of the keys that it meets, without `key`.
  std::vector<uint32_t> Find(const std::vector<std::vector<uint32_t>>& lists, uint32_t key,
                             uint32_t entry_point) {
    kernels::LoadRows(keys_, key, 1, row_.data());
    seen_.Clear();
    followed_.Clear();
    queue_.Start({.k = static_cast<uint32_t>(window_)}, window_, room_.data());
    batch_ = {entry_point};
    seen_.Add(entry_point);
    seen_.Add(key);
    Offer();
    for (uint32_t next = queue_.Next(followed_); next != kNoKey; next = queue_.Next(followed_)) {
      followed_.Add(next);
      for (const uint32_t other : lists[next]) {
        if (seen_.Add(other)) batch_.push_back(other);
      }
      Offer();
    }
    FoundKeys found = {tokens_.data(), found_scores_.data(), 0};
    queue_.Finish(&found);
    std::vector<uint32_t> best(tokens_.begin(),
                               tokens_.begin() + static_cast<ptrdiff_t>(found.count));
    std::erase(best, key);  // It may be the entry point.
    return best;
  }

 private:
  void Offer() {
    kernels::ScoreGather(keys_, batch_.data(), batch_.size(), row_.data(), row_.size(), 1,
                         scores_.data(), scores_.size());
    queue_.Offer({batch_.data(), scores_.data(), batch_.size()}, {indices_.data(), sorted_.data()});
    batch_.clear();
  }

  const kernels::RowsView keys_;
  const size_t window_;
  std::vector<float> row_;
  std::vector<std::byte> sets_;
  KeySet seen_;
  KeySet followed_;
  TopQueue queue_;
  std::vector<Candidate> room_;
  std::vector<uint32_t> batch_;
  std::vector<uint32_t> indices_;
  std::vector<Candidate> sorted_;
  std::vector<float> scores_;
  std::vector<uint32_t> tokens_;
  std::vector<float> found_scores_;
};

// Calls of_key(key, work) of all keys; each part has a `make_work()` of its own.
template <typename MakeWork, typename OfKey>
void ForKeys(size_t num_keys, const RoarOptions& options, const MakeWork& make_work,
             const OfKey& of_key) {
  ForParts(options.pool, (num_keys + kPartKeys - 1) / kPartKeys, [&](uint32_t part) {
    auto work = make_work();
    const size_t end = std::min(num_keys, (part + size_t{1}) * kPartKeys);
    for (size_t key = part * kPartKeys; key < end; ++key) {
      if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) return;
      of_key(static_cast<uint32_t>(key), &work);
    }
  });
}

}  // namespace

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

GraphHeader RoarHeaderFor(const GraphShape& shape, size_t max_degree) {
  const size_t list_bits = 8 + 2 * max_degree * IdBits(shape.num_keys);
  return {
      .num_keys = shape.num_keys,
      .num_elements = static_cast<uint32_t>(shape.num_elements),
      .dtype = shape.dtype,
      .slot_bytes = static_cast<uint32_t>(std::max<size_t>(RoundUp((list_bits + 7) / 8, 8), 16)),
      .router_slot_bytes = 16};
}

RoarBuilder::RoarBuilder(const GraphSource& source, const RoarOptions& options)
    : source_(source), options_(options), num_keys_(source.num_keys) {}

Result<AlignedBuffer> RoarBuilder::Build(GraphHeader* header) {
  const Lists projected = Project(FindNearestKeys());
  entry_point_ = FindMedoid(projected);
  const Lists enhanced = Enhance(projected);
  if (Cancelled()) return Status::Cancelled("build of a graph");
  *header = RoarHeaderFor({num_keys_, source_.keys.num_elements, source_.keys.dtype},
                          options_.max_degree);
  header->entry_point = entry_point_;
  const size_t capacity = SlotCapacity(header->slot_bytes, IdBits(num_keys_));
  NeighbourTable table(num_keys_, std::min(2 * options_.max_degree, capacity));
  for (uint32_t key = 0; key < num_keys_; ++key) {
    table.Assign(key, projected[key]);
    for (const uint32_t id : enhanced[key]) table.Add(key, id);
  }
  table.ConnectAll(entry_point_);
  return table.Pack(*header);
}

NearestLists RoarBuilder::FindNearestKeys() const {
  const std::vector<const std::byte*> queries = TrainingQueries(source_, options_.max_queries);
  NearestLists nearest;
  nearest.length = std::min(options_.keys_per_query, num_keys_);
  nearest.ids.assign(queries.size() * nearest.length, kNoKey);
  const size_t width = source_.keys.num_elements;
  ForParts(options_.pool, (queries.size() + kQueriesAtOnce - 1) / kQueriesAtOnce,
           [&](uint32_t part) {
             if (Cancelled()) return;
             const size_t first = part * kQueriesAtOnce;
             const size_t count = std::min(kQueriesAtOnce, queries.size() - first);
             std::vector<float> rows(count * width), scores(count * num_keys_);
             for (size_t i = 0; i < count; ++i) {
               LoadTrainingQuery(source_, queries[first + i], rows.data() + i * width);
             }
             kernels::ScoreRows(source_.keys, num_keys_, rows.data(), width, count, scores.data(),
                                num_keys_);
             for (size_t i = 0; i < count; ++i) {
               TakeBest({scores.data() + i * num_keys_, num_keys_},
                        {nearest.ids.data() + (first + i) * nearest.length, nearest.length});
             }
           });
  return nearest;
}

RoarBuilder::Lists RoarBuilder::Project(const NearestLists& nearest) const {
  std::vector<uint32_t> query_of(num_keys_, kNoKey);
  for (uint32_t query = 0; query < nearest.num_lists() && !Cancelled(); ++query) {
    query_of[nearest.list(query)[0]] = query;
  }
  Lists lists(num_keys_);
  ForKeys(
      num_keys_, options_, [&] { return NeighbourPruner(source_.keys); },
      [&](uint32_t key, NeighbourPruner* pruner) {
        if (query_of[key] == kNoKey) return;
        lists[key] = pruner->Choose(key, nearest.list(query_of[key]).subspan(1),
                                    options_.max_degree, /*fills=*/true);
      });
  LinkBack(/*fills=*/true, &lists);
  return lists;
}

RoarBuilder::Lists RoarBuilder::Enhance(const Lists& projected) const {
  struct Work {
    KeySearch search;
    NeighbourPruner pruner;
  };
  Lists lists(num_keys_);
  const size_t window = std::min(options_.search_window, num_keys_);
  ForKeys(
      num_keys_, options_,
      [&] {
        return Work{{source_.keys, num_keys_, window}, NeighbourPruner(source_.keys)};
      },
      [&](uint32_t key, Work* work) {
        lists[key] = work->pruner.Choose(key, work->search.Find(projected, key, entry_point_),
                                         options_.max_degree, /*fills=*/false);
      });
  LinkBack(/*fills=*/false, &lists);
  return lists;
}

void RoarBuilder::LinkBack(bool fills, Lists* lists) const {
  Lists linking(num_keys_);
  for (uint32_t key = 0; key < num_keys_; ++key) {
    for (const uint32_t id : (*lists)[key]) linking[id].push_back(key);
  }
  ForKeys(
      num_keys_, options_, [&] { return NeighbourPruner(source_.keys); },
      [&](uint32_t key, NeighbourPruner* pruner) {
        std::vector<uint32_t>& list = (*lists)[key];
        const std::vector<uint32_t> own = list;
        for (const uint32_t id : linking[key]) {
          if (std::ranges::find(own, id) == own.end()) list.push_back(id);
        }
        if (list.size() <= options_.max_degree) return;
        list = pruner->Choose(key, list, options_.max_degree, fills);
      });
}

// Of the keys that the projection linked, the nearest to the mean of all.
uint32_t RoarBuilder::FindMedoid(const Lists& projected) const {
  const size_t width = source_.keys.num_elements;
  std::vector<float> row(width);
  std::vector<double> mean(width);
  for (size_t key = 0; key < num_keys_; ++key) {
    kernels::LoadRows(source_.keys, key, 1, row.data());
    for (size_t d = 0; d < width; ++d) mean[d] += double{row[d]} / static_cast<double>(num_keys_);
  }
  uint32_t nearest = 0;
  double least = std::numeric_limits<double>::infinity();
  for (uint32_t key = 0; key < num_keys_; ++key) {
    if (projected[key].empty()) continue;
    kernels::LoadRows(source_.keys, key, 1, row.data());
    double distance = 0;
    for (size_t d = 0; d < width; ++d) distance += (row[d] - mean[d]) * (row[d] - mean[d]);
    if (distance >= least) continue;
    nearest = key;
    least = distance;
  }
  return nearest;
}

}  // namespace attndb::index
