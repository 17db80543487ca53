#include "index/graph/roar_builder.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "common/checked_math.h"
#include "index/graph/exact_nearest.h"
#include "index/graph/graph_queues.h"
#include "index/graph/graph_sight.h"
#include "index/graph/neighbour_table.h"
#include "index/graph/training_queries.h"
#include "kernels/convert.h"
#include "kernels/score.h"

namespace attndb::index {
namespace {

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
  std::vector<uint32_t> Find(const NeighbourLists& lists, uint32_t key, uint32_t entry_point) {
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

}  // namespace

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
  const NeighbourLists projected = Project(FindNearestKeys());
  entry_point_ = FindMedoid(projected);
  const NeighbourLists enhanced = Enhance(projected);
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
  const std::vector<const std::byte*> queries = TrainingQueries(source_, options_);
  return FindExactNearest(
      {.rows = source_.keys,
       .num_rows = num_keys_,
       .num_queries = queries.size(),
       .load = [&](size_t i, float* row) { LoadTrainingQuery(source_, queries[i], row); },
       .length = options_.keys_per_query,
       .pool = options_.pool,
       .cancel = options_.cancel});
}

NeighbourLists RoarBuilder::Project(const NearestLists& nearest) const {
  std::vector<uint32_t> query_of(num_keys_, kNoKey);
  for (uint32_t query = 0; query < nearest.num_lists() && !Cancelled(); ++query) {
    query_of[nearest.list(query)[0]] = query;
  }
  NeighbourLists lists(num_keys_);
  ForKeys(
      {0, num_keys_}, options_, [&] { return NeighbourPruner(source_.keys); },
      [&](uint32_t key, NeighbourPruner* pruner) {
        if (query_of[key] == kNoKey) return;
        lists[key] = pruner->Choose(key, nearest.list(query_of[key]).subspan(1),
                                    options_.max_degree, /*fills=*/true);
      });
  LinkBack(/*fills=*/true, &lists);
  return lists;
}

NeighbourLists RoarBuilder::Enhance(const NeighbourLists& projected) const {
  struct Work {
    KeySearch search;
    NeighbourPruner pruner;
  };
  NeighbourLists lists(num_keys_);
  const size_t window = std::min(options_.search_window, num_keys_);
  ForKeys(
      {0, num_keys_}, options_,
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

void RoarBuilder::LinkBack(bool fills, NeighbourLists* lists) const {
  NeighbourLists linking(num_keys_);
  for (uint32_t key = 0; key < num_keys_; ++key) {
    for (const uint32_t id : (*lists)[key]) linking[id].push_back(key);
  }
  ForKeys(
      {0, num_keys_}, options_, [&] { return NeighbourPruner(source_.keys); },
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

// The nearest to the mean of all keys among the keys that the projection linked.
uint32_t RoarBuilder::FindMedoid(const NeighbourLists& projected) const {
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
