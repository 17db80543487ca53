// Goal:   each q head is searched in a graph that its own queries trained, as if that graph were
//         alone; bytes that are no such graphs are refused by name.
// Method: keys and queries of three heads near surfaces of their own; each q head's graph built and
//         searched beside the index; exact scores in double.
#include "index/graph/head_graphs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "common/thread_pool.h"
#include "index/graph/graph_test_util.h"
#include "testing/matchers.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

using attndb::test::FailsWith;
using test::FloatRows;
using test::kDim;
using test::kHeads;
using test::Recall;
using test::Workload;
using ::testing::HasSubstr;

constexpr size_t kKeys = 3000;
constexpr GraphShape kShape = {kKeys, kDim, DType::kFloat32};

Result<GraphIndex> BuildOurs(const GraphSource& source) { return GraphIndex::Build(source); }
Result<GraphIndex> BuildRoar(const GraphSource& source) {
  return GraphIndex::BuildRoar(source, {.keys_per_query = 40, .search_window = 80});
}

HeadGraphs Build(const Workload& work, const HeadGraphs::BuildGraph& build = BuildOurs) {
  Result<HeadGraphs> graphs = HeadGraphs::Build(work.source(), kHeads, build);
  ATTNDB_EXPECT_OK(graphs.status());
  return *std::move(graphs);
}

AlignedBuffer Copy(std::span<const std::byte> bytes) {
  AlignedBuffer copy = *AlignedBuffer::Allocate(bytes.size() + kGraphAlignment);
  std::ranges::copy(bytes, copy.data());
  return copy;
}

// All ways to search.
std::vector<SearchSpec> Searches() {
  const SearchSpec top = {.kind = SearchKind::kTopK, .k = 30};
  const SearchSpec range = {.kind = SearchKind::kRange, .beta = 20.0f};
  SearchSpec listed = range;
  listed.range_walk = RangeWalk::kListOrder;
  listed.list_threshold = 64;
  std::vector<SearchSpec> all = {top, range, listed};
  for (SearchSpec spec : {top, range, listed}) {
    spec.expand = Expand::kAll;
    all.push_back(spec);
  }
  return all;
}

TEST(HeadGraphsTest, EachHeadFindsWhatItsOwnGraphDoes) {
  Workload work(kKeys, 1800, attndb::test::SeedOr(201));
  FloatRows queries = work.NewQueries(4 * kHeads);
  for (const auto& build : {BuildOurs, BuildRoar}) {
    const HeadGraphs graphs = Build(work, build);
    ASSERT_EQ(graphs.graphs().size(), kHeads);
    for (size_t head = 0; head < kHeads; ++head) {
      GraphSource source = work.source();
      source.q_head = static_cast<uint32_t>(head);
      ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex alone, build(source));
      EXPECT_TRUE(std::ranges::equal(alone.bytes(), graphs.graphs()[head].bytes())) << head;
      for (const SearchSpec& spec : Searches()) {
        for (size_t row = 0; row < queries.num_rows(); row += kHeads) {
          const std::vector<float> best(kHeads, 1.0f);
          IndexRun run = {.index = &graphs,
                          .keys = work.keys.view(),
                          .first_visible = 100,
                          .num_visible = 2200,
                          .first_token = 7};
          const auto found = test::SearchRun(run, spec, queries.row(row), kHeads, best.data());
          run.index = &alone;
          const auto expected = test::SearchRun(run, spec, queries.row(row + head), 1, best.data());
          EXPECT_EQ(found[head].keys, expected[0].keys);
          EXPECT_EQ(found[head].scores, expected[0].scores);
        }
      }
    }
  }
}

TEST(HeadGraphsTest, FindsTheBestKeys) {
  Workload work(8000, 6000, attndb::test::SeedOr(202));
  const FloatRows queries = work.NewQueries(60);
  SearchCost cost;
  EXPECT_GE(Recall(Build(work), work.keys, 8000, queries, 20, 100, &cost), 0.97);
  EXPECT_LE(cost.keys_scored, 60 * 8000u / 5);
}

// A chain of two runs, of which each row sees its own graphs; keys before the first are left out.
TEST(HeadGraphsTest, RunsOfAChainAreSearchedTogether) {
  Workload first(kKeys, 1800, attndb::test::SeedOr(203));
  Workload second(kKeys, 1800, attndb::test::SeedOr(204));
  HeadGraphs graphs[] = {Build(first), Build(second)};
  EXPECT_EQ(graphs[0].num_keys(), kKeys);
  const FloatRows queries = first.NewQueries(kHeads);
  const IndexRun runs[] = {{.index = &graphs[0], .keys = first.keys.view(), .num_visible = kKeys},
                           {.index = &graphs[1],
                            .keys = second.keys.view(),
                            .num_visible = kKeys,
                            .first_token = kKeys}};
  const SearchSpec all = {.kind = SearchKind::kRange, .beta = 1e9f};
  IndexCall call = {
      .spec = all, .runs = runs, .q = queries.row(0), .q_stride = kDim, .num_q_rows = kHeads};
  AlignedBuffer scratch = *AlignedBuffer::Allocate(graphs[0].ScratchBytes(call));
  std::vector<uint32_t> tokens(kHeads * 2 * kKeys);
  std::vector<float> scores(tokens.size());
  std::vector<FoundKeys> found;
  for (size_t r = 0; r < kHeads; ++r) {
    found.push_back({tokens.data() + r * 2 * kKeys, scores.data() + r * 2 * kKeys, 0});
  }
  SearchCost cost;
  ATTNDB_ASSERT_OK(test::SearchInMemory(call, scratch.data(), found.data(), &cost));
  for (size_t r = 0; r < kHeads; ++r) {
    ASSERT_EQ(found[r].count, 2 * kKeys);
    for (size_t i = 0; i < found[r].count; ++i) {
      const uint32_t token = found[r].tokens[i];
      const float* const key =
          token < kKeys ? first.keys.row(token) : second.keys.row(token - kKeys);
      EXPECT_NEAR(found[r].scores[i], test::Score(queries.row(r), key), 1e-3);
    }
  }
}

TEST(HeadGraphsTest, KeysInFrontAreTheCallers) {
  Workload work(kKeys, 900, attndb::test::SeedOr(205));
  HeadGraphs graphs = Build(work);
  graphs.set_first_key(16);
  EXPECT_EQ(graphs.first_key(), 16u);
  EXPECT_EQ(graphs.num_keys(), kKeys + 16);
}

// One whose q head has no sampled queries has a graph that keys trained.
TEST(HeadGraphsTest, HeadsWithoutQueriesHaveGraphsToo) {
  Workload work(kKeys, 900, attndb::test::SeedOr(206));
  for (uint32_t& head : work.heads) head = 1;
  const HeadGraphs graphs = Build(work);
  const auto rows = test::SearchRows(graphs, {.kind = SearchKind::kTopK, .k = 10}, work.keys, kKeys,
                                     work.queries.row(0), kHeads);
  for (const auto& row : rows) EXPECT_EQ(row.keys.size(), 10u);
}

TEST(HeadGraphsTest, ThreadsDoNotShowAndBytesAreRead) {
  Workload work(kKeys, 1800, attndb::test::SeedOr(207));
  const HeadGraphs alone = Build(work);
  ThreadPool pool(3);
  const HeadGraphs graphs = Build(
      work, [&](const GraphSource& source) { return GraphIndex::Build(source, {.pool = &pool}); });
  EXPECT_TRUE(std::ranges::equal(graphs.bytes(), alone.bytes()));
  EXPECT_EQ(graphs.memory_bytes(), graphs.bytes().size());
  EXPECT_LE(graphs.bytes().size(), HeadGraphs::BytesFor(GraphIndex::BytesFor(kShape), kHeads));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const HeadGraphs read,
                              HeadGraphs::Parse(graphs.bytes(), kShape, kHeads, "written"));
  EXPECT_EQ(Recall(read, work.keys, kKeys, work.queries, 10, 0),
            Recall(graphs, work.keys, kKeys, work.queries, 10, 0));
}

TEST(HeadGraphsTest, ABuildThatFailsSaysSo) {
  Workload work(kKeys, 900, attndb::test::SeedOr(208));
  const std::atomic<bool> cancel = true;
  const Result<HeadGraphs> built = HeadGraphs::Build(
      work.source(), kHeads,
      [&](const GraphSource& source) { return GraphIndex::Build(source, {.cancel = &cancel}); });
  EXPECT_EQ(built.status().code(), StatusCode::kCancelled);
}

class HeadGraphsBytesTest : public ::testing::Test {
 protected:
  Status Read(std::span<const std::byte> bytes, uint32_t num_graphs = kHeads,
              const GraphShape& shape = kShape) {
    return HeadGraphs::Parse(bytes, shape, num_graphs, "o").status();
  }
  // With `value` at `at`.
  template <typename T>
  Status ReadWith(size_t at, T value) {
    AlignedBuffer bytes = Copy(graphs_.bytes());
    std::memcpy(bytes.data() + at, &value, sizeof(value));
    return Read(bytes.span().first(graphs_.bytes().size()));
  }

  Workload work_{kKeys, 900, attndb::test::SeedOr(209)};
  HeadGraphs graphs_ = Build(work_);
};

TEST_F(HeadGraphsBytesTest, HeadersThatDoNotFitAreRefused) {
  const size_t num_bytes = graphs_.graphs()[0].bytes().size();
  EXPECT_THAT(ReadWith(0, 'x'), FailsWith(StatusCode::kCorruption, HasSubstr("o: magic")));
  EXPECT_THAT(ReadWith(8, 2u), FailsWith(StatusCode::kUnsupported, HasSubstr("version")));
  EXPECT_THAT(ReadWith(12, 2u),
              FailsWith(StatusCode::kCorruption, HasSubstr("o: num_graphs: expected 3, found 2")));
  EXPECT_THAT(ReadWith(12, UINT32_MAX),
              FailsWith(StatusCode::kCorruption, HasSubstr("num_graphs")));
  EXPECT_THAT(ReadWith(16, uint64_t{1} << 63),
              FailsWith(StatusCode::kCorruption, HasSubstr("o: graph_bytes[0]")));
  EXPECT_THAT(ReadWith(24, UINT64_MAX),
              FailsWith(StatusCode::kCorruption, HasSubstr("o: graph_bytes[1]")));
  EXPECT_THAT(ReadWith(32, uint64_t{1}),
              FailsWith(StatusCode::kCorruption, HasSubstr("graph_bytes[2]")));
  EXPECT_THAT(ReadWith(16, uint64_t{num_bytes + kGraphAlignment}),
              FailsWith(StatusCode::kCorruption, HasSubstr("graph_bytes[2]: expected at most")));
  EXPECT_THAT(ReadWith(16, uint64_t{0}), FailsWith(StatusCode::kCorruption, HasSubstr("length")));
  EXPECT_THAT(ReadWith(48, 1u), FailsWith(StatusCode::kCorruption, HasSubstr("reserved")));
}

TEST_F(HeadGraphsBytesTest, PartsOfAnyOtherLengthAreRefused) {
  const std::span<const std::byte> all = graphs_.bytes();
  for (const size_t size : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{40}, size_t{64},
                            size_t{100}, all.size() / 2, all.size() - 64, all.size() - 1}) {
    EXPECT_EQ(Read(all.first(size)).code(), StatusCode::kCorruption) << size;
  }
  AlignedBuffer longer = Copy(all);
  EXPECT_THAT(Read(longer.span().first(all.size() + 64)),
              FailsWith(StatusCode::kCorruption, HasSubstr("o: length")));
}

TEST_F(HeadGraphsBytesTest, OtherNumbersOfGraphsOrKeysAreRefused) {
  for (const uint32_t num_graphs : {1u, 2u, 4u, 1000u}) {
    EXPECT_THAT(Read(graphs_.bytes(), num_graphs),
                FailsWith(StatusCode::kCorruption, HasSubstr("num_graphs")));
  }
  EXPECT_THAT(Read(graphs_.bytes(), kHeads, {kKeys - 1, kDim, DType::kFloat32}),
              FailsWith(StatusCode::kCorruption, HasSubstr("graph of q head 0: num_keys")));
}

// The last graph's list that leads out of the keys.
TEST_F(HeadGraphsBytesTest, DamageNamesItsGraph) {
  const size_t last = graphs_.bytes().size() - graphs_.graphs()[2].bytes().size();
  EXPECT_THAT(ReadWith(last + kGraphHeaderBytes, uint64_t{UINT64_MAX}),
              FailsWith(StatusCode::kCorruption, HasSubstr("graph of q head 2: neighbours")));
}

}  // namespace
}  // namespace attndb::index
