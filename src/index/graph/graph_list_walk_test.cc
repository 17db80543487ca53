// Goal:   the walk in the order of its list is AlayaDB's Algorithm 1, key for key: the same list in
//         the same order, the same scores, the same visited keys. This holds for both ways to see
//         through a filter, and for any threshold, range and known best score.
// Method: against the algorithm written down line by line over sets and vectors. Keys and queries
//         are small whole numbers, so that scores are exact and many are equal.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/graph_list_walk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::FloatRows;
using test::FoundRow;
using test::kDim;
using test::kHeads;
using test::Workload;

constexpr float kInf = std::numeric_limits<float>::infinity();

// The visible keys of a walk in a graph, and the way in which it sees through others.
struct Filter {
  uint32_t first = 0;
  uint32_t end = 0;
  Expand expand = Expand::kHidden;
};

class Reference {
 public:
  Reference(const GraphIndex& graph, const FloatRows& keys, const Filter& filter)
      : keys_(keys), filter_(filter), entry_point_(graph.view().header.entry_point) {
    for (size_t i = 0; i < graph.num_keys(); ++i) {
      std::vector<uint32_t>& list = lists_.emplace_back(kMaxSlotIds);
      list.resize(graph.view().neighbours.Read(i, list.data()));
    }
  }

  // Algorithm 1; `known` is the best score of the window.
  FoundRow Diprs(const float* q, size_t l0, float beta, float known) {
    const uint32_t k0 = std::clamp(entry_point_, filter_.first, filter_.end - 1);
    std::vector<uint32_t> list = {k0};
    float best = std::max(known, Score(q, k0));
    visited_ = {k0};
    for (size_t i = 0; i < list.size(); ++i) {
      for (const uint32_t key : Neighbours(list[i])) {
        if (visited_.contains(key)) continue;
        visited_.insert(key);
        if (list.size() > l0 && Score(q, key) < best - beta) continue;
        list.push_back(key);
        best = std::max(best, Score(q, key));
      }
    }
    FoundRow found;
    for (const uint32_t key : list) {
      if (Score(q, key) < best - beta) continue;
      found.keys.push_back(key);
      found.scores.push_back(Score(q, key));
    }
    return found;
  }

  size_t num_visited() const { return visited_.size(); }

 private:
  bool IsVisible(uint32_t key) const { return key >= filter_.first && key < filter_.end; }
  float Score(const float* q, uint32_t key) const { return test::Score(q, keys_.row(key)); }

  // The keys that may be found, in the order in which they come into sight.
  std::vector<uint32_t> Neighbours(uint32_t of) const {
    std::vector<uint32_t> all;
    for (const uint32_t key : lists_[of]) {
      const bool through = filter_.expand == Expand::kHidden && !IsVisible(key);
      if (through)
        all.insert(all.end(), lists_[key].begin(), lists_[key].end());
      else
        all.push_back(key);
    }
    for (size_t i = 0; filter_.expand == Expand::kAll && i < lists_[of].size(); ++i) {
      const std::vector<uint32_t>& next = lists_[lists_[of][i]];
      all.insert(all.end(), next.begin(), next.end());
    }
    std::erase_if(all, [this](uint32_t key) { return !IsVisible(key); });
    return all;
  }

  const FloatRows& keys_;
  const Filter filter_;
  const uint32_t entry_point_;
  std::vector<std::vector<uint32_t>> lists_;
  std::set<uint32_t> visited_;
};

SearchSpec List(float beta, uint32_t threshold, Expand expand = Expand::kHidden) {
  return {.kind = SearchKind::kRange,
          .beta = beta,
          .range_walk = RangeWalk::kListOrder,
          .list_threshold = threshold,
          .expand = expand};
}

class GraphListWalkTest : public ::testing::Test {
 protected:
  GraphListWalkTest() {
    Round(&work_.keys);
    Round(&queries_);
    graph_ = *GraphIndex::Build(work_.source());
  }

  void ExpectAsPublished(const Filter& filter, size_t num_queries) {
    Reference reference(graph_, work_.keys, filter);
    const IndexRun run = {.index = &graph_,
                          .keys = work_.keys.view(),
                          .first_visible = filter.first,
                          .num_visible = filter.end};
    for (size_t i = 0; i < num_queries; ++i) {
      const float* const q = queries_.row(i);
      for (const uint32_t l0 : {0u, 1u, 16u, 300u}) {
        for (const float beta : {0.0f, 30.0f, 120.0f}) {
          for (const float known : {-kInf, test::Score(q, work_.keys.row(77))}) {
            const FoundRow expected = reference.Diprs(q, l0, beta, known);
            SearchCost cost;
            const FoundRow found =
                test::SearchRun(run, List(beta, l0, filter.expand), q, 1, &known, &cost)[0];
            EXPECT_EQ(found.keys, expected.keys) << l0 << ' ' << beta << ' ' << known;
            EXPECT_EQ(found.scores, expected.scores);
            EXPECT_EQ(cost.keys_scored, reference.num_visited());
            EXPECT_EQ(cost.rows_read, reference.num_visited());
          }
        }
      }
    }
  }

  static constexpr uint32_t kNumKeys = 3000;
  Workload work_{kNumKeys, 900, attndb::test::SeedOr(101)};
  FloatRows queries_ = work_.NewQueries(9);
  GraphIndex graph_;
};

TEST_F(GraphListWalkTest, IsAlgorithm1) { ExpectAsPublished({0, kNumKeys}, 9); }

TEST_F(GraphListWalkTest, IsAlgorithm1OfAPrefix) {
  const Filter filters[] = {{0, 2000}, {40, kNumKeys}, {40, 300}, {16, 17}, {0, 1}};
  for (Filter filter : filters) {
    for (const Expand expand : {Expand::kHidden, Expand::kAll}) {
      SCOPED_TRACE(std::to_string(filter.first) + " to " + std::to_string(filter.end));
      filter.expand = expand;
      ExpectAsPublished(filter, 3);
    }
  }
}

TEST_F(GraphListWalkTest, EachRowIsWalkedAlone) {
  const auto together =
      test::SearchRows(graph_, List(40, 64), work_.keys, kNumKeys, queries_.row(0), 9);
  for (size_t r = 0; r < 9; ++r) {
    const auto alone =
        test::SearchRows(graph_, List(40, 64), work_.keys, kNumKeys, queries_.row(r), 1);
    EXPECT_EQ(together[r].keys, alone[0].keys);
  }
}

// A threshold of all keys: all are followed, so that the range is exact.
TEST_F(GraphListWalkTest, AListOfAllKeysIsExact) {
  for (size_t i = 0; i < 9; ++i) {
    const auto rows =
        test::SearchRows(graph_, List(60, kNumKeys), work_.keys, kNumKeys, queries_.row(i), 1);
    const auto ranked = test::Ranked(work_.keys, kNumKeys, queries_.row(i));
    test::Keys expected;
    for (const auto& [score, key] : ranked) {
      if (score >= ranked[0].first - 60) expected.insert(key);
    }
    EXPECT_EQ(test::Keys(rows[0].keys.begin(), rows[0].keys.end()), expected);
  }
}

TEST_F(GraphListWalkTest, OfEqualKeysAllOrNoneAreFound) {
  for (size_t i = 0; i < kNumKeys; ++i) std::copy_n(work_.queries.row(0), kDim, work_.keys.row(i));
  Round(&work_.keys);
  graph_ = *GraphIndex::Build(work_.source());
  const float score = test::Score(queries_.row(0), work_.keys.row(0));
  for (const uint32_t l0 : {0u, 5u}) {
    for (const float known : {-kInf, score + 1}) {
      const auto rows =
          test::SearchRows(graph_, List(0, l0), work_.keys, kNumKeys, queries_.row(0), 1, &known);
      EXPECT_EQ(rows[0].keys.size(), known > score ? 0 : kNumKeys);
    }
  }
  ExpectAsPublished({0, kNumKeys}, 1);
}

TEST_F(GraphListWalkTest, FewKeysAreFoundAllTheSame) {
  for (const uint32_t n : {1u, 2u, 3u, 17u}) {
    Workload work(n, 30, attndb::test::SeedOr(102));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(work.source()));
    for (const uint32_t l0 : {0u, 1u, 1u << 20}) {
      for (uint32_t visible = 1; visible <= n; ++visible) {
        const auto rows = test::SearchRows(graph, List(1e9f, l0), work.keys, visible,
                                           work.queries.row(0), kHeads);
        for (const auto& row : rows) EXPECT_EQ(row.keys.size(), visible);
      }
    }
  }
}

}  // namespace
}  // namespace attndb::index
