// Goal:   keys are inserted into a RoarGraph by RetrievalAttention's rule, with the lists that its
//         definition gives. The result is a whole graph, whatever graph it grew from.
// Method: whole numbers small enough for exact scores, so that many are equal; a reference of
//         vectors and sorting. Bytes are read back, which checks every list.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/roar_growth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::FloatRows;
using test::kDim;
using test::ListsOf;
using test::Recall;
using test::Round;
using test::Workload;

GraphSource FirstKeys(const Workload& work, size_t num_keys) {
  GraphSource source = WithQueriesBefore(work.source(), num_keys);
  source.num_keys = num_keys;
  return source;
}

// Appendix C by its definition.
class Reference {
 public:
  Reference(const Workload& work, const GraphIndex& prior, const RoarOptions& options)
      : work_(work), num_old_(prior.num_keys()), options_(options), lists_(ListsOf(prior)) {
    const auto num_keys = static_cast<uint32_t>(work.keys.num_rows());
    lists_.resize(num_keys);
    NeighbourLists linking(num_keys);
    for (auto key = static_cast<uint32_t>(num_old_); key < num_keys; ++key) {
      lists_[key] = Choose(key, NearestOfClosest(key), options_.max_degree);
      for (const uint32_t id : lists_[key]) linking[id].push_back(key);
    }
    for (uint32_t key = 0; key < num_old_; ++key) {
      std::vector<uint32_t>& list = lists_[key];
      list.insert(list.end(), linking[key].begin(), linking[key].end());
      if (list.size() > 2 * options_.max_degree) list = Choose(key, list, 2 * options_.max_degree);
    }
  }

  const NeighbourLists& lists() const { return lists_; }

 private:
  float Score(uint32_t a, uint32_t b) const {
    return test::Score(work_.keys.row(a), work_.keys.row(b));
  }
  static std::vector<uint32_t> Sorted(std::vector<uint32_t> ids,
                                      const std::function<float(uint32_t)>& score) {
    std::ranges::sort(ids, [&](uint32_t a, uint32_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    });
    return ids;
  }

  std::vector<uint32_t> NearestOfClosest(uint32_t key) const {
    std::vector<uint32_t> queries;
    for (uint32_t i = 0; i < work_.queries.num_rows(); ++i) {
      if (work_.tokens[i] < num_old_) queries.push_back(i);
    }
    const uint32_t closest = Sorted(queries, [&](uint32_t i) {
      return test::Score(work_.queries.row(i), work_.keys.row(key));
    })[0];
    std::vector<uint32_t> old(num_old_);
    std::iota(old.begin(), old.end(), 0u);
    old = Sorted(old, [&](uint32_t id) {
      return test::Score(work_.queries.row(closest), work_.keys.row(id));
    });
    old.resize(std::min(old.size(), options_.keys_per_query));
    return old;
  }

  std::vector<uint32_t> Choose(uint32_t key, const std::vector<uint32_t>& from, size_t most) const {
    const std::vector<uint32_t> candidates =
        Sorted(from, [&](uint32_t id) { return Score(key, id); });
    std::vector<uint32_t> kept;
    for (const uint32_t id : candidates) {
      const bool passed_over = std::ranges::any_of(
          kept, [&](uint32_t chosen) { return Score(id, chosen) > Score(id, key); });
      if (kept.size() < most && !passed_over) kept.push_back(id);
    }
    for (const uint32_t id : candidates) {
      const bool has = std::ranges::find(kept, id) != kept.end();
      if (kept.size() < most && !has) kept.push_back(id);
    }
    return kept;
  }

  const Workload& work_;
  const size_t num_old_;
  const RoarOptions options_;
  NeighbourLists lists_;
};

// The published method, except for links of unreachable keys. These are at the end of lists, or
// replace the last neighbour of full lists.
TEST(RoarGrowthTest, InsertsAsPublished) {
  Workload work(500, 200, attndb::test::SeedOr(121));
  Round(&work.keys);
  Round(&work.queries);
  for (const size_t num_old : {1u, 120u, 499u}) {
    const RoarOptions options = {.keys_per_query = 30, .max_degree = 6, .search_window = 40};
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex prior,
                                GraphIndex::BuildRoar(FirstKeys(work, num_old), options));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex grown,
                                GraphIndex::GrowRoar(work.source(), prior, options));
    const NeighbourLists expected = Reference(work, prior, options).lists();
    const NeighbourLists found = ListsOf(grown);
    ASSERT_EQ(found.size(), expected.size());
    EXPECT_EQ(grown.view().header.entry_point, prior.view().header.entry_point);
    size_t num_equal = 0;
    for (uint32_t key = 0; key < found.size(); ++key) {
      EXPECT_LE(found[key].size(), 2 * options.max_degree);
      num_equal += found[key] == expected[key];
      const size_t same = std::min(expected[key].size(), 2 * options.max_degree - 1);
      if (num_old == 1) continue;  // All hang on one key: most lists are links of this kind.
      ASSERT_GE(found[key].size(), same) << key;
      EXPECT_TRUE(std::ranges::equal(std::span(expected[key]).first(same),
                                     std::span(found[key]).first(same)))
          << num_old << ", key " << key;
    }
    EXPECT_TRUE(num_old == 1 || num_equal > found.size() / 2) << num_equal;
  }
}

// The written bytes are read back, which checks that lists hold each key once and reach all keys.
void ExpectWhole(const Workload& work, const GraphIndex& graph) {
  ATTNDB_EXPECT_OK(
      GraphIndex::Parse(graph.bytes(), {work.keys.num_rows(), kDim, DType::kFloat32}, "grown")
          .status());
}

TEST(RoarGrowthTest, WhatGrewIsWholeAndThreadsDoNotShow) {
  constexpr size_t kKeys = 4000;
  Workload work(kKeys, 1600, attndb::test::SeedOr(122));
  ThreadPool pool(3);
  for (const size_t num_old : {250u, 1000u, 2000u}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex prior,
                                GraphIndex::BuildRoar(FirstKeys(work, num_old)));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex grown, GraphIndex::GrowRoar(work.source(), prior));
    ExpectWhole(work, grown);
    EXPECT_LE(grown.memory_bytes(), GraphIndex::BytesForRoar({kKeys, kDim, DType::kFloat32}, 35));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex again,
                                GraphIndex::GrowRoar(work.source(), prior, {.pool = &pool}));
    EXPECT_TRUE(std::ranges::equal(grown.bytes(), again.bytes())) << num_old;
  }
}

// The rule finds most keys here, where they are much alike from beginning to end. Keys of models
// differ (docs/design/001-indexes.md).
TEST(RoarGrowthTest, TwiceTheKeysAreFound) {
  constexpr size_t kKeys = 4000;
  Workload work(kKeys, 1600, attndb::test::SeedOr(123));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex prior,
                              GraphIndex::BuildRoar(FirstKeys(work, kKeys / 2)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex grown, GraphIndex::GrowRoar(work.source(), prior));
  EXPECT_GE(Recall(grown, work.keys, kKeys, work.NewQueries(60), 20, 100), 0.7);
}

TEST(RoarGrowthTest, PoorSourcesGiveWholeGraphs) {
  Workload work(700, 90, attndb::test::SeedOr(124));
  const RoarOptions options = {.keys_per_query = 30, .max_degree = 8, .search_window = 40};
  RoarOptions wider = options, narrower = options;
  wider.max_degree = 127;
  narrower.max_degree = 1;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex prior,
                              GraphIndex::BuildRoar(FirstKeys(work, 300), options));
  for (const RoarOptions& other : {wider, narrower}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex grown,
                                GraphIndex::GrowRoar(work.source(), prior, other));
    ExpectWhole(work, grown);
  }
  GraphSource source = work.source();
  source.queries = {};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex blind, GraphIndex::GrowRoar(source, prior, options));
  ExpectWhole(work, blind);
  std::fill_n(work.queries.row(0), 90 * kDim, std::numeric_limits<float>::quiet_NaN());
  for (size_t i = 300; i < 700; ++i) std::fill_n(work.keys.row(i), kDim, 0.0f);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex equal,
                              GraphIndex::GrowRoar(work.source(), prior, options));
  ExpectWhole(work, equal);
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(GraphIndex::GrowRoar(work.source(), prior, {.cancel = &cancel}).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace attndb::index
