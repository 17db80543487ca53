// Goal:   the build is RoarGraph's as published: its lists equal those of the three steps written
//         down plainly. Its bytes are read back, and no bytes crash a reader.
// Method: whole numbers small enough for exact scores, so that many are equal; a reference of
//         vectors, sorting and no blocks. Bytes are changed at random and cut short.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/graph/roar_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "index/format_test_util.h"
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

// RoarGraph, section 4, by the definitions.
class Reference {
 public:
  Reference(const Workload& work, const RoarOptions& options)
      : keys_(work.keys), n_(static_cast<uint32_t>(work.keys.num_rows())), options_(options) {
    for (uint32_t a = 0; a < n_; ++a) {
      for (uint32_t b = 0; b < n_; ++b) {
        scores_.push_back(test::Score(keys_.row(a), keys_.row(b)));
      }
    }
    Project(work.queries);
    Enhance();
  }

  uint32_t Medoid() const {
    std::vector<double> mean(kDim);
    for (uint32_t i = 0; i < n_; ++i) {
      for (size_t d = 0; d < kDim; ++d) mean[d] += double{keys_.row(i)[d]} / n_;
    }
    const auto distance = [&](uint32_t key) {
      double sum = 0;
      for (size_t d = 0; d < kDim; ++d) {
        sum += (keys_.row(key)[d] - mean[d]) * (keys_.row(key)[d] - mean[d]);
      }
      return sum;
    };
    uint32_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (uint32_t i = 0; i < n_; ++i) {
      if (projected_[i].empty() || distance(i) >= least) continue;
      best = i;
      least = distance(i);
    }
    return best;
  }

  // Both steps, without the keys that are linked at the end so that all can be reached.
  NeighbourLists Union() const {
    NeighbourLists all = projected_;
    for (uint32_t i = 0; i < n_; ++i) {
      for (const uint32_t key : enhanced_[i]) {
        if (!Has(all[i], key)) all[i].push_back(key);
      }
    }
    return all;
  }

 private:
  static bool Has(const std::vector<uint32_t>& list, uint32_t key) {
    return std::ranges::find(list, key) != list.end();
  }
  float Score(uint32_t a, uint32_t b) const { return scores_[size_t{a} * n_ + b]; }
  void Sort(const std::function<float(uint32_t)>& score, std::vector<uint32_t>* keys) const {
    std::ranges::sort(*keys, [&](uint32_t a, uint32_t b) {
      return score(a) != score(b) ? score(a) > score(b) : a < b;
    });
  }

  std::vector<uint32_t> Acquire(uint32_t key, std::vector<uint32_t> candidates, bool fills) const {
    Sort([&](uint32_t id) { return Score(key, id); }, &candidates);
    std::vector<uint32_t> kept;
    for (const uint32_t id : candidates) {
      if (kept.size() == options_.max_degree) break;
      const bool passed_over = std::ranges::any_of(
          kept, [&](uint32_t chosen) { return Score(id, chosen) > Score(id, key); });
      if (!passed_over) kept.push_back(id);
    }
    for (const uint32_t id : candidates) {
      if (fills && kept.size() < options_.max_degree && !Has(kept, id)) kept.push_back(id);
    }
    return kept;
  }

  NeighbourLists LinkBack(const NeighbourLists& lists, bool fills) const {
    NeighbourLists linked = lists;
    for (uint32_t from = 0; from < n_; ++from) {
      for (const uint32_t to : lists[from]) {
        if (!Has(linked[to], from)) linked[to].push_back(from);
      }
    }
    for (uint32_t key = 0; key < n_; ++key) {
      if (linked[key].size() > options_.max_degree) linked[key] = Acquire(key, linked[key], fills);
    }
    return linked;
  }

  void Project(const FloatRows& queries) {
    NeighbourLists lists(n_);
    for (size_t i = 0; i < queries.num_rows(); ++i) {
      std::vector<uint32_t> nearest;
      for (uint32_t key = 0; key < n_; ++key) nearest.push_back(key);
      std::vector<float> scores;
      for (uint32_t key = 0; key < n_; ++key) {
        scores.push_back(test::Score(queries.row(i), keys_.row(key)));
      }
      Sort([&](uint32_t key) { return scores[key]; }, &nearest);
      nearest.resize(std::min<size_t>(n_, options_.keys_per_query));
      const uint32_t pivot = nearest[0];
      nearest.erase(nearest.begin());
      lists[pivot] = Acquire(pivot, nearest, true);
    }
    projected_ = LinkBack(lists, true);
  }

  // The L best keys that a best-first search meets.
  std::vector<uint32_t> Search(uint32_t key) const {
    const auto score = [&](uint32_t id) { return Score(key, id); };
    std::vector<uint32_t> beam = {Medoid()};
    std::set<uint32_t> seen = {beam[0], key}, followed;
    for (;;) {
      const auto next =
          std::ranges::find_if(beam, [&](uint32_t id) { return !followed.contains(id); });
      if (next == beam.end()) break;
      const uint32_t from = *next;
      followed.insert(from);
      for (const uint32_t id : projected_[from]) {
        if (seen.insert(id).second) beam.push_back(id);
      }
      Sort(score, &beam);
      beam.resize(std::min(beam.size(), options_.search_window));
    }
    std::erase(beam, key);
    return beam;
  }

  void Enhance() {
    NeighbourLists lists(n_);
    for (uint32_t key = 0; key < n_; ++key) lists[key] = Acquire(key, Search(key), false);
    enhanced_ = LinkBack(lists, false);
  }

  const FloatRows& keys_;
  const uint32_t n_;
  const RoarOptions options_;
  std::vector<float> scores_;  // Scores of keys with each other: [key][key].
  NeighbourLists projected_, enhanced_;
};

void ExpectAsPublished(const Workload& work, const RoarOptions& options) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph,
                              GraphIndex::BuildRoar(work.source(), options));
  const Reference reference(work, options);
  EXPECT_EQ(graph.view().header.entry_point, reference.Medoid());
  const NeighbourLists expected = reference.Union();
  const NeighbourLists found = ListsOf(graph);
  std::set<uint32_t> reached = {reference.Medoid()};
  std::vector<uint32_t> open = {reference.Medoid()};
  size_t num_linked = 0;
  for (uint32_t key = 0; key < found.size(); ++key) {
    ASSERT_GE(found[key].size(), expected[key].size());
    EXPECT_TRUE(
        std::ranges::equal(expected[key], std::span(found[key]).first(expected[key].size())))
        << key;
    num_linked += found[key].size() - expected[key].size();
    EXPECT_LE(found[key].size(), 2 * options.max_degree);
  }
  while (!open.empty()) {
    const uint32_t key = open.back();
    open.pop_back();
    for (const uint32_t id : expected[key]) {
      if (reached.insert(id).second) open.push_back(id);
    }
  }
  // One link for a key that is not reached, and for what it leads to.
  EXPECT_LE(num_linked, found.size() - reached.size());
  EXPECT_EQ(num_linked > 0, reached.size() < found.size());
}

TEST(RoarBuilderTest, IsAsPublished) {
  Workload work(400, 150, attndb::test::SeedOr(111));
  Round(&work.keys);
  Round(&work.queries);
  ExpectAsPublished(work, {.keys_per_query = 20, .max_degree = 6, .search_window = 30});
  ExpectAsPublished(work, {.keys_per_query = 100, .max_degree = 35, .search_window = 500});
  ExpectAsPublished(work, {.keys_per_query = 5, .max_degree = 3, .search_window = 4});
}

TEST(RoarBuilderTest, FewKeysAreLinked) {
  for (const size_t n : {1u, 2u, 3u, 17u}) {
    Workload work(n, 30, attndb::test::SeedOr(112));
    Round(&work.keys);
    Round(&work.queries);
    ExpectAsPublished(work, {});
  }
}

// The published rules see equal keys as one key (distinct_keys.h). A short list leads to copies at
// distances 1, 2, 4 and so on.
TEST(RoarBuilderTest, EqualKeysAreLinkedToEachOther) {
  Workload work(200, 60, attndb::test::SeedOr(113));
  for (size_t i = 0; i < 200; ++i) std::copy_n(work.queries.row(0), kDim, work.keys.row(i));
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const GraphIndex graph,
      GraphIndex::BuildRoar(work.source(),
                            {.keys_per_query = 20, .max_degree = 5, .search_window = 30}));
  const NeighbourLists lists = ListsOf(graph);
  for (uint32_t key = 8; key + 8 < 200; ++key) {
    EXPECT_EQ(lists[key], (std::vector<uint32_t>{key + 1, key - 1, key + 2, key - 2, key + 4}));
  }
}

TEST(RoarBuilderTest, FindsTheBestKeysAndThreadsDoNotShow) {
  Workload work(5000, 2000, attndb::test::SeedOr(114));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex graph, GraphIndex::BuildRoar(work.source()));
  EXPECT_LE(graph.memory_bytes(), GraphIndex::BytesForRoar({5000, kDim, DType::kFloat32}, 35));
  EXPECT_GE(Recall(graph, work.keys, 5000, work.NewQueries(60), 20, 100), 0.95);
  size_t longest = 0;
  for (const auto& list : ListsOf(graph)) longest = std::max(longest, list.size());
  EXPECT_GT(longest, 35u);
  EXPECT_LE(longest, 70u);
  ThreadPool pool(3);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex again,
                              GraphIndex::BuildRoar(work.source(), {.pool = &pool}));
  EXPECT_TRUE(std::ranges::equal(graph.bytes(), again.bytes()));
}

TEST(RoarBuilderTest, PoorSourcesGiveWholeGraphs) {
  Workload work(700, 90, attndb::test::SeedOr(115));
  const RoarOptions options = {.keys_per_query = 30, .max_degree = 8, .search_window = 40};
  GraphSource source = work.source();
  source.queries = {};
  ATTNDB_EXPECT_OK(GraphIndex::BuildRoar(source, options).status());
  std::fill_n(work.queries.row(0), 90 * kDim, std::numeric_limits<float>::quiet_NaN());
  ATTNDB_EXPECT_OK(GraphIndex::BuildRoar(work.source(), options).status());
  for (size_t i = 0; i < 700; ++i) std::fill_n(work.keys.row(i), kDim, 0.0f);
  ATTNDB_EXPECT_OK(GraphIndex::BuildRoar(work.source(), options).status());
  ATTNDB_EXPECT_OK(GraphIndex::BuildRoar(work.source(),
                                         {.keys_per_query = 1, .max_degree = 1, .search_window = 1})
                       .status());
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(GraphIndex::BuildRoar(work.source(), {.cancel = &cancel}).status().code(),
            StatusCode::kCancelled);
}

class RoarFormatTest : public ::testing::Test {
 protected:
  static constexpr size_t kNumKeys = 600;

  RoarFormatTest() : graph_(*GraphIndex::BuildRoar(work_.source())) {
    bytes_ = *AlignedBuffer::Allocate(graph_.bytes().size());
    std::ranges::copy(graph_.bytes(), bytes_.data());
  }

  static Result<GraphIndex> Parse(std::span<const std::byte> bytes) {
    return GraphIndex::Parse(bytes, {kNumKeys, kDim, DType::kFloat32}, "graph 7");
  }
  template <typename T>
  void ExpectRefused(size_t offset, T value, const std::string& message,
                     StatusCode code = StatusCode::kCorruption) {
    attndb::test::ExpectFieldRefused(
        bytes_.data() + offset, value, [&] { return Parse(bytes_.span()).status(); }, code,
        "graph 7: " + message);
  }

  Workload work_{kNumKeys, 300, attndb::test::SeedOr(116)};
  GraphIndex graph_;
  AlignedBuffer bytes_;
};

TEST_F(RoarFormatTest, WhatIsReadBackIsTheSame) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const GraphIndex parsed, Parse(bytes_.span()));
  EXPECT_EQ(ListsOf(parsed), ListsOf(graph_));
  EXPECT_EQ(parsed.view().header.num_routers, 0u);
  EXPECT_EQ(parsed.view().header.slot_bytes, 96u);  // 8 + 70 * 10 bits.
}

TEST_F(RoarFormatTest, EveryFieldIsChecked) {
  ExpectRefused<uint32_t>(8, 3, "version: expected 1 or 2, found 3", StatusCode::kUnsupported);
  ExpectRefused<uint32_t>(8, 1, "slot_bytes: expected a multiple of 8 from 16 to 64, found 96");
  for (const uint32_t bad : {0u, 64u, 100u, 1032u, 0xfffffff8u}) {
    ExpectRefused<uint32_t>(28, bad, "slot_bytes: expected a multiple of 8 from 72 to 1024");
  }
  ExpectRefused<uint32_t>(28, 104, "bytes: expected");
  ExpectRefused<uint32_t>(32, 72, "router_slot_bytes: expected a multiple of 8 from 16 to 64");
  ExpectRefused<uint32_t>(36, 1, "bytes: expected");
  ExpectRefused<uint32_t>(40, kNumKeys, "entry_point: expected at most 599, found 600");
  const size_t slot = GraphLayout(graph_.view().header).slots + 5 * size_t{96};
  for (const uint8_t count : {uint8_t{0}, uint8_t{77}, uint8_t{255}}) {
    ExpectRefused(slot, count, "neighbours[5]: expected at most 76");
  }
}

TEST_F(RoarFormatTest, NoBytesCrashAReader) {
  for (size_t size = 0; size < bytes_.size(); size += size < 200 ? 1 : 997) {
    EXPECT_EQ(Parse(bytes_.span().first(size)).status().code(), StatusCode::kCorruption) << size;
  }
  Random random(attndb::test::SeedOr(117));
  size_t num_read = 0;
  for (int round = 0; round < 2000; ++round) {
    const size_t at = random.Uniform(random.OneIn(4) ? bytes_.size() : kGraphHeaderBytes + 2000);
    const std::byte before = bytes_.data()[at];
    bytes_.data()[at] = random.OneIn(2) ? static_cast<std::byte>(random.Next())
                                        : before ^ static_cast<std::byte>(1u << random.Uniform(8));
    const Result<GraphIndex> parsed = Parse(bytes_.span());
    if (parsed.ok()) {
      ++num_read;
      for (const RangeWalk walk : {RangeWalk::kBestFirst, RangeWalk::kListOrder}) {
        const SearchSpec spec = {.kind = SearchKind::kRange, .beta = 3, .range_walk = walk};
        EXPECT_EQ(
            test::SearchRows(*parsed, spec, work_.keys, kNumKeys, work_.queries.row(0), 3).size(),
            3u);
      }
    }
    bytes_.data()[at] = before;
  }
  EXPECT_GT(num_read, 20u);
}

}  // namespace
}  // namespace attndb::index
