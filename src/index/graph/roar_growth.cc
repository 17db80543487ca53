#include "index/graph/roar_growth.h"

#include <algorithm>
#include <span>

#include "common/checked_math.h"
#include "index/graph/exact_nearest.h"
#include "index/graph/neighbour_table.h"
#include "index/graph/roar_builder.h"
#include "index/graph/training_queries.h"
#include "kernels/convert.h"

namespace attndb::index {

RoarGrower::RoarGrower(const GraphSource& source, const GraphView& prior,
                       const RoarOptions& options)
    : source_(source),
      prior_(prior),
      options_(options),
      num_old_(prior.header.num_keys),
      num_keys_(source.num_keys),
      lists_(num_keys_) {}

Result<AlignedBuffer> RoarGrower::Grow(GraphHeader* header) {
  CopyPrior();
  ATTNDB_ASSIGN_OR_RETURN(const Queries queries, LoadQueries());
  Insert(queries);
  LinkBack();
  if (Cancelled()) return Status::Cancelled("growth of a graph");
  *header = RoarHeaderFor({num_keys_, source_.keys.num_elements, source_.keys.dtype},
                          options_.max_degree);
  header->entry_point = prior_.header.entry_point;
  NeighbourTable table(num_keys_, 2 * options_.max_degree);
  for (size_t key = 0; key < num_keys_; ++key) table.Assign(key, lists_[key]);
  table.ConnectAll(header->entry_point);
  return table.Pack(*header);
}

// A prior graph with a larger M keeps the first part of its lists: the neighbours of the
// projection.
void RoarGrower::CopyPrior() {
  for (size_t key = 0; key < num_old_; ++key) {
    std::vector<uint32_t>& list = lists_[key];
    list.resize(kMaxSlotIds);
    list.resize(std::min(prior_.neighbours.Read(key, list.data()), 2 * options_.max_degree));
  }
}

Result<RoarGrower::Queries> RoarGrower::LoadQueries() const {
  GraphSource old = WithQueriesBefore(source_, num_old_);
  old.num_keys = num_old_;
  const std::vector<const std::byte*> rows = TrainingQueries(old, options_);

  const size_t width = source_.keys.num_elements;
  const CheckedSize num_bytes = CheckedMul(rows.size(), width * sizeof(float));
  if (!num_bytes) return Status::ResourceExhausted("growth of a graph: too many training queries");
  Queries queries = {.rows = {}, .num = rows.size()};
  ATTNDB_ASSIGN_OR_RETURN(queries.rows, AlignedBuffer::Allocate(*num_bytes));
  auto* const to = reinterpret_cast<float*>(queries.rows.data());
  for (size_t i = 0; i < rows.size(); ++i) LoadTrainingQuery(source_, rows[i], to + i * width);
  return queries;
}

std::vector<uint32_t> RoarGrower::FindClosest(const Queries& queries) const {
  const size_t width = source_.keys.num_elements;
  return FindExactNearest(
             {.rows = {queries.rows.data(), width, width, DType::kFloat32},
              .num_rows = queries.num,
              .num_queries = num_keys_ - num_old_,
              .load = [&](size_t i,
                          float* row) { kernels::LoadRows(source_.keys, num_old_ + i, 1, row); },
              .length = 1,
              .pool = options_.pool,
              .cancel = options_.cancel})
      .ids;
}

NearestLists RoarGrower::FindNearestKeys(const Queries& queries,
                                         const std::vector<uint32_t>& which) const {
  const size_t width = source_.keys.num_elements;
  const auto* const rows = reinterpret_cast<const float*>(queries.rows.data());
  return FindExactNearest(
      {.rows = source_.keys,
       .num_rows = num_old_,
       .num_queries = which.size(),
       .load = [&](size_t i, float* row) { std::copy_n(rows + which[i] * width, width, row); },
       .length = options_.keys_per_query,
       .pool = options_.pool,
       .cancel = options_.cancel});
}

void RoarGrower::Insert(const Queries& queries) {
  const std::vector<uint32_t> closest = FindClosest(queries);
  if (Cancelled()) return;
  std::vector<uint32_t> found = closest;
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const NearestLists nearest = FindNearestKeys(queries, found);
  if (Cancelled()) return;
  ForKeys(
      {num_old_, num_keys_}, options_, [&] { return NeighbourPruner(source_.keys); },
      [&](uint32_t key, NeighbourPruner* pruner) {
        const auto query = std::ranges::lower_bound(found, closest[key - num_old_]);
        lists_[key] = pruner->Choose(key, nearest.list(static_cast<size_t>(query - found.begin())),
                                     options_.max_degree, /*fills=*/true);
      });
}

void RoarGrower::LinkBack() {
  NeighbourLists linking(num_old_);
  for (size_t key = num_old_; key < num_keys_; ++key) {
    for (const uint32_t id : lists_[key]) linking[id].push_back(static_cast<uint32_t>(key));
  }
  ForKeys(
      {0, num_old_}, options_, [&] { return NeighbourPruner(source_.keys); },
      [&](uint32_t key, NeighbourPruner* pruner) {
        std::vector<uint32_t>& list = lists_[key];
        list.insert(list.end(), linking[key].begin(), linking[key].end());
        const size_t most = 2 * options_.max_degree;
        if (list.size() > most) list = pruner->Choose(key, list, most, /*fills=*/true);
      });
}

}  // namespace attndb::index
