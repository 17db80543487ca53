// Goal:   walks find their way among keys of which many are equal: a range holds all of its mass in
//         whatever order it is walked, the k best are the k best, also behind a prefix and in a
//         graph that grew; and a graph of keys that all differ is what it was.
// Method: five distinct keys with 1,200 copies each, in several orders, by both graphs and one for
//         each q head; against exact scores.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/distinct_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "common/crc32c.h"
#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::FloatRows;
using test::kDim;
using test::Workload;

constexpr size_t kKinds = 5;
constexpr size_t kCopies = 1200;
constexpr uint32_t kNumKeys = kKinds * kCopies;

enum class Order { kOneByOne, kInTurn, kRandom };
constexpr Order kOrders[] = {Order::kOneByOne, Order::kInTurn, Order::kRandom};

// Copies of a workload's first keys, with its queries.
class Copies {
 public:
  explicit Copies(Order order)
      : work_(kNumKeys, 600, attndb::test::SeedOr(57)), queries(work_.NewQueries(9)) {
    Random random(attndb::test::SeedOr(58));
    const std::vector<float> kinds(work_.keys.row(0), work_.keys.row(kKinds));
    for (size_t i = 0; i < kNumKeys; ++i) {
      const size_t kind = order == Order::kOneByOne ? i / kCopies
                          : order == Order::kInTurn ? i % kKinds
                                                    : random.Uniform(kKinds);
      std::copy_n(kinds.data() + kind * kDim, kDim, work_.keys.row(i));
    }
  }

  const FloatRows& keys() const { return work_.keys; }
  GraphSource source() const { return work_.source(); }
  GraphSource FirstKeys(size_t num_keys) const {
    GraphSource first = WithQueriesBefore(source(), num_keys);
    first.num_keys = num_keys;
    return first;
  }

 private:
  Workload work_;

 public:
  FloatRows queries;
};

std::vector<GraphIndex> Graphs(const GraphSource& source) {
  std::vector<GraphIndex> graphs;
  graphs.push_back(*GraphIndex::Build(source));
  graphs.push_back(*GraphIndex::BuildRoar(source));
  GraphSource of_head = source;
  of_head.q_head = 1;
  graphs.push_back(*GraphIndex::Build(of_head));
  of_head.queries = {};
  of_head.q_head = {};
  graphs.push_back(*GraphIndex::Build(of_head));
  return graphs;
}

TEST(DistinctKeysTest, ARangeHoldsAllCopies) {
  for (const Order order : kOrders) {
    const Copies copies(order);
    for (const GraphIndex& graph : Graphs(copies.source())) {
      for (const RangeWalk walk : {RangeWalk::kListOrder, RangeWalk::kBestFirst}) {
        for (const size_t num_visible : {size_t{kNumKeys}, size_t{kNumKeys / 2}}) {
          for (size_t i = 0; i < copies.queries.num_rows(); ++i) {
            const float* const q = copies.queries.row(i);
            const auto ranked = test::Ranked(copies.keys(), num_visible, q);
            const float beta = 4;
            const SearchSpec spec = {.kind = SearchKind::kRange,
                                     .beta = beta,
                                     .effort = 50,  // More would score all keys.
                                     .range_walk = walk,
                                     .list_threshold = 256};
            const auto found =
                test::SearchRows(graph, spec, copies.keys(), num_visible, q, 1)[0].keys;
            const auto in_range = std::ranges::count_if(
                ranked, [&](const auto& key) { return key.first >= ranked[0].first - beta; });
            EXPECT_EQ(found.size(), static_cast<size_t>(in_range))
                << "order " << static_cast<int>(order) << ", query " << i;
          }
        }
      }
    }
  }
}

TEST(DistinctKeysTest, TheBestCopiesAreFound) {
  for (const Order order : kOrders) {
    const Copies copies(order);
    for (const GraphIndex& graph : Graphs(copies.source())) {
      const SearchSpec spec = {.kind = SearchKind::kTopK, .k = 100, .effort = 100};
      for (size_t i = 0; i < copies.queries.num_rows(); ++i) {
        const float* const q = copies.queries.row(i);
        const float best = test::Ranked(copies.keys(), kNumKeys, q)[0].first;
        const auto found = test::SearchRows(graph, spec, copies.keys(), kNumKeys, q, 1)[0];
        ASSERT_EQ(found.scores.size(), 100u);
        for (const float score : found.scores) EXPECT_NEAR(score, best, 1e-4f);
      }
    }
  }
}

TEST(DistinctKeysTest, AGraphThatGrowsFindsTheBestCopies) {
  const Copies copies(Order::kRandom);
  const GraphSource old = copies.FirstKeys(kNumKeys * 3 / 4);
  std::vector<GraphIndex> graphs;
  graphs.push_back(*GraphIndex::Grow(copies.source(), *GraphIndex::Build(old)));
  graphs.push_back(*GraphIndex::GrowRoar(copies.source(), *GraphIndex::BuildRoar(old)));
  const SearchSpec spec = {.kind = SearchKind::kTopK, .k = 100, .effort = 100};
  for (size_t graph = 0; graph < graphs.size(); ++graph) {
    for (size_t i = 0; i < copies.queries.num_rows(); ++i) {
      const float* const q = copies.queries.row(i);
      const float best = test::Ranked(copies.keys(), kNumKeys, q)[0].first;
      const auto found = test::SearchRows(graphs[graph], spec, copies.keys(), kNumKeys, q, 1)[0];
      ASSERT_EQ(found.scores.size(), 100u);
      EXPECT_NEAR(std::ranges::min(found.scores), best, 1e-4f) << "graph " << graph << " of " << i;
    }
  }
}

// A graph of copies can be written and read back, each key in it can be reached, and no list of
// links names a key twice.
TEST(DistinctKeysTest, GraphsOfCopiesAreValid) {
  for (const Order order : kOrders) {
    const Copies copies(order);
    for (const GraphIndex& graph : Graphs(copies.source())) {
      AlignedBuffer bytes = *AlignedBuffer::Allocate(graph.bytes().size());
      std::ranges::copy(graph.bytes(), bytes.data());
      const GraphShape shape = {kNumKeys, kDim, DType::kFloat32};
      ATTNDB_EXPECT_OK(GraphIndex::Parse(bytes.span(), shape, "graph"));
    }
  }
}

TEST(DistinctKeysTest, KindsKeepTheirOrderAndQueriesTheirView) {
  Workload work(6, 4, attndb::test::SeedOr(59));
  for (const auto& [copy, of] : {std::pair<size_t, size_t>{2, 0}, {3, 1}, {5, 0}}) {
    std::copy_n(work.keys.row(of), kDim, work.keys.row(copy));
  }
  GraphSource source = work.source();
  const std::vector<uint32_t> tokens = {10, 12, 14, 16};  // Before keys 0, 2, 4 and behind all.
  source.first_token = 10;
  source.queries.tokens = tokens;
  ATTNDB_ASSERT_OK_AND_ASSIGN(DistinctKeys distinct, DistinctKeys::Of(source));
  EXPECT_FALSE(distinct.all_differ());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphSource kinds, distinct.KindSource());
  ASSERT_EQ(kinds.num_keys, 3u);  // Keys 0, 1 and 4.
  const auto* const rows = static_cast<const float*>(kinds.keys.data);
  for (const auto& [kind, key] : {std::pair<size_t, size_t>{0, 0}, {1, 1}, {2, 4}}) {
    EXPECT_TRUE(std::equal(rows + kind * kDim, rows + (kind + 1) * kDim, work.keys.row(key)));
  }
  EXPECT_THAT(kinds.queries.tokens, ::testing::ElementsAre(10, 12, 12, 13));
}

TEST(DistinctKeysTest, KeysThatDifferInOneBitDiffer) {
  Workload work(300, 30, attndb::test::SeedOr(60));
  for (size_t i = 1; i < 300; ++i) {
    std::copy_n(work.keys.row(0), kDim, work.keys.row(i));
    work.keys.row(i)[i % kDim] = std::nextafter(work.keys.row(i)[i % kDim], 100.0f);
    if (i >= kDim) work.keys.row(i)[0] += 0.01f * static_cast<float>(i);
  }
  const GraphSource source = work.source();
  EXPECT_TRUE(DistinctKeys::Of(source)->all_differ());
}

// Flips of the first 64 bits of a row that leave its CRC as it is, whatever the row: the CRC is
// linear.
std::vector<uint64_t> FlipsOfNoEffect(size_t num_flips) {
  const auto crc_of = [](uint64_t first) {
    std::vector<float> row(kDim);
    std::memcpy(row.data(), &first, sizeof(first));
    return Crc32c(std::as_bytes(std::span(row)));
  };
  struct {
    uint32_t crc = 0;
    uint64_t flips = 0;
  } basis[32];  // By the highest bit of the CRC.
  std::vector<uint64_t> found;
  for (size_t bit = 0; found.size() < num_flips; ++bit) {
    uint64_t flips = uint64_t{1} << bit;
    uint32_t crc = crc_of(flips) ^ crc_of(0);
    while (crc != 0 && basis[std::bit_width(crc) - 1].crc != 0) {
      flips ^= basis[std::bit_width(crc) - 1].flips;
      crc ^= basis[std::bit_width(crc) - 1].crc;
    }
    if (crc == 0) found.push_back(flips);
    if (crc != 0) basis[std::bit_width(crc) - 1] = {crc, flips};
  }
  return found;
}

// A file may bring such keys.
TEST(DistinctKeysTest, DifferentKeysOfOneHashDiffer) {
  constexpr size_t kFlips = 9;
  constexpr size_t kDifferent = size_t{1} << kFlips;
  Workload work(kDifferent + 2, 4, attndb::test::SeedOr(61));
  const std::vector<uint64_t> flips = FlipsOfNoEffect(kFlips);
  for (size_t i = 0; i < kDifferent; ++i) {
    uint64_t first = 0;
    for (size_t flip = 0; flip < kFlips; ++flip) first ^= (i >> flip) % 2 == 0 ? 0 : flips[flip];
    std::fill_n(work.keys.row(i), kDim, 0.0f);
    std::memcpy(work.keys.row(i), &first, sizeof(first));
    ASSERT_EQ(Crc32c(std::as_bytes(std::span(work.keys.row(i), kDim))),
              Crc32c(std::as_bytes(std::span(work.keys.row(0), kDim))));
  }
  std::copy_n(work.keys.row(5), kDim, work.keys.row(kDifferent));
  std::copy_n(work.keys.row(300), kDim, work.keys.row(kDifferent + 1));
  const GraphSource source = work.source();
  EXPECT_EQ(DistinctKeys::Of(source)->KindSource()->num_keys, kDifferent);
}

TEST(DistinctKeysTest, ACancelledBuildGroupsNoKeys) {
  Workload work(30, 4, attndb::test::SeedOr(62));
  const GraphSource source = work.source();
  const std::atomic<bool> cancel = true;
  EXPECT_THAT(DistinctKeys::Of(source, &cancel),
              attndb::test::FailsWith(StatusCode::kCancelled, ::testing::HasSubstr("graph")));
}

}  // namespace
}  // namespace attndb::index
