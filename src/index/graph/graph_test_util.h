// Test helper: keys and out-of-distribution queries of a group, exact answers, and searches.
#ifndef ATTNDB_INDEX_GRAPH_GRAPH_TEST_UTIL_H_
#define ATTNDB_INDEX_GRAPH_GRAPH_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/random.h"
#include "index/graph/graph_index.h"
#include "index/graph/neighbour_pruner.h"
#include "index/key_search_test_util.h"

namespace attndb::index::test {

inline constexpr size_t kDim = 32;
inline constexpr size_t kHeads = 3;

class FloatRows {
 public:
  explicit FloatRows(size_t num_rows)
      : num_rows_(num_rows),
        data_(*AlignedBuffer::AllocateZeroed(std::max<size_t>(num_rows, 1) * kDim * 4)) {}

  size_t num_rows() const { return num_rows_; }
  float* row(size_t i) { return reinterpret_cast<float*>(data_.data()) + i * kDim; }
  const float* row(size_t i) const {
    return reinterpret_cast<const float*>(data_.data()) + i * kDim;
  }
  kernels::RowsView view() const { return {data_.data(), kDim, kDim, DType::kFloat32}; }

 private:
  size_t num_rows_;
  AlignedBuffer data_;
};

// Keys lie near a surface of six dimensions that drifts with the position; q rows of each head lie
// near a surface of their own, elsewhere, as attention's do.
class Workload {
 public:
  Workload(size_t num_keys, size_t num_queries, uint64_t seed)
      : keys(num_keys), queries(num_queries), random_(seed) {
    for (auto& map : maps_) {
      for (float& x : map) x = Gaussian();
    }
    for (size_t i = 0; i < num_keys; ++i) {
      Fill(maps_[0], keys.row(i), 0.3f);
      for (size_t d = 0; d < 4; ++d) {
        keys.row(i)[d] += 2.0f * static_cast<float>(i) / static_cast<float>(num_keys);
      }
    }
    const size_t num_tokens = std::max<size_t>(num_queries / kHeads, 1);
    for (size_t i = 0; i < num_queries; ++i) {
      tokens.push_back(static_cast<uint32_t>(i / kHeads * num_keys / num_tokens));
      heads.push_back(static_cast<uint32_t>(i % kHeads));
      FillQuery(i % kHeads, queries.row(i));
    }
  }

  void FillQuery(size_t head, float* row) { Fill(maps_[1 + head], row, 0.5f); }
  FloatRows NewQueries(size_t num_rows) {
    FloatRows rows(num_rows);
    for (size_t i = 0; i < num_rows; ++i) FillQuery(i % kHeads, rows.row(i));
    return rows;
  }

  GraphSource source() const {
    return {.keys = keys.view(),
            .num_keys = keys.num_rows(),
            .queries = {reinterpret_cast<const std::byte*>(queries.row(0)), tokens, heads}};
  }

  FloatRows keys;
  FloatRows queries;
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> heads;

 private:
  static constexpr size_t kLatent = 6;
  using Map = std::array<float, kLatent * kDim>;

  float Gaussian() { return static_cast<float>(random_.NextGaussian()); }
  void Fill(const Map& map, float* row, float noise) {
    float latent[kLatent];
    for (float& x : latent) x = Gaussian();
    for (size_t d = 0; d < kDim; ++d) {
      row[d] = noise * Gaussian() + 0.3f;
      for (size_t l = 0; l < kLatent; ++l) row[d] += latent[l] * map[l * kDim + d];
    }
  }

  Random random_;
  std::array<Map, 1 + kHeads> maps_;
};

using Keys = std::set<uint32_t>;

// Rounds to whole numbers, so that float32 sums are exact in any order.
inline void Round(FloatRows* rows) {
  for (size_t i = 0; i < rows->num_rows(); ++i) {
    for (size_t d = 0; d < kDim; ++d) rows->row(i)[d] = std::round(rows->row(i)[d]);
  }
}

// The neighbours of each key.
inline NeighbourLists ListsOf(const GraphIndex& graph) {
  NeighbourLists lists;
  for (size_t i = 0; i < graph.num_keys(); ++i) {
    std::vector<uint32_t>& list = lists.emplace_back(kMaxSlotIds);
    list.resize(graph.view().neighbours.Read(i, list.data()));
  }
  return lists;
}

inline float Score(const float* q, const float* k) {
  double score = 0;
  for (size_t d = 0; d < kDim; ++d) score += double{q[d]} * double{k[d]};
  return static_cast<float>(score);
}

// (score, key) of the visible keys, best first.
inline std::vector<std::pair<float, uint32_t>> Ranked(const FloatRows& keys, size_t num_visible,
                                                      const float* q) {
  std::vector<std::pair<float, uint32_t>> all;
  for (uint32_t i = 0; i < num_visible; ++i) all.emplace_back(-Score(q, keys.row(i)), i);
  std::sort(all.begin(), all.end());
  for (auto& [score, key] : all) score = -score;
  return all;
}

struct FoundRow {
  std::vector<uint32_t> keys;
  std::vector<float> scores;
};

// One search of `num_rows` q rows in one run.
inline std::vector<FoundRow> SearchRun(const IndexRun& run, const SearchSpec& spec, const float* q,
                                       size_t num_rows, const float* best = nullptr,
                                       SearchCost* cost = nullptr) {
  IndexCall call = {.spec = spec,
                    .runs = {&run, 1},
                    .q = q,
                    .q_stride = kDim,
                    .num_q_rows = num_rows,
                    .best = best};
  std::vector<FoundRow> rows(num_rows);
  std::vector<FoundKeys> found(num_rows);
  for (size_t r = 0; r < num_rows; ++r) {
    rows[r].keys.resize(run.num_visible);
    rows[r].scores.resize(run.num_visible);
    found[r] = {rows[r].keys.data(), rows[r].scores.data(), 99};
  }
  AlignedBuffer scratch = *AlignedBuffer::Allocate(run.index->ScratchBytes(call) + 64);
  std::memset(scratch.data(), 0xab, scratch.size());
  SearchCost unused;
  EXPECT_TRUE(
      SearchInMemory(call, scratch.data(), found.data(), cost == nullptr ? &unused : cost).ok());
  for (size_t r = 0; r < num_rows; ++r) {
    rows[r].keys.resize(found[r].count);
    rows[r].scores.resize(found[r].count);
  }
  return rows;
}

// The same for a run of keys that are all visible up to `num_visible`.
inline std::vector<FoundRow> SearchRows(const KeyIndex& index, const SearchSpec& spec,
                                        const FloatRows& keys, size_t num_visible, const float* q,
                                        size_t num_rows, const float* best = nullptr,
                                        SearchCost* cost = nullptr) {
  const IndexRun run = {.index = &index, .keys = keys.view(), .num_visible = num_visible};
  return SearchRun(run, spec, q, num_rows, best, cost);
}

// Mean share of the k best visible keys that a search finds, kHeads rows a call.
inline double Recall(const KeyIndex& index, const FloatRows& keys, size_t num_visible,
                     const FloatRows& queries, uint32_t k, uint32_t effort,
                     SearchCost* cost = nullptr) {
  size_t hits = 0;
  for (size_t i = 0; i + kHeads <= queries.num_rows(); i += kHeads) {
    const SearchSpec spec = {
        .kind = SearchKind::kTopK, .k = k, .effort = static_cast<float>(effort)};
    const auto rows =
        SearchRows(index, spec, keys, num_visible, queries.row(i), kHeads, nullptr, cost);
    for (size_t r = 0; r < kHeads; ++r) {
      const Keys found(rows[r].keys.begin(), rows[r].keys.end());
      const auto ranked = Ranked(keys, num_visible, queries.row(i + r));
      for (size_t j = 0; j < k; ++j) hits += found.count(ranked[j].second);
    }
  }
  return static_cast<double>(hits) / static_cast<double>(queries.num_rows() / kHeads * kHeads * k);
}

}  // namespace attndb::index::test

#endif  // ATTNDB_INDEX_GRAPH_GRAPH_TEST_UTIL_H_
