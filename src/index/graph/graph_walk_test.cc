// Goal:   walks find the keys that their kind promises. Ranges hold all their keys and none below
//         the range. Filters are obeyed. A prefix loses no recall, with either way to see through
//         the filter.
// Method: brute force; both walks of a range; prefixes of 5 % to all.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/graph_walk.h"

#include <gtest/gtest.h>

#include <cmath>

#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::FloatRows;
using test::kDim;
using test::kHeads;
using test::Ranked;
using test::Workload;

constexpr size_t kNumKeys = 12000;
constexpr float kInf = std::numeric_limits<float>::infinity();

SearchSpec Range(float beta, RangeWalk walk, uint32_t threshold = 256) {
  return {
      .kind = SearchKind::kRange, .beta = beta, .range_walk = walk, .list_threshold = threshold};
}

class GraphWalkTest : public ::testing::Test {
 protected:
  GraphWalkTest() : graph_(*GraphIndex::Build(work_.source())), queries_(work_.NewQueries(60)) {}

  // Mean of exp(score - best) found over that of the true range.
  double MassFound(const SearchSpec& spec, const float* best = nullptr) {
    double found_share = 0;
    const float beta = spec.beta;
    for (size_t i = 0; i < queries_.num_rows(); i += kHeads) {
      const auto rows =
          test::SearchRows(graph_, spec, work_.keys, kNumKeys, queries_.row(i), kHeads, best);
      for (size_t r = 0; r < kHeads; ++r) {
        const auto ranked = Ranked(work_.keys, kNumKeys, queries_.row(i + r));
        const float top = std::max(ranked[0].first, best == nullptr ? -kInf : best[r]);
        double all = 0, found = 0;
        for (const auto& [score, key] : ranked) {
          if (score >= top - beta) all += std::exp(double{score} - double{top});
        }
        const float known = best == nullptr ? -kInf : best[r];
        float top_found = known;
        for (const float score : rows[r].scores) top_found = std::max(top_found, score);
        for (const float score : rows[r].scores) {
          EXPECT_GE(score, top_found - beta - 1e-3f);
          found += std::exp(double{score} - double{top});
        }
        EXPECT_EQ(test::Keys(rows[r].keys.begin(), rows[r].keys.end()).size(), rows[r].keys.size());
        found_share += all == 0 ? 1.0 : found / all;
      }
    }
    return found_share / static_cast<double>(queries_.num_rows());
  }

  // The same of the first `visible` keys, by q rows of that range.
  double PrefixMass(const SearchSpec& spec, size_t visible, SearchCost* cost) {
    double share = 0;
    for (size_t i = 0; i < queries_.num_rows(); i += kHeads) {
      const auto rows = test::SearchRows(graph_, spec, work_.keys, visible, queries_.row(i), kHeads,
                                         nullptr, cost);
      for (size_t r = 0; r < kHeads; ++r) {
        const auto ranked = Ranked(work_.keys, visible, queries_.row(i + r));
        const auto mass = [&](float score) {
          return score < ranked[0].first - spec.beta ? 0.0
                                                     : std::exp(double{score} - ranked[0].first);
        };
        double all = 0, found = 0;
        for (const auto& [score, key] : ranked) all += mass(score);
        for (const float score : rows[r].scores) found += mass(score);
        for (const uint32_t key : rows[r].keys) EXPECT_LT(key, visible);
        share += found / all;
      }
    }
    return share / static_cast<double>(queries_.num_rows());
  }

  Workload work_{kNumKeys, 4500, attndb::test::SeedOr(91)};
  GraphIndex graph_;
  FloatRows queries_;
};

TEST_F(GraphWalkTest, RangesHoldTheirMass) {
  for (const RangeWalk walk : {RangeWalk::kBestFirst, RangeWalk::kListOrder}) {
    // The order of the list leads astray more often: of one that is shorter than the keys are many,
    // see below.
    for (const float beta : {2.0f, 8.0f}) {
      EXPECT_GE(MassFound(Range(beta, walk, kNumKeys)), 0.99) << beta;
    }
  }
}

TEST_F(GraphWalkTest, AKnownBestNarrowsARange) {
  const float best[kHeads] = {1e6f, 1e6f, 1e6f};
  for (const RangeWalk walk : {RangeWalk::kBestFirst, RangeWalk::kListOrder}) {
    SearchSpec spec = Range(4.0f, walk, 1);
    spec.effort = 1;
    SearchCost without, with;
    test::SearchRows(graph_, spec, work_.keys, kNumKeys, queries_.row(0), kHeads, nullptr,
                     &without);
    const auto rows =
        test::SearchRows(graph_, spec, work_.keys, kNumKeys, queries_.row(0), kHeads, best, &with);
    for (const auto& row : rows) EXPECT_TRUE(row.keys.empty());
    EXPECT_LT(with.rows_read, without.rows_read);
  }
}

TEST_F(GraphWalkTest, ABetaOfNothingFindsTheBest) {
  for (const float beta : {0.0f, -5.0f}) {
    for (const RangeWalk walk : {RangeWalk::kBestFirst, RangeWalk::kListOrder}) {
      const auto rows = test::SearchRows(graph_, Range(beta, walk), work_.keys, kNumKeys,
                                         queries_.row(0), kHeads);
      for (const auto& row : rows) EXPECT_EQ(row.keys.size(), 1u);
    }
  }
}

TEST_F(GraphWalkTest, AWiderListFindsNoLess) {
  double before = 0;
  for (const uint32_t threshold : {1u, 256u, 4096u, uint32_t{kNumKeys}}) {
    const double mass = MassFound(Range(1.0f, RangeWalk::kListOrder, threshold));
    EXPECT_GE(mass, before - 0.01) << threshold;
    before = mass;
  }
  EXPECT_GE(before, 0.999);
}

TEST_F(GraphWalkTest, PrefixesAreKeptAndLoseNoRecall) {
  for (const size_t percent : {5u, 10u, 20u, 35u, 50u, 75u, 100u}) {
    const size_t visible = kNumKeys * percent / 100;
    EXPECT_GE(test::Recall(graph_, work_.keys, visible, queries_, 20, 60), 0.95) << percent;
    const auto rows = test::SearchRows(graph_, {.kind = SearchKind::kTopK, .k = 40}, work_.keys,
                                       visible, queries_.row(0), kHeads);
    for (const auto& row : rows) {
      EXPECT_EQ(row.keys.size(), 40u);
      for (size_t i = 0; i < row.keys.size(); ++i) {
        ASSERT_LT(row.keys[i], visible);
      }
    }
  }
}

// AlayaDB's expansion looks at more keys, and finds no fewer.
TEST_F(GraphWalkTest, AllNeighboursOfNeighboursShowMoreOfAPrefix) {
  constexpr float kBeta = 8.0f;
  for (const size_t percent : {10u, 30u, 60u}) {
    const size_t visible = kNumKeys * percent / 100;
    for (const RangeWalk walk : {RangeWalk::kBestFirst, RangeWalk::kListOrder}) {
      double share[2];
      uint64_t visits[2];
      for (const Expand expand : {Expand::kHidden, Expand::kAll}) {
        SearchSpec spec = Range(kBeta, walk);
        spec.effort = 30;
        spec.expand = expand;
        SearchCost cost;
        share[static_cast<size_t>(expand)] = PrefixMass(spec, visible, &cost);
        visits[static_cast<size_t>(expand)] = cost.rows_read;
      }
      EXPECT_GE(share[1], share[0] - 0.005) << percent;
      EXPECT_GE(share[1], 0.98) << percent;
      EXPECT_GE(visits[1], visits[0]) << percent;
    }
  }
}

struct Hits {
  double recall() const {
    return num_expected == 0 ? 1.0
                             : static_cast<double>(num_found) / static_cast<double>(num_expected);
  }
  size_t num_found = 0;
  size_t num_expected = 0;
};

// Sinks are in front of a graph's keys, and those of a plan may be more. The hidden ones score
// above all others.
TEST_F(GraphWalkTest, KeysInFrontAreNotInTheWay) {
  constexpr size_t kSinks = 16;
  for (size_t i = 0; i < 200; ++i) {
    for (size_t d = 0; d < kDim; ++d) work_.keys.row(i)[d] = 4 * queries_.row(i % kHeads)[d];
  }
  GraphSource source = work_.source();
  source.keys = kernels::RowsFrom(source.keys, kSinks);
  source.num_keys -= kSinks;
  source.first_token = kSinks;
  ATTNDB_ASSERT_OK_AND_ASSIGN(GraphIndex graph, GraphIndex::Build(source));
  graph.set_first_key(kSinks);
  EXPECT_EQ(graph.num_keys(), kNumKeys);
  // Adds what was found of what should be.
  const auto check = [&](const SearchSpec& spec, size_t first, size_t end, Hits* hits) {
    SCOPED_TRACE(std::to_string(first) + " to " + std::to_string(end));
    const IndexRun run = {
        .index = &graph, .keys = work_.keys.view(), .first_visible = first, .num_visible = end};
    const auto rows = test::SearchRun(run, spec, queries_.row(0), kHeads);
    const size_t from = std::max(first, kSinks);
    for (size_t r = 0; r < kHeads; ++r) {
      test::Keys expected;
      const auto ranked = Ranked(work_.keys, end, queries_.row(r));
      float best = -kInf;
      for (const auto& [score, key] : ranked) {
        if (key < from) continue;
        best = std::max(best, score);
        const bool wanted =
            spec.kind == SearchKind::kTopK ? expected.size() < spec.k : score >= best - spec.beta;
        if (wanted) expected.insert(key);
      }
      for (const uint32_t key : rows[r].keys) {
        EXPECT_GE(key, from);
        EXPECT_LT(key, end);
        hits->num_found += expected.count(key);
      }
      hits->num_expected += expected.size();
      if (spec.kind == SearchKind::kTopK) {
        EXPECT_EQ(rows[r].keys.size(), expected.size());
      }
    }
  };
  Hits of_ranges;  // Ranges of all sizes: some hold but one key.
  for (const size_t first : {0u, 16u, 40u, 200u, 5000u}) {
    for (const size_t end : {16u, 17u, 100u, 6000u, 12000u}) {
      if (first >= end) continue;
      for (const RangeWalk walk : {RangeWalk::kBestFirst, RangeWalk::kListOrder}) {
        check(Range(4.0f, walk), first, end, &of_ranges);
      }
      const SearchSpec specs[] = {{.kind = SearchKind::kTopK, .k = 30, .effort = 120},
                                  {.kind = SearchKind::kTopK, .k = 30, .effort = 20000},
                                  {.kind = SearchKind::kRange, .beta = kInf, .effort = 20000}};
      for (const SearchSpec& spec : specs) {
        Hits hits;
        check(spec, first, end, &hits);
        EXPECT_GE(hits.recall(), 0.9) << spec.effort << ": " << first << " to " << end;
      }
    }
  }
  EXPECT_GE(of_ranges.recall(), 0.9);
}

// A q row with NaN or Inf finds some keys or none; the other rows find what they find alone.
TEST_F(GraphWalkTest, RowsThatAreNotFiniteHarmNoOthers) {
  const SearchSpec specs[] = {{.kind = SearchKind::kTopK, .k = 20},
                              Range(4.0f, RangeWalk::kBestFirst),
                              Range(4.0f, RangeWalk::kListOrder, kNumKeys)};
  for (const SearchSpec& spec : specs) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), kInf, -kInf}) {
      FloatRows rows = work_.NewQueries(kHeads);
      for (size_t d = 0; d < kDim; d += 2) rows.row(1)[d] = bad;
      const auto found = test::SearchRows(graph_, spec, work_.keys, kNumKeys, rows.row(0), kHeads);
      for (const size_t r : {0u, 2u}) {
        const test::Keys keys(found[r].keys.begin(), found[r].keys.end());
        const auto ranked = Ranked(work_.keys, kNumKeys, rows.row(r));
        for (size_t i = 0; i < 20; ++i) {
          if (spec.kind == SearchKind::kTopK || ranked[i].first >= ranked[0].first - spec.beta) {
            EXPECT_EQ(keys.count(ranked[i].second), 1u) << r << ' ' << i;
          }
        }
      }
    }
  }
}

TEST_F(GraphWalkTest, ScoresAreThoseOfK) {
  const auto rows = test::SearchRows(graph_, {.kind = SearchKind::kTopK, .k = 40}, work_.keys,
                                     kNumKeys, queries_.row(0), kHeads);
  for (size_t r = 0; r < kHeads; ++r) {
    for (size_t i = 0; i < rows[r].keys.size(); ++i) {
      EXPECT_NEAR(rows[r].scores[i], test::Score(queries_.row(r), work_.keys.row(rows[r].keys[i])),
                  1e-3);
    }
  }
}

}  // namespace
}  // namespace attndb::index
