#include "index/graph/graph_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/checked_math.h"
#include "common/lane_sum.h"
#include "index/graph/graph_neighbours.h"
#include "index/graph/training_queries.h"
#include "kernels/convert.h"

namespace attndb::index {
namespace {

// A key is linked by the lists that have it among the first kPivotRanks, and by further lists until
// it has kLeastLists. RoarGraph uses only the first rank, and only the last of several lists. Half
// of all keys then get no neighbours, and hubs get those of one query.
constexpr size_t kPivotRanks = 10;
constexpr size_t kLeastLists = 8;

// Places in a slot that covered keys leave to keys that no query found.
constexpr size_t kReservedPlaces = 2;
constexpr size_t kReverseEdges = 4;

// Neighbours of a key that no query found; the rest of its slot is for keys linked through it.
constexpr size_t kOtherNeighbours = 12;
constexpr size_t kOtherCandidates = 48;
// They are linked to at most this many covered keys, evenly spaced: this bounds the scan.
constexpr size_t kMaxTargets = 16384;

constexpr size_t kCausalStep = 2;

constexpr size_t kPartKeys = 512;

// A row of 128 halves and its keys then take 12 bytes a key. One for 16 keys finds as much.
constexpr size_t kMaxRouters = 4096;
constexpr size_t kKeysPerRouter = 24;

// The lists that each key is linked by: of key x, lists[begin[x], begin[x + 1]).
struct ListsOfKeys {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> lists;
};

// By rank, then by query: the order of linking.
ListsOfKeys InvertLists(const NearestLists& nearest, size_t num_keys) {
  ListsOfKeys inverted;
  std::vector<uint8_t> counts(num_keys);
  const auto for_each_kept = [&](const auto& f) {
    std::ranges::fill(counts, uint8_t{0});
    for (size_t rank = 0; rank < nearest.length; ++rank) {
      const size_t most = rank < kPivotRanks ? kMostLists : kLeastLists;
      for (size_t query = 0; query < nearest.num_lists(); ++query) {
        const uint32_t key = nearest.ids[query * nearest.length + rank];
        if (key == kNoKey || counts[key] >= most) continue;
        f(key, counts[key]++, static_cast<uint32_t>(query));
      }
    }
  };
  for_each_kept([](uint32_t, size_t, uint32_t) {});
  inverted.begin.resize(num_keys + 1);
  for (size_t key = 0; key < num_keys; ++key) {
    inverted.begin[key + 1] = inverted.begin[key] + counts[key];
  }
  inverted.lists.resize(inverted.begin.back());
  for_each_kept([&](uint32_t key, size_t at, uint32_t query) {
    inverted.lists[inverted.begin[key] + at] = query;
  });
  return inverted;
}

}  // namespace

// A thread's memory for linking keys.
struct LinkWork {
  LinkWork(size_t num_keys, const KeyCodes* codes) : companions(num_keys), chooser(codes) {}

  ListCompanions companions;
  NeighbourChooser chooser;
  std::vector<uint32_t> candidates;
};

GraphBuilder::GraphBuilder(const GraphSource& source, std::span<const PriorGraph> priors,
                           const GraphOptions& options)
    : source_(source),
      priors_(priors),
      options_(options),
      num_keys_(source.num_keys),
      turned_(source.keys, num_keys_, options.pool),
      codes_(turned_, options.pool),
      table_(num_keys_, SlotCapacity(options.slot_bytes, IdBits(num_keys_))) {}

Result<AlignedBuffer> GraphBuilder::Build(GraphHeader* header) {
  ChooseQueries();
  FindLists();
  CopyPriors();
  if (!Cancelled()) LinkCovered();
  if (!Cancelled()) LinkOthers();
  if (!Cancelled()) table_.ConnectAll(entry_point_);
  if (Cancelled()) return Status::Cancelled("build of a graph");
  return Pack(header);
}

// Every kCausalStep-th query searches only the keys before its token, as a session that reuses a
// prefix does. All other queries search all keys, as a session at the end does.
size_t GraphBuilder::Limit(size_t row, size_t rank) const {
  if (rank % kCausalStep != 0) return num_keys_;
  const uint64_t token = source_.queries.tokens[row];
  const uint64_t seen = token < source_.first_token ? 0 : token - source_.first_token;
  return seen < options_.keys_per_query ? num_keys_ : std::min<size_t>(seen, num_keys_);
}

void GraphBuilder::ChooseQueries() {
  const storage::QueryRows& rows = source_.queries;
  const size_t row_bytes = source_.keys.num_elements * DTypeBytes(source_.keys.dtype);
  std::vector<Query> all;
  for (size_t i = 0; i < rows.num_rows(); ++i) {
    if (source_.q_head && rows.q_heads[i] != *source_.q_head) continue;
    const std::byte* const row = rows.q + i * row_bytes;
    if (CanTrain(source_, row)) all.push_back({row, Limit(i, all.size())});
  }
  for (const PriorGraph& prior : priors_) {
    const auto* const routers = static_cast<const std::byte*>(prior.graph.router_rows.data);
    for (size_t i = 0; i < prior.graph.header.num_routers; ++i) {
      const std::byte* const row = routers + i * row_bytes;
      if (CanTrain(source_, row)) all.push_back({row, num_keys_});
    }
  }
  for (size_t key = 0; all.empty() && key < num_keys_; ++key) {
    const kernels::RowsView row = kernels::RowsFrom(source_.keys, key);
    queries_.push_back({static_cast<const std::byte*>(row.data), num_keys_});
  }
  if (all.empty()) all.swap(queries_);
  const size_t most = MostQueries(options_.max_queries, num_keys_, options_.keys_per_query);
  const size_t count = std::min(most, all.size());
  queries_.clear();
  for (size_t i = 0; i < count; ++i) queries_.push_back(all[Spaced(i, count, all.size())]);
}

void GraphBuilder::FindLists() {
  const ScanPlanes planes(num_keys_, turned_.num_elements(), options_.pool,
                          [&](size_t key, float* row) { turned_.LoadKey(key, true, row); });
  nearest_ = FindNearest({.planes = &planes,
                          .num_queries = queries_.size(),
                          .load =
                              [&](size_t i, float* row) {
                                LoadTrainingQuery(source_, queries_[i].row, row);
                                turned_.TurnQuery(row);
                              },
                          .limit = [&](size_t i) { return queries_[i].limit; },
                          .length = options_.keys_per_query,
                          .pool = options_.pool,
                          .cancel = options_.cancel});
}

void GraphBuilder::CopyPriors() {
  uint32_t ids[kMaxSlotIds];
  for (const PriorGraph& prior : priors_) {
    const auto first = static_cast<uint32_t>(prior.first_key);
    for (size_t i = 0; i < prior.graph.header.num_keys; ++i) {
      const size_t count = std::min(prior.graph.neighbours.Read(i, ids), table_.capacity());
      for (size_t j = 0; j < count; ++j) ids[j] += first;
      table_.Assign(first + i, {ids, count});
    }
  }
}

// The neighbours of a key that queries found are keys that the same queries found: RoarGraph's
// projection, for the key's best ranks in all its lists at once.
void GraphBuilder::LinkCovered() {
  const ListsOfKeys inverted = InvertLists(nearest_, num_keys_);
  std::vector<uint32_t> first_of(num_keys_);
  for (size_t i = 0; i < nearest_.num_lists(); ++i) ++first_of[nearest_.list(i)[0]];
  entry_point_ = static_cast<uint32_t>(std::ranges::max_element(first_of) - first_of.begin());
  ForParts(options_.pool, (num_keys_ + kPartKeys - 1) / kPartKeys, [&](uint32_t part) {
    if (Cancelled()) return;
    LinkWork work(num_keys_, &codes_);
    const size_t end = std::min(num_keys_, (part + size_t{1}) * kPartKeys);
    for (size_t key = part * kPartKeys; key < end; ++key) {
      const uint32_t* const lists = inverted.lists.data() + inverted.begin[key];
      const size_t count = inverted.begin[key + 1] - inverted.begin[key];
      if (count > 0) LinkKey(static_cast<uint32_t>(key), {lists, count}, &work);
    }
  });
}

// A key that a prior graph has linked keeps its neighbours among the candidates.
void GraphBuilder::LinkKey(uint32_t key, std::span<const uint32_t> lists, LinkWork* work) {
  std::vector<uint32_t>& candidates = work->candidates;
  work->companions.Find(nearest_, lists, key, &candidates);
  const std::span<const uint32_t> before = table_.list(key);
  if (!before.empty()) {
    candidates.insert(candidates.end(), before.begin(), before.end());
    std::sort(candidates.begin(), candidates.end());
    candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  }
  const size_t max_kept = table_.capacity() - std::min(kReservedPlaces, table_.capacity() / 2);
  table_.Assign(key, work->chooser.Choose(key, max_kept, candidates));
}

// Links keys that no query found: neighbours by distance, from among the found keys.
void GraphBuilder::LinkOthers() {
  std::vector<uint32_t> others, targets;
  for (uint32_t key = 0; key < num_keys_; ++key) {
    (table_.list(key).empty() ? others : targets).push_back(key);
  }
  if (others.empty()) return;
  if (targets.empty()) targets = others;
  const size_t num_targets = std::min(kMaxTargets, targets.size());
  for (size_t i = 0; i < num_targets; ++i)
    targets[i] = targets[Spaced(i, num_targets, targets.size())];
  targets.resize(num_targets);
  const auto load_lifted = [&](uint32_t key, float* row) {
    turned_.LoadKey(key, false, row);
    std::fill_n(row + turned_.num_elements(), kLiftChannels, turned_.lift(key));
  };
  const ScanPlanes planes(num_targets, turned_.num_lifted(), options_.pool,
                          [&](size_t i, float* row) { load_lifted(targets[i], row); });
  const NearestLists near =
      FindNearest({.planes = &planes,
                   .num_queries = others.size(),
                   .load = [&](size_t i, float* row) { load_lifted(others[i], row); },
                   .length = kOtherCandidates,
                   .pool = options_.pool,
                   .cancel = options_.cancel});
  if (Cancelled()) return;
  const size_t max_kept = std::min(kOtherNeighbours, table_.capacity() / 2 + 1);
  ForParts(options_.pool, (others.size() + kPartKeys - 1) / kPartKeys, [&](uint32_t part) {
    NeighbourChooser chooser(&codes_);
    std::vector<uint32_t> candidates;
    const size_t end = std::min(others.size(), (part + size_t{1}) * kPartKeys);
    for (size_t i = part * kPartKeys; i < end; ++i) {
      candidates.clear();
      for (const uint32_t target : near.list(i)) candidates.push_back(targets[target]);
      std::erase(candidates, others[i]);
      table_.Assign(others[i], chooser.Choose(others[i], max_kept, candidates));
    }
  });
  AddReverse(others);
}

void GraphBuilder::AddReverse(const std::vector<uint32_t>& others) {
  std::vector<uint32_t> neighbours;
  for (const uint32_t key : others) {
    const std::span<const uint32_t> list = table_.list(key);
    neighbours.assign(list.begin(),
                      list.begin() + static_cast<ptrdiff_t>(std::min(kReverseEdges, list.size())));
    for (const uint32_t neighbour : neighbours) table_.Add(neighbour, key);
  }
}

GraphHeader HeaderFor(const GraphShape& shape, size_t slot_bytes, size_t num_queries) {
  const size_t router_bits = 8 + kRouterKeys * IdBits(shape.num_keys);
  const size_t num_routers =
      std::min({kMaxRouters, num_queries, shape.num_keys / kKeysPerRouter + 1});
  return {.num_keys = shape.num_keys,
          .num_elements = static_cast<uint32_t>(shape.num_elements),
          .dtype = shape.dtype,
          .slot_bytes = static_cast<uint32_t>(slot_bytes),
          .router_slot_bytes =
              static_cast<uint32_t>(std::max<size_t>(RoundUp((router_bits + 7) / 8, 8), 16)),
          .num_routers = static_cast<uint32_t>(num_routers)};
}

Result<AlignedBuffer> GraphBuilder::Pack(GraphHeader* header) const {
  *header = HeaderFor({num_keys_, source_.keys.num_elements, source_.keys.dtype},
                      options_.slot_bytes, queries_.size());
  header->entry_point = entry_point_;
  ATTNDB_ASSIGN_OR_RETURN(AlignedBuffer bytes, table_.Pack(*header));
  PackRouters(*header, bytes.data());
  return bytes;
}

// In an order of which every beginning is spread over the context.
void GraphBuilder::PackRouters(const GraphHeader& header, std::byte* bytes) const {
  const GraphLayout layout(header);
  const GraphView view = ViewGraph(header, {bytes, layout.num_bytes});
  const size_t num_routers = header.num_routers;
  size_t step = std::max<size_t>(1, num_routers * 618 / 1000);
  while (std::gcd(step, num_routers) != 1) ++step;
  std::vector<float> row(header.num_elements);
  const size_t row_bytes = row.size() * DTypeBytes(header.dtype);
  auto* const slots = reinterpret_cast<uint8_t*>(bytes + layout.router_slots);
  for (size_t i = 0; i < num_routers; ++i) {
    const size_t query = Spaced(i * step % num_routers, num_routers, queries_.size());
    LoadTrainingQuery(source_, queries_[query].row, row.data());
    const double norm = Norm(row);
    for (float& x : row) x = norm > 0 ? static_cast<float>(double{x} / norm) : 0.0f;
    kernels::ConvertRows(DType::kFloat32, row.data(), row.size(), header.dtype,
                         bytes + layout.router_rows + i * row_bytes, row.size(), 1, row.size(),
                         row.size());
    const std::span<const uint32_t> keys = nearest_.list(query);
    WriteSlot(view.router_keys, i, keys.first(std::min(kRouterKeys, keys.size())), slots);
  }
}

}  // namespace attndb::index
