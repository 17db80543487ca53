// Goal:   a search of clusters finds nearly all keys that a search of all keys finds, with exact
//         scores. It scores few keys and obeys its filters, for any keys and queries.
// Method: heads of topics with queries from elsewhere, brute force as the oracle, fixed seeds and
//         recorded thresholds of recall.
// Replay: seeds are constants.
#include "index/clustered/clustered_keys.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <vector>

#include "common/lane_sum.h"
#include "common/random.h"
#include "index/clustered/clusters_test_util.h"
#include "index/clustered/key_order.h"

namespace attndb::index {
namespace {

using test::Found;
using test::Recall;
using test::Search;
using test::SearchAll;
using test::TopicHead;

constexpr size_t kSteps = 16;

SearchSpec TopK(uint32_t k, float effort = 0) { return {SearchKind::kTopK, k, 0, effort}; }
SearchSpec Range(float beta, float effort = 0) { return {SearchKind::kRange, 0, beta, effort}; }

// Mean recall over the steps, and the share of keys that were looked at.
struct Outcome {
  double recall = 0;
  double visited = 0;
};

Outcome Measure(const TopicHead& head, IndexCall call) {
  Outcome outcome;
  double num_visible = 0;
  for (const IndexRun& run : call.runs) num_visible += static_cast<double>(run.num_visible);
  for (size_t step = 0; step < kSteps; ++step) {
    call.q = head.queries(step);
    const Found found = Search(call);
    outcome.recall += Recall(found, SearchAll(call)) / kSteps;
    outcome.visited += static_cast<double>(found.cost.keys_scored) /
                       (static_cast<double>(call.num_q_rows) * num_visible) / kSteps;
  }
  return outcome;
}

TEST(ClusteredKeysTest, FindsNearlyAllOfTheBestAndLooksAtFew) {
  const TopicHead head(20000, 2000, kSteps, 1);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  ASSERT_EQ(index.num_keys(), 20000u);
  const Outcome usual = Measure(head, head.Call({&run, 1}, 0, TopK(100)));
  EXPECT_GT(usual.recall, 0.97);
  EXPECT_LT(usual.visited, 0.25);
  const Outcome hasty = Measure(head, head.Call({&run, 1}, 0, TopK(100, 0.6f)));
  EXPECT_LT(hasty.visited, usual.visited);
  EXPECT_LT(hasty.recall, usual.recall);
  const Outcome thorough = Measure(head, head.Call({&run, 1}, 0, TopK(100, 1e6f)));
  EXPECT_GT(thorough.recall, 0.99);
  EXPECT_NEAR(thorough.visited, 1.0, 0.01);
}

TEST(ClusteredKeysTest, FindsARangeBelowTheBest) {
  const TopicHead head(20000, 2000, kSteps, 2);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  for (const float beta : {0.0f, 10.0f, 40.0f}) {
    const Outcome outcome = Measure(head, head.Call({&run, 1}, 0, Range(beta, 1.5f)));
    EXPECT_GT(outcome.recall, 0.95) << beta;
    EXPECT_LT(outcome.visited, 0.6) << beta;
  }
}

// A best score from elsewhere that nothing comes near leaves nothing, and costs little.
TEST(ClusteredKeysTest, ARangeCountsFromTheBestThatIsKnown) {
  const TopicHead head(20000, 500, kSteps, 3);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  IndexCall call = head.Call({&run, 1}, 0, Range(1.0f));
  const std::vector<float> best(TopicHead::kGroup, 1e6f);
  call.best = best.data();
  const Found found = Search(call);
  for (const auto& tokens : found.tokens) EXPECT_TRUE(tokens.empty());
  EXPECT_LE(found.cost.clusters, 4 * TopicHead::kGroup);
}

TEST(ClusteredKeysTest, ScoresAreExact) {
  const TopicHead head(9000, 500, 1, 4);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  const IndexCall call = head.Call({&run, 1}, 0, TopK(50));
  const Found found = Search(call);
  const Found all = SearchAll(head.Call({&run, 1}, 0, TopK(9000)));
  for (size_t r = 0; r < TopicHead::kGroup; ++r) {
    ASSERT_EQ(found.tokens[r].size(), 50u);
    for (size_t i = 0; i < 50; ++i) {
      const float exact = all.scores[r][found.tokens[r][i]];
      EXPECT_NEAR(found.scores[r][i], exact, 1e-4 * std::abs(exact));
    }
  }
}

// Prefixes in the middle of a piece, at its end, of a few keys; and keys that are left out in
// front.
TEST(ClusteredKeysTest, FindsOnlyWhatIsVisible) {
  const TopicHead head(20000, 2000, kSteps, 5);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  for (const size_t num_visible : {1u, 3u, 1000u, 8192u, 8200u, 16000u, 20000u}) {
    for (const size_t first_visible : {0u, 16u, 9000u}) {
      if (first_visible >= num_visible) continue;
      IndexRun run = head.Run(index);
      run.first_visible = first_visible;
      run.num_visible = num_visible;
      const IndexCall call = head.Call({&run, 1}, 0, TopK(100));
      for (const auto& tokens : Search(call).tokens) {
        EXPECT_EQ(tokens.size(), std::min<size_t>(100, num_visible - first_visible));
        for (const uint32_t token : tokens) {
          EXPECT_GE(token, first_visible);
          EXPECT_LT(token, num_visible);
        }
      }
      EXPECT_GT(Measure(head, call).recall, 0.96) << first_visible << " " << num_visible;
    }
  }
}

// A prefix costs no more than an index of its own, except for the piece in which it ends.
TEST(ClusteredKeysTest, APrefixVisitsNoMoreThanItsOwnIndexWould) {
  const TopicHead head(40000, 2000, kSteps, 6);
  const ClusteredKeys whole = *ClusteredKeys::Build(head.source());
  PlaneSource prefix = head.source();
  prefix.num_keys = 2 * kPieceKeys;
  const ClusteredKeys own = *ClusteredKeys::Build(prefix);
  IndexRun of_whole = head.Run(whole);
  IndexRun of_own = head.Run(own);
  of_whole.num_visible = of_own.num_visible = prefix.num_keys;
  const Outcome as_prefix = Measure(head, head.Call({&of_whole, 1}, 0, TopK(100)));
  const Outcome alone = Measure(head, head.Call({&of_own, 1}, 0, TopK(100)));
  EXPECT_NEAR(as_prefix.visited, alone.visited, 0.05 * alone.visited);
  EXPECT_NEAR(as_prefix.recall, alone.recall, 0.01);
}

// A chain of segments is searched as one: it finds as much and looks at as few keys as one index.
TEST(ClusteredKeysTest, AChainIsSearchedAsOneIndex) {
  const TopicHead head(24000, 2000, kSteps, 13);
  const ClusteredKeys one = *ClusteredKeys::Build(head.source());
  std::vector<ClusteredKeys> parts;
  std::vector<IndexRun> runs;
  const size_t sizes[] = {8192, 8192, 4000, 3000, 616};
  size_t first = 0;
  parts.reserve(std::size(sizes));
  for (const size_t size : sizes) {
    PlaneSource source = head.source();
    source.keys = kernels::RowsFrom(head.keys(), first);
    source.num_keys = size;
    parts.push_back(*ClusteredKeys::Build(source));
    runs.push_back({.index = &parts.back(),
                    .keys = source.keys,
                    .num_visible = size,
                    .first_token = static_cast<uint32_t>(first)});
    first += size;
  }
  runs[2].num_visible = 3500;
  runs[0].first_visible = 16;
  const IndexRun run = head.Run(one);
  const Outcome of_one = Measure(head, head.Call({&run, 1}, 0, TopK(100)));
  const Outcome of_chain = Measure(head, head.Call(runs, 0, TopK(100)));
  EXPECT_NEAR(of_chain.recall, of_one.recall, 0.02);
  EXPECT_LT(of_chain.visited, 1.25 * of_one.visited);
  EXPECT_GT(Measure(head, head.Call(runs, 0, Range(10.0f, 1.5f))).recall, 0.95);
}

TEST(ClusteredKeysTest, TheOrderNamesEachKeyOnce) {
  for (const size_t num_keys : {1u, 2u, 63u, 64u, 65u, 130u, 8192u, 8193u, 9000u}) {
    const TopicHead head(num_keys, 50, 1, num_keys);
    const ClusteredKeys index = *ClusteredKeys::Build(head.source());
    std::vector<uint32_t> keys;
    for (size_t place = 0; place < num_keys; ++place) keys.push_back(index.KeyAt(place));
    std::ranges::sort(keys);
    std::vector<uint32_t> expected(num_keys);
    std::iota(expected.begin(), expected.end(), 0u);
    EXPECT_EQ(keys, expected);
  }
}

TEST(ClusteredKeysTest, BuildsTheSameBytesAgain) {
  const TopicHead head(10000, 700, 1, 7);
  const ClusteredKeys a = *ClusteredKeys::Build(head.source());
  const ClusteredKeys b = *ClusteredKeys::Build(head.source());
  EXPECT_TRUE(std::ranges::equal(a.parts().planes, b.parts().planes));
  EXPECT_TRUE(std::ranges::equal(a.parts().order, b.parts().order));
}

// The draw from all keys: scores by key.
class Draws {
 public:
  Draws(const TopicHead& head, const ClusteredKeys& index, float num_wanted)
      : index_(index), num_places_(index.num_keys()) {
    AlignedBuffer codes = *AlignedBuffer::Allocate(kGroup * QueryCodeBytes(kDim));
    AlignedBuffer spare = *AlignedBuffer::Allocate(kGroup * kDim * sizeof(float));
    for (size_t r = 0; r < kGroup; ++r) {
      const float* const q = head.queries(0) + r * kDim;
      queries_.push_back(
          index.estimates().Prepare(q, reinterpret_cast<float*>(spare.data()) + r * kDim,
                                    codes.data() + r * QueryCodeBytes(kDim)));
      norms_.push_back(static_cast<float>(Norm({q, kDim})));
    }
    codes_buffer_ = std::move(codes);
    scores_.resize(kGroup * num_places_);
    index.estimates().Scan(4, 0, num_places_, queries_.data(), kGroup, scores_.data(), num_places_);
    Random random(3);
    for (size_t i = 0; i < num_places_; ++i) {
      noise_.push_back(static_cast<float>(
          -std::log((static_cast<double>(random.Uniform(1 << 20)) + 0.5) * 0x1p-20)));
    }
    for (size_t r = 0; r < kGroup; ++r) {  // exp(score - threshold) sums to what is wanted.
      const std::span<const float> of_row(&scores_[r * num_places_], num_places_);
      const float max = *std::ranges::max_element(of_row);
      double sum = 0;
      for (const float score : of_row) sum += std::exp(double{kScale} * (score - max));
      thresholds_.push_back(kScale * max + std::log(static_cast<float>(sum) / num_wanted));
    }
  }

  // The rule's draw from keys [first, end).
  std::map<uint32_t, float> Expected(size_t first, size_t end) const {
    std::map<uint32_t, float> drawn;
    for (size_t i = 0; i < num_places_; ++i) {
      const uint32_t key = index_.KeyAt(i);
      bool is_drawn = false;
      for (size_t r = 0; r < kGroup; ++r) {
        is_drawn |= kScale * scores_[r * num_places_ + i] + noise_[i] >= thresholds_[r];
      }
      if (is_drawn && key >= first && key < end) drawn[1000 + key] = scores_[i];
    }
    return drawn;
  }

  std::map<uint32_t, float> Find(size_t first, size_t end, float effort, KeepCost* cost,
                                 uint32_t audit_phase = 0) {
    Room found(num_places_);
    Room work(4096);
    std::vector<float> tile(kGroup * KeepCall::kWork);
    std::vector<float> row_reaches(kGroup);
    const PlaceRange places = index_.PlacesOf(first, end);
    *cost = {};
    for (size_t begin = places.begin; begin < places.end; begin += 4096) {
      DrawCall call = {.scan = {.first_key = begin,
                                .num_keys = std::min<size_t>(4096, places.end - begin),
                                .queries = queries_,
                                .rule = {{.scale = kScale}, thresholds_.data()},
                                .noise = noise_.data() + begin,
                                .first_token = 1000,
                                .work = tile.data(),
                                .audit_phase = audit_phase},
                       .first_visible = first,
                       .num_visible = end,
                       .effort = effort,
                       .q_norms = norms_.data(),
                       .row_reaches = row_reaches.data(),
                       .work = &work.kept};
      const KeepCost of_call = index_.Draw(call, &found.kept);
      cost->num_scored += of_call.num_scored;
      cost->num_missed += of_call.num_missed;
    }
    std::map<uint32_t, float> drawn;
    for (size_t i = 0; i < found.kept.count; ++i) drawn[found.tokens[i]] = found.scores[i];
    EXPECT_EQ(drawn.size(), found.kept.count);  // None twice.
    return drawn;
  }

 private:
  static constexpr size_t kGroup = TopicHead::kGroup;
  static constexpr size_t kDim = TopicHead::kDim;
  static constexpr float kScale = 0.125f;

  struct Room {
    explicit Room(size_t size) : tokens(size), noise(size), scores(kGroup * size) {
      kept = {tokens.data(), noise.data(), scores.data(), size, 0};
    }
    std::vector<uint32_t> tokens;
    std::vector<float> noise;
    std::vector<float> scores;
    kernels::KeptTokens kept;
  };

  const ClusteredKeys& index_;
  const size_t num_places_;
  AlignedBuffer codes_buffer_;
  std::vector<EstimateQuery> queries_;
  std::vector<float> norms_;
  std::vector<float> scores_;
  std::vector<float> noise_;
  std::vector<float> thresholds_;
};

TEST(ClusteredKeysTest, DrawsWhatARuleDrawsOfAllKeys) {
  const TopicHead head(20000, 2000, 1, 13);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  Draws draws(head, index, 100.0f);
  KeepCost cost;
  for (const auto& [first, end] : std::vector<std::pair<size_t, size_t>>{
           {0, 20000}, {16, 19000}, {0, 5000}, {8192, 8200}, {12000, 12000}}) {
    const auto expected = draws.Expected(first, end);
    EXPECT_EQ(draws.Find(first, end, 1e6f, &cost), expected) << first << " to " << end;
    EXPECT_EQ(cost.num_missed, 0u);
    EXPECT_EQ(cost.num_scored, index.PlacesOf(first, end).end - index.PlacesOf(first, end).begin);
    // At the usual effort, few are missed, and none is another.
    const auto found = draws.Find(first, end, 0, &cost);
    for (const auto& [token, score] : found) EXPECT_EQ(expected.at(token), score);
    EXPECT_GE(static_cast<double>(found.size()), 0.98 * static_cast<double>(expected.size()));
  }
  (void)draws.Find(0, 20000, 0, &cost);
  EXPECT_LT(cost.num_scored, 12000u);
}

// Each block is audited once, so all audits together find every key missed without them.
TEST(ClusteredKeysTest, AuditsTellWhatDrawsMiss) {
  constexpr size_t kNumKeys = 20032;  // Whole blocks.
  const TopicHead head(kNumKeys, 2000, 1, 13);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  Draws draws(head, index, 100.0f);
  for (const float effort : {1.5f, 0.8f, 0.3f}) {
    KeepCost cost;
    std::map<uint32_t, float> always = draws.Find(0, kNumKeys, effort, &cost, 0);
    std::erase_if(always, [other = draws.Find(0, kNumKeys, effort, &cost, 1)](const auto& item) {
      return !other.contains(item.first);
    });
    uint64_t num_missed = 0;
    for (uint32_t phase = 0; phase < KeepCall::kAuditEvery; ++phase) {
      (void)draws.Find(0, kNumKeys, effort, &cost, phase);
      num_missed += cost.num_missed;
    }
    EXPECT_EQ(num_missed, draws.Expected(0, kNumKeys).size() - always.size()) << effort;
    if (effort < 0.5f) {
      EXPECT_GT(num_missed, 10u);
    }
  }
}

TEST(ClusteredKeysTest, ABuildIsTheSameTwice) {
  for (const size_t num_train : {0u, 300u}) {
    const TopicHead head(9000, num_train, 1, 13);
    const ClusteredKeys one = *ClusteredKeys::Build(head.source());
    const ClusteredKeys other = *ClusteredKeys::Build(head.source());
    EXPECT_TRUE(std::ranges::equal(one.parts().planes, other.parts().planes));
    EXPECT_TRUE(std::ranges::equal(one.parts().order, other.parts().order));
  }
}

TEST(ClusteredKeysTest, FewKeysAreAllFound) {
  for (const size_t num_keys : {1u, 2u, 63u, 64u, 65u}) {
    const TopicHead head(num_keys, 3, 1, 8);
    const ClusteredKeys index = *ClusteredKeys::Build(head.source());
    const IndexRun run = head.Run(index);
    for (const auto& tokens : Search(head.Call({&run, 1}, 0, TopK(100))).tokens) {
      EXPECT_EQ(tokens.size(), num_keys);
    }
    for (const auto& tokens : Search(head.Call({&run, 1}, 0, Range(1e9f))).tokens) {
      EXPECT_EQ(tokens.size(), num_keys);
    }
  }
}

TEST(ClusteredKeysTest, OfNoKeysThereIsNothing) {
  const TopicHead head(64, 3, 1, 9);
  PlaneSource source = head.source();
  source.num_keys = 0;
  EXPECT_EQ(ClusteredKeys::Build(source)->num_keys(), 0u);
}

TEST(ClusteredKeysTest, EqualKeysZeroKeysAndEqualQueriesDoNoHarm) {
  TopicHead head(9000, 100, 2, 10);
  for (size_t i = 1; i < 9000; ++i) {
    if (i % 3 == 0) {
      std::memset(head.key_bits(i), 0, TopicHead::kDim * 2);
    } else {
      std::memcpy(head.key_bits(i), head.key_bits(0), TopicHead::kDim * 2);
    }
  }
  auto* const queries = const_cast<std::byte*>(head.source().queries.q);
  for (size_t i = 1; i < 100; ++i) {
    std::memcpy(queries + i * TopicHead::kDim * 2, queries, TopicHead::kDim * 2);
  }
  for (const bool with_queries : {true, false}) {
    PlaneSource source = head.source();
    if (!with_queries) source.queries = {};
    const ClusteredKeys index = *ClusteredKeys::Build(source);
    const IndexRun run = head.Run(index);
    for (const auto& tokens : Search(head.Call({&run, 1}, 0, TopK(20))).tokens) {
      EXPECT_EQ(tokens.size(), 20u);
    }
  }
}

TEST(ClusteredKeysTest, WorksWithoutSampledQueries) {
  const TopicHead head(20000, 0, kSteps, 11);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  EXPECT_GT(Measure(head, head.Call({&run, 1}, 0, TopK(100))).recall, 0.9);
}

TEST(ClusteredKeysTest, QueriesThatAreNotFiniteAreLeftOut) {
  const TopicHead head(9000, 200, 1, 12);
  const PlaneSource source = head.source();
  auto* const bits = reinterpret_cast<uint16_t*>(const_cast<std::byte*>(source.queries.q));
  for (size_t d = 0; d < 10 * TopicHead::kDim; ++d) bits[d] = 0x7e00;  // NaN.
  const ClusteredKeys index = *ClusteredKeys::Build(source);
  const IndexRun run = head.Run(index);
  EXPECT_EQ(Search(head.Call({&run, 1}, 0, TopK(20))).tokens[0].size(), 20u);
}

// One of a group's q rows is not finite: the others find nearly all that they find without it.
TEST(ClusteredKeysTest, RowsThatAreNotFiniteHarmNoOthers) {
  const TopicHead head(20000, 500, 1, 14);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  const size_t count = TopicHead::kGroup * TopicHead::kDim;
  for (const SearchSpec& spec : {TopK(50), Range(10.0f)}) {
    IndexCall call = head.Call({&run, 1}, 0, spec);
    const Found expected = SearchAll(call);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> q(call.q, call.q + count);
      for (size_t d = 0; d < TopicHead::kDim; d += 2) q[TopicHead::kDim + d] = bad;
      call.q = q.data();
      const Found found = Search(call);
      call.q = head.queries(0);
      for (const size_t row : {0u, 2u}) {
        std::vector<uint32_t> both;
        std::ranges::set_intersection(found.tokens[row], expected.tokens[row],
                                      std::back_inserter(both));
        EXPECT_GE(10 * both.size(), 9 * expected.tokens[row].size()) << row << ' ' << bad;
      }
    }
  }
}

TEST(ClusteredKeysTest, ABetaOfNothingFindsTheBest) {
  const TopicHead head(9000, 500, 1, 15);
  const ClusteredKeys index = *ClusteredKeys::Build(head.source());
  const IndexRun run = head.Run(index);
  const IndexCall call = head.Call({&run, 1}, 0, Range(0.0f, 1e6f));
  EXPECT_EQ(Search(call).tokens, SearchAll(call).tokens);
}

}  // namespace
}  // namespace attndb::index
