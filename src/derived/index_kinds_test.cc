// Goal:   a kind gives its index the right source: the keys of the head without a context's sinks,
//         their queries, the dims that RoPE turns together, the group's denominators, and the
//         options of the store. Objects made in another way are refused.
// Method: a segment of random rows with sampled queries; the bytes of a head that a kind builds
//         against those that its index makes of the rows as they were given.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <string>
#include <utility>

#include "derived/kinds.h"
#include "derived/plane_sources.h"
#include "index/coarse/wave_keys.h"
#include "index/graph/graph_index.h"
#include "index/graph/head_graphs.h"
#include "index/planes/key_planes.h"
#include "index/pq/pq_keys.h"
#include "index/prefill/prefill_ranking.h"
#include "storage/kv/segment.h"
#include "storage/kv/segment_writer.h"
#include "testing/kv_data.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"
#include "testing/segment_data.h"

namespace attndb::derived {
namespace {

using index::GraphIndex;
using index::GraphSource;
using test::FailsWith;
using test::IsOk;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kTokens = 700;
constexpr uint32_t kDim = 16;
constexpr uint64_t kQueries = 60;
constexpr uint32_t kGroup = 3;
constexpr uint64_t kSinks = 16;  // First tokens of a context, which are in no graph.
constexpr uint32_t kHead = 1;    // The kv head that is built, the second of two.

class IndexKindsTest : public ::testing::Test {
 protected:
  IndexKindsTest() {
    ATTNDB_EXPECT_OK(fs_.CreateDir("segments"));
    layer_.num_kv_heads = 2;
    layer_.num_q_heads = 2 * kGroup;
    layer_.head_dim = layer_.v_head_dim = kDim;
    layer_.scale = 0.5f;
    MakeSegment(1000);
  }

  // The segment is one whose first token is at that position.
  void MakeSegment(int64_t first_position) {
    data_ = test::RandomSegment({.shape = test::UniformShape(DType::kFloat16, 1, {2, kDim, kDim}),
                                 .num_tokens = kTokens,
                                 .segment_id = ++num_segments_},
                                &random_);
    data_.identity.first_position = first_position;
    for (test::HeadData& head : data_.layers[0]) {
      head.q = test::RandomRows({DType::kFloat16, kQueries, kDim}, &random_);
      for (uint32_t i = 0; i < kQueries; ++i) {
        head.query_tokens.push_back(10 * i + 5);
        head.query_heads.push_back(i % kGroup);
      }
    }
    test::DataSource source(&data_, kTokens);
    const auto written = storage::WriteSegment(
        {.file_system = &fs_, .dir = "segments", .identity = data_.identity}, &source);
    ASSERT_THAT(written, IsOk());
    segment_ =
        *storage::Segment::Open(&fs_, "segments", {data_.identity, written->root_hash}, &budget_);
  }

  // The source of the head.
  const test::HeadData& data() const { return data_.head(0, kHead); }
  kernels::RowsView keys() const { return {data().k.data(), kDim, kDim, DType::kFloat16}; }
  kernels::RowsView values() const { return {data().v.data(), kDim, kDim, DType::kFloat16}; }
  storage::QueryRows queries() const {
    return {data().q.data(), data().query_tokens, data().query_heads};
  }
  GraphSource GraphSourceFrom(uint64_t first_key) const {
    GraphSource source;
    source.keys = kernels::RowsFrom(keys(), first_key);
    source.num_keys = kTokens - first_key;
    source.queries = queries();
    source.first_token = first_key;
    return source;
  }
  index::PqSource PqSourceOf(size_t num_pairs) const {
    return {.keys = keys(), .num_keys = kTokens, .queries = queries(), .num_pairs = num_pairs};
  }

  Result<BuiltHead> Build(const Kind& kind, const std::atomic<bool>* cancel = nullptr,
                          const PriorHead* prior = nullptr) const {
    const PlaneSources sources(*segment_, 0, layer_);
    ATTNDB_ASSIGN_OR_RETURN(const storage::HeadRows rows,
                            segment_->ReadRows(0, kHead, storage::RowPart::kKeys));
    const index::PlaneSource of_head = sources.Of(kHead, rows.data());
    return kind.Build({.run = segment_.get(),
                       .layer = 0,
                       .kv_head = kHead,
                       .spec = &layer_,
                       .rows = rows.data(),
                       .keys = &of_head,
                       .cancel = cancel,
                       .prior = prior});
  }
  Result<BuiltHead> Build(std::string_view use) const { return Build(kinds_.ForUse(use)); }
  static std::vector<storage::ObjectRange> PartsOf(std::span<const std::byte> bytes) {
    std::vector<storage::ObjectRange> parts(1);
    parts[0].buffer = *AlignedBuffer::Allocate(bytes.size());
    std::ranges::copy(bytes, parts[0].buffer.data());
    parts[0].bytes = parts[0].buffer.span();
    return parts;
  }
  Result<Head> Parse(std::string_view use, std::span<const std::byte> bytes) const {
    return kinds_.ForUse(use).Parse({.run = segment_.get(),
                                     .layer = 0,
                                     .spec = &layer_,
                                     .name = "test",
                                     .parts = PartsOf(bytes)});
  }
  static void ExpectBytes(const Result<BuiltHead>& built, std::span<const std::byte> expected) {
    ASSERT_THAT(built, IsOk());
    ASSERT_EQ(built->parts.size(), 1u);
    EXPECT_TRUE(std::ranges::equal(built->parts[0], expected));
  }

  Random random_{test::SeedOr(3)};
  test::MemoryFileSystem fs_;
  storage::MemoryBudget budget_{uint64_t{1} << 30};
  // Graphs that are built in a fraction of the time.
  const Kinds kinds_ =
      BuiltinKinds({.roar_keys_per_query = 20, .roar_max_degree = 8, .roar_search_window = 20});
  uint64_t num_segments_ = 0;
  test::SegmentData data_;
  std::shared_ptr<const storage::Segment> segment_;
  LayerSpec layer_;
};

TEST_F(IndexKindsTest, PlanesAreOfAllKeysAtTheirPositionsUnderRope) {
  layer_.rope.layout = RopeLayout::kHalf;
  const std::vector<double> frequencies = index::RotaryFrequencies(layer_.rope, kDim);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const index::KeyPlanes planes,
                              index::KeyPlanes::Build({.keys = keys(),
                                                       .num_keys = kTokens,
                                                       .first_position = 1000,
                                                       .frequencies = frequencies,
                                                       .queries = queries()}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuiltHead built, Build("key_planes"));
  ASSERT_EQ(built.parts.size(), 2u);
  EXPECT_TRUE(std::ranges::equal(built.parts[0], planes.parts().main));
  EXPECT_TRUE(std::ranges::equal(built.parts[1], planes.parts().low));
  EXPECT_EQ(built.num_rows, kTokens);
}

TEST_F(IndexKindsTest, AGraphIsOfAllKeysButAContextsSinks) {
  for (const int64_t first_position : {0, 1000}) {
    SCOPED_TRACE(first_position);
    MakeSegment(first_position);
    const uint64_t first_key = first_position == 0 ? kSinks : 0;
    const GraphSource source = GraphSourceFrom(first_key);
    const auto build = [](const GraphSource& part) { return GraphIndex::Build(part); };
    ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, build(source));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const index::HeadGraphs graphs,
                                index::HeadGraphs::Build(source, kGroup, build));
    ExpectBytes(Build("graph"), graph.bytes());
    ExpectBytes(Build("graph_head"), graphs.bytes());
    for (const char* use : {"graph", "graph_head"}) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const BuiltHead built, Build(use));
      ATTNDB_ASSERT_OK_AND_ASSIGN(const Head read, Parse(use, built.parts[0]));
      for (const Head* head : {&built.head, &read}) {
        EXPECT_EQ(head->index->first_key(), first_key) << use;
        EXPECT_EQ(head->index->num_keys(), kTokens) << use;
      }
      EXPECT_EQ(built.num_rows, kTokens - first_key) << use;
    }
  }
}

TEST_F(IndexKindsTest, ARoarGraphIsBuiltByTheStoresOptions) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const GraphIndex graph,
      GraphIndex::BuildRoar(GraphSourceFrom(0),
                            {.keys_per_query = 20, .max_degree = 8, .search_window = 20}));
  ExpectBytes(Build("roargraph"), graph.bytes());
}

TEST_F(IndexKindsTest, AGraphWhoseBuildIsCancelledIsNone) {
  const std::atomic<bool> cancel = true;
  for (const char* use : {"graph", "roargraph", "graph_head", "roargraph_head"}) {
    EXPECT_THAT(Build(kinds_.ForUse(use), &cancel),
                FailsWith(StatusCode::kCancelled, HasSubstr("graph")))
        << use;
  }
}

TEST_F(IndexKindsTest, AGraphGrowsFromOneOfFewerKeysAlone) {
  for (const char* use : {"graph", "roargraph"}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const BuiltHead built, Build(use));
    const PriorHead all = {"prior", PartsOf(built.parts[0]), kTokens};
    ExpectBytes(Build(kinds_.ForUse(use), nullptr, &all), built.parts[0]);
    const PriorHead none = {"prior", PartsOf(built.parts[0]), 0};
    ExpectBytes(Build(kinds_.ForUse(use), nullptr, &none), built.parts[0]);
  }
}

TEST_F(IndexKindsTest, CodesPairTheChannelsThatRopeTurnsTogether) {
  const struct {
    Rope rope;
    size_t num_pairs;
  } cases[] = {{{.layout = RopeLayout::kNone}, 0},
               {{.layout = RopeLayout::kHalf}, kDim / 2},
               {{.layout = RopeLayout::kInterleaved}, kDim / 2},
               {{.layout = RopeLayout::kHalf, .rope_dims = 8}, 4}};
  for (const auto& c : cases) {
    layer_.rope = c.rope;
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const index::PqKeys codes,
        index::PqKeys::Build(PqSourceOf(c.num_pairs), {.num_subspaces = 4, .bits = 4}));
    ExpectBytes(Build("pq_4x4"), codes.bytes());
  }
}

TEST_F(IndexKindsTest, CodesOfOtherSubspacesOrBitsAreRefused) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuiltHead built, Build("pq_4x4"));
  EXPECT_THAT(Parse("pq_4x4", built.parts[0]), IsOk());
  for (const char* use : {"pq_8x4", "pq_4x6"}) {
    EXPECT_THAT(Parse(use, built.parts[0]),
                FailsWith(StatusCode::kCorruption,
                          AllOf(HasSubstr("codes of 4 subspaces of 4 bits"), HasSubstr(use))));
  }
}

TEST_F(IndexKindsTest, RowsThatDivideIntoNoSuchSubspacesHaveNoCodes) {
  EXPECT_EQ(kinds_.ForUse("pq_16x4").HeadBytes(*segment_, 0, layer_),
            index::PqKeys::BytesFor(kTokens, kDim, {.num_subspaces = 16, .bits = 4}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuiltHead built, Build("pq_16x4"));
  EXPECT_NE(built.head.index, nullptr);
  EXPECT_EQ(kinds_.ForUse("pq_32x4").HeadBytes(*segment_, 0, layer_), 0u);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const BuiltHead none, Build("pq_32x4"));
  EXPECT_EQ(none.head.index, nullptr);
  EXPECT_EQ(none.num_rows, 0u);
}

TEST_F(IndexKindsTest, RoundsOfKMeansAreTheStores) {
  const index::WaveSource source = {.keys = keys(), .values = values(), .num_keys = kTokens};
  const Kinds once = BuiltinKinds({.kmeans_iterations = 1});
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const index::WaveKeys clusters,
      index::WaveKeys::Build(source, {.cluster_keys = 32, .num_rounds = 1}));
  ExpectBytes(Build(once.ForUse("wave_32")), clusters.bytes());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const index::WaveKeys usual,
                              index::WaveKeys::Build(source, {.cluster_keys = 32}));
  ExpectBytes(Build("wave_32"), usual.bytes());
  EXPECT_FALSE(std::ranges::equal(clusters.bytes(), usual.bytes()));

  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const index::PqKeys codes,
      index::PqKeys::Build(PqSourceOf(0), {.num_subspaces = 4, .bits = 4, .num_rounds = 1}));
  ExpectBytes(Build(once.ForUse("pq_4x4")), codes.bytes());
}

TEST_F(IndexKindsTest, ARankingWeighsBesideTheDenominatorsOfItsGroup) {
  const auto rank = [&](std::span<const float> denominators) {
    return index::PrefillRanking::Build({.keys = keys(),
                                         .num_keys = kTokens,
                                         .queries = queries(),
                                         .logit = {layer_.scale, layer_.soft_cap},
                                         .denominator_logits = denominators});
  };
  ATTNDB_ASSERT_OK_AND_ASSIGN(const index::PrefillRanking without, rank({}));
  ExpectBytes(Build("static_prefill"), without.bytes());

  // The first group's come before the head's own, in which one q head weighs next to nothing.
  layer_.denominator_logits = {-40, -40, 40, 40, -40, -40};
  const std::array<float, kGroup> own = {40, -40, -40};
  ATTNDB_ASSERT_OK_AND_ASSIGN(const index::PrefillRanking ranking, rank(own));
  EXPECT_FALSE(std::ranges::equal(ranking.bytes(), without.bytes()));
  ExpectBytes(Build("static_prefill"), ranking.bytes());
}

}  // namespace
}  // namespace attndb::derived
