// Goal:   a graph finds the keys that a scan of all keys finds, except for a recorded share. It is
//         the same for any number of threads. No source breaks it.
// Method: keys and queries of different distributions, by seed; brute force.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/graph_index.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using test::FloatRows;
using test::kDim;
using test::kHeads;
using test::Recall;
using test::Workload;

std::vector<std::byte> Copy(const GraphIndex& graph) {
  return {graph.bytes().begin(), graph.bytes().end()};
}

TEST(GraphIndexTest, FindsTheBestKeysOfAGroup) {
  Workload work(20000, 6000, attndb::test::SeedOr(82));
  const FloatRows queries = work.NewQueries(60);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(work.source()));
  EXPECT_EQ(graph.num_keys(), 20000u);
  EXPECT_LE(graph.memory_bytes(), 20000u * 56);
  SearchCost cost;
  const double recall = Recall(graph, work.keys, 20000, queries, 50, 0, &cost);
  EXPECT_GE(recall, 0.97);
  EXPECT_LE(cost.rows_read, 20 * 20000u / 5);
  EXPECT_GT(cost.hops, 0u);
  EXPECT_GE(cost.keys_scored, cost.rows_read * kHeads);
  EXPECT_GE(Recall(graph, work.keys, 20000, queries, 50, 400), recall);
}

TEST(GraphIndexTest, AHeadOfItsOwnIsAsGood) {
  Workload work(8000, 6000, attndb::test::SeedOr(83));
  GraphSource source = work.source();
  source.q_head = 1;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(source));
  FloatRows queries(30);
  for (size_t i = 0; i < 30; ++i) work.FillQuery(1, queries.row(i));
  EXPECT_GE(Recall(graph, work.keys, 8000, queries, 20, 100), 0.97);
}

TEST(GraphIndexTest, ThreadsDoNotShow) {
  Workload work(5000, 1500, attndb::test::SeedOr(84));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex alone, GraphIndex::Build(work.source()));
  for (const uint32_t num_threads : {1u, 2u, 8u}) {
    ThreadPool pool(num_threads);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph,
                                GraphIndex::Build(work.source(), {.pool = &pool}));
    EXPECT_TRUE(Copy(graph) == Copy(alone)) << num_threads;
  }
}

TEST(GraphIndexTest, BytesAreNoMoreThanSaid) {
  EXPECT_LE(GraphIndex::BytesFor({65536, 128, DType::kFloat16}), 65536u * 61);
  EXPECT_LE(GraphIndex::BytesFor({4096, 128, DType::kFloat16}), 4096u * 61);
  for (const size_t n : {1u, 2u, 63u, 700u}) {
    Workload work(n, 900, attndb::test::SeedOr(92));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(work.source()));
    EXPECT_LE(graph.memory_bytes(), GraphIndex::BytesFor({n, kDim, DType::kFloat32})) << n;
  }
}

TEST(GraphIndexTest, FewKeysAreFoundAllTheSame) {
  for (const size_t n : {0u, 1u, 2u, 3u, 17u}) {
    Workload work(n, 30, attndb::test::SeedOr(85));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(work.source()));
    EXPECT_EQ(graph.num_keys(), n);
    const SearchSpec spec = {.kind = SearchKind::kTopK, .k = 5, .effort = 1};
    const SearchSpec all = {.kind = SearchKind::kRange, .beta = 1e9f};
    for (size_t visible = 0; visible <= n; ++visible) {
      const auto search = [&](const SearchSpec& of) {
        return test::SearchRows(graph, of, work.keys, visible, work.queries.row(0), kHeads);
      };
      for (const auto& row : search(spec)) {
        EXPECT_EQ(row.keys.size(), std::min<size_t>(visible, 5));
      }
      for (const auto& row : search(all)) EXPECT_EQ(row.keys.size(), visible);
    }
  }
}

// Keys that a search reaches at all: with a window of all of them, every one.
void ExpectAllReachable(const GraphIndex& graph, const FloatRows& keys, const float* q) {
  const auto n = static_cast<uint32_t>(keys.num_rows());
  std::vector<uint8_t> reached(n);
  std::vector<uint32_t> open = {graph.view().header.entry_point};
  reached[open[0]] = 1;
  while (!open.empty()) {
    uint32_t ids[kMaxSlotIds];
    const size_t count = graph.view().neighbours.Read(open.back(), ids);
    open.pop_back();
    for (size_t j = 0; j < count; ++j) {
      ASSERT_LT(ids[j], n);
      if (reached[ids[j]]++ == 0) open.push_back(ids[j]);
      reached[ids[j]] = 1;
    }
  }
  EXPECT_EQ(std::count(reached.begin(), reached.end(), 1), static_cast<ptrdiff_t>(n));
  ATTNDB_EXPECT_OK(GraphIndex::Parse(graph.bytes(), {n, kDim, DType::kFloat32}, "built"));
  const auto rows = test::SearchRows(graph, {.kind = SearchKind::kTopK, .k = 10}, keys, n, q, 1);
  EXPECT_EQ(rows[0].keys.size(), std::min<size_t>(n, 10));
}

TEST(GraphIndexTest, PoorSourcesGiveWholeGraphs) {
  Workload work(3000, 300, attndb::test::SeedOr(86));
  const auto check = [&](const GraphSource& source, const char* what) {
    SCOPED_TRACE(what);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(source));
    ExpectAllReachable(graph, work.keys, work.queries.row(0));
  };
  GraphSource source = work.source();
  source.queries = {};
  check(source, "no queries");
  source = work.source();
  source.q_head = 77;
  check(source, "no queries of the head");
  std::vector<uint32_t> one = {0};
  source = work.source();
  source.queries.tokens = source.queries.q_heads = one;
  check(source, "one query");
  for (size_t i = 1; i < 300; ++i) std::copy_n(work.queries.row(0), kDim, work.queries.row(i));
  check(work.source(), "equal queries");
  for (size_t i = 0; i < 300; ++i) std::fill_n(work.queries.row(i), kDim, 0.0f);
  check(work.source(), "zero queries");
  std::fill_n(work.queries.row(0), 300 * kDim, std::numeric_limits<float>::quiet_NaN());
  check(work.source(), "queries that are not finite");
  for (size_t i = 0; i < 2000; ++i) std::copy_n(work.keys.row(2500), kDim, work.keys.row(i));
  check(work.source(), "duplicate keys");
  for (size_t i = 0; i < 3000; ++i) std::fill_n(work.keys.row(i), kDim, 0.0f);
  check(work.source(), "zero keys");
}

TEST(GraphIndexTest, LongKeysHideNothing) {
  Workload work(6000, 3000, attndb::test::SeedOr(87));
  for (size_t i = 0; i < 6000; i += 600) {
    for (size_t d = 0; d < kDim; ++d) work.keys.row(i)[d] *= 8.0f;
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::Build(work.source()));
  EXPECT_GE(Recall(graph, work.keys, 6000, work.NewQueries(60), 20, 100), 0.95);
}

// A workload's first keys and the queries of their tokens, as a source.
GraphSource FirstOf(const Workload& work, size_t num_keys, size_t num_queries) {
  GraphSource source = work.source();
  source.num_keys = num_keys;
  source.queries.tokens = source.queries.tokens.first(num_queries);
  source.queries.q_heads = source.queries.q_heads.first(num_queries);
  return source;
}

// The others' queries.
void DropQueries(size_t count, GraphSource* source) {
  source->queries.q += count * kDim * sizeof(float);
  source->queries.tokens = source->queries.tokens.subspan(count);
  source->queries.q_heads = source->queries.q_heads.subspan(count);
}

TEST(GraphIndexTest, InsertedKeysAreFoundLikeOthers) {
  constexpr size_t kKeys = 9000, kQueries = 3600;
  Workload work(kKeys, kQueries, attndb::test::SeedOr(89));
  const FloatRows queries = work.NewQueries(60);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex fresh, GraphIndex::Build(work.source()));
  const double recall = Recall(fresh, work.keys, kKeys, queries, 50, 120);
  EXPECT_GE(recall, 0.95);
  // 50 % more, and three times as many.
  for (const size_t first : {kKeys * 2 / 3, kKeys / 4}) {
    const size_t num_old = kQueries * first / kKeys / kHeads * kHeads;
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex old,
                                GraphIndex::Build(FirstOf(work, first, num_old)));
    const GraphRun run = {&old, 0};
    GraphSource source = work.source();
    DropQueries(num_old, &source);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex extended,
                                GraphIndex::Extend(source, std::span(&run, 1)));
    EXPECT_GE(Recall(extended, work.keys, kKeys, queries, 50, 120), recall - 0.01) << first;
    // Without the q rows of the new tokens: only the old rows rank the new keys.
    source.queries = {};
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex blind,
                                GraphIndex::Extend(source, std::span(&run, 1)));
    EXPECT_GE(Recall(blind, work.keys, kKeys, queries, 50, 120), 0.93) << first;
    ExpectAllReachable(blind, work.keys, queries.row(0));
  }
}

TEST(GraphIndexTest, MergedGraphsFindWhatAFreshOneDoes) {
  constexpr size_t kKeys = 8000, kQueries = 3000, kFirst = 5000;
  Workload work(kKeys, kQueries, attndb::test::SeedOr(90));
  const FloatRows queries = work.NewQueries(60);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex front,
                              GraphIndex::Build(FirstOf(work, kFirst, 1500)));
  GraphSource source = work.source();
  source.keys = kernels::RowsFrom(source.keys, kFirst);
  source.num_keys = kKeys - kFirst;
  DropQueries(1500, &source);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex back, GraphIndex::Build(source));
  const GraphRun runs[] = {{&front, 0}, {&back, kFirst}};
  source = work.source();
  source.queries = {};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex merged, GraphIndex::Extend(source, runs));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex fresh, GraphIndex::Build(work.source()));
  EXPECT_GE(Recall(merged, work.keys, kKeys, queries, 50, 120),
            Recall(fresh, work.keys, kKeys, queries, 50, 120) - 0.02);
  ExpectAllReachable(merged, work.keys, queries.row(0));
  ThreadPool pool(3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex again,
                              GraphIndex::Extend(source, runs, {.pool = &pool}));
  EXPECT_TRUE(Copy(again) == Copy(merged));
}

// The prior graph's keys stand in closed rings of full lists: there is room for one or two ways out
// of a ring at most.
TEST(GraphIndexTest, FullListsOfAPriorGraphLeaveNoKeyOut) {
  constexpr uint32_t kKeys = 91, kRing = 18;
  Workload work(kKeys, 3, attndb::test::SeedOr(91));
  for (size_t d = 0; d < kDim; ++d) work.keys.row(0)[d] = 9 * work.queries.row(0)[d];
  std::vector<uint32_t> one = {0};
  GraphSource source = work.source();
  source.queries.tokens = source.queries.q_heads = one;
  const GraphOptions options = {.keys_per_query = 1, .slot_bytes = 16};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex built, GraphIndex::Build(source, options));
  AlignedBuffer bytes = *AlignedBuffer::Allocate(built.bytes().size());
  std::ranges::copy(built.bytes(), bytes.data());
  const SlotView& slots = built.view().neighbours;
  ASSERT_EQ(SlotCapacity(slots.slot_bytes, slots.id_bits), kRing - 1);
  auto* const to =
      reinterpret_cast<uint8_t*>(bytes.data() + GraphLayout(built.view().header).slots);
  std::vector<uint32_t> firsts;
  for (uint32_t key = 0; key < kKeys - 1; ++key) {
    const uint32_t first = key / kRing * kRing;
    if (key == first) firsts.push_back(key);
    std::vector<uint32_t> others(kRing);
    std::iota(others.begin(), others.end(), first);
    std::erase(others, key);
    WriteSlot(slots, key, others, to);
  }
  WriteSlot(slots, kKeys - 1, firsts, to);
  const uint32_t entry_point = kKeys - 1;
  std::memcpy(bytes.data() + 40, &entry_point, sizeof(entry_point));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const GraphIndex prior,
      GraphIndex::Parse(bytes.span(), {kKeys, kDim, DType::kFloat32}, "rings"));
  const GraphRun run = {&prior, 0};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph,
                              GraphIndex::Extend(source, std::span(&run, 1), options));
  EXPECT_EQ(graph.view().header.entry_point, 0u);
  ExpectAllReachable(graph, work.keys, work.queries.row(0));
}

TEST(GraphIndexTest, ABuildCanBeCancelled) {
  Workload work(2000, 600, attndb::test::SeedOr(88));
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(GraphIndex::Build(work.source(), {.cancel = &cancel}).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace attndb::index
