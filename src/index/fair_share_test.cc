// Goal:   no q head of a group starves in a search that the group shares. The keys found for a head
//         hold nearly the mass of the head's own best k / group keys, or of the keys that the index
//         finds for the head alone. This holds for any keys, ties and lengths of the other heads.
//         Graphs with one q head each are not shared, and lose no head either.
// Method: heads with queries of their own. The first has 300 equal or nearly equal best keys, which
//         alone would fill a selection; each of the others has few keys, which hold its mass.
//         Against float64, by each index and form of codes, for groups of 2 to 8; with heads of
//         unequal length, and with a key 3,000 times as long as others.
// Replay: ATTNDB_SEED=17 ctest -R index_test
#include "index/fair_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/aligned_buffer.h"
#include "common/random.h"
#include "index/clustered/clustered_keys.h"
#include "index/coarse/block_keys.h"
#include "index/coarse/wave_keys.h"
#include "index/graph/graph_index.h"
#include "index/graph/head_graphs.h"
#include "index/key_search_test_util.h"
#include "index/pq/pq_index.h"
#include "kernels/select.h"
#include "testing/seed.h"

namespace attndb::index {
namespace {

constexpr size_t kDim = 64;
constexpr size_t kKeys = 4096;
constexpr float kBestLogit = 12;
constexpr size_t kTies = 300;

struct Trouble {
  const char* name;
  float tie_noise = 0;       // Deviation of the tied keys' channels.
  bool is_skewed = false;    // Some q are so short that all keys are nearly tied, others so long
                             // that their noise exceeds what a short one looks for.
  bool has_outlier = false;  // One key is 3,000 times as long as others.
  std::array<size_t, 4> groups = {};
};

// Their groups are of 2 to 8 heads.
constexpr Trouble kTroubles[] = {
    {.name = "ties", .groups = {4, 8, 2, 3}},
    {.name = "near ties", .tie_noise = 0.02f, .groups = {7, 3, 2, 5}},
    {.name = "skewed norms", .tie_noise = 0.02f, .is_skewed = true, .groups = {6, 2, 3, 8}},
    {.name = "an outlier", .tie_noise = 0.02f, .has_outlier = true, .groups = {5, 2, 4, 7}}};

// float32 keys and the q rows of a group. Head 0 has kTies best keys, each other head a stretch of
// `num_single` keys.
class TiedHeads {
 public:
  TiedHeads(size_t group, size_t num_single, const Trouble& trouble, uint64_t seed)
      : group_(group),
        random_(seed),
        keys_(*AlignedBuffer::Allocate(kKeys * kDim * sizeof(float))),
        q_(group * kDim) {
    for (size_t i = 0; i < kKeys * kDim; ++i) key(0)[i] = 0.1f * Gaussian();
    for (size_t head = 0; head < group; ++head) {
      const float length = !trouble.is_skewed ? 1.0f
                           : head == 0        ? 0.01f
                           : head % 2 == 0    ? 1000.0f
                                              : 1.0f;
      q_[head * kDim + ChannelOf(head)] = 8 * kBestLogit * length;
    }
    for (size_t i = 0; i < kTies; ++i) SetBest(0, 5 + i * 7 % 2048, trouble.tie_noise);
    for (size_t head = 1; head < group; ++head) {
      for (size_t i = 0; i < num_single; ++i) SetBest(head, 2048 + 128 * head + i, 0);
    }
    if (trouble.has_outlier) AddOutlier();
  }

  size_t group() const { return group_; }
  kernels::RowsView view() const { return {keys_.data(), kDim, kDim, DType::kFloat32}; }
  static kernels::LogitSpec logit() { return {1 / std::sqrt(static_cast<float>(kDim))}; }

  IndexCall Call(std::span<const IndexRun> runs, uint32_t k) const {
    static const std::vector<float> kNone(8, -std::numeric_limits<float>::infinity());
    return {.spec = {.kind = SearchKind::kTopK, .k = k, .logit = logit()},
            .runs = runs,
            .q = q_.data(),
            .q_stride = kDim,
            .num_q_rows = group_,
            .best = kNone.data()};
  }

  // The share of a head's mass that these keys hold.
  double Held(size_t head, std::span<const uint32_t> tokens) const {
    const std::vector<double> weights = Weights(head);
    double held = 0;
    for (const uint32_t token : tokens) held += weights[token];
    return held;
  }
  // The weight of its own best `count` keys.
  double BestShare(size_t head, size_t count) const {
    std::vector<double> weights = Weights(head);
    std::ranges::sort(weights, std::greater());
    double held = 0;
    for (size_t i = 0; i < count; ++i) held += weights[i];
    return held;
  }

 private:
  float Gaussian() { return static_cast<float>(random_.NextGaussian()); }
  float* key(size_t i) { return reinterpret_cast<float*>(keys_.data()) + i * kDim; }
  const float* key(size_t i) const {
    return reinterpret_cast<const float*>(keys_.data()) + i * kDim;
  }
  static size_t ChannelOf(size_t head) { return 7 * head + 3; }

  void SetBest(size_t head, size_t i, float noise) {
    for (size_t d = 0; d < kDim; ++d) key(i)[d] = noise * Gaussian();
    key(i)[ChannelOf(head)] = 1 + noise * Gaussian();
  }

  // Far from what any head looks for, so that it holds none of their mass.
  void AddOutlier() {
    for (size_t d = 0; d < kDim; ++d) key(4000)[d] = 300 * Gaussian();
    for (size_t head = 0; head < group_; ++head) key(4000)[ChannelOf(head)] = -1000;
  }

  std::vector<double> Weights(size_t head) const {
    std::vector<double> weights(kKeys);
    for (size_t i = 0; i < kKeys; ++i) {
      for (size_t d = 0; d < kDim; ++d) {
        weights[i] += double{logit().scale} * double{q_[head * kDim + d]} * double{key(i)[d]};
      }
    }
    const double best = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) {
      weight = std::exp(weight - best);
      sum += weight;
    }
    for (double& weight : weights) weight /= sum;
    return weights;
  }

  const size_t group_;
  Random random_;
  AlignedBuffer keys_;
  std::vector<float> q_;
};

struct IndexCase {
  std::string name;
  std::function<std::unique_ptr<KeyIndex>(const kernels::RowsView&, size_t group)> build;
  uint32_t k = 100;
  size_t num_single = 1;  // A single key is nothing to the mean of a block, or to few bits.
  // A search for head 0 alone may miss its best keys, too: near ties have codes that are alike, and
  // blocks hold few of the ties.
  bool is_coarse = false;
  bool is_vague = false;  // A search for any head alone may do so.
  // Builds that take long meet fewer cases.
  size_t num_troubles = std::size(kTroubles);
  size_t num_groups = 4;  // The first groups of a trouble.
};

template <typename Index>
std::unique_ptr<KeyIndex> Own(Result<Index> index) {
  return std::make_unique<Index>(*std::move(index));
}

IndexCase PqCase(size_t num_subspaces, size_t bits) {
  const bool has_few_bits = num_subspaces * bits < 64;
  return {"pq " + std::to_string(num_subspaces) + " x " + std::to_string(bits),
          [=](const kernels::RowsView& keys, size_t) -> std::unique_ptr<KeyIndex> {
            PqSource source;
            source.keys = keys;
            source.num_keys = kKeys;
            return std::make_unique<PqIndex>(
                *PqKeys::Build(source, {.num_subspaces = num_subspaces, .bits = bits}));
          },
          100,
          has_few_bits ? 8u : 1u,
          true,
          has_few_bits || bits == 4};
}

IndexCase BlockCase(const std::string& name, const BlockForm& form) {
  const bool is_bounds = form.summary == BlockSummary::kBounds;
  return {name,
          [=](const kernels::RowsView& keys, size_t) {
            return Own(BlockKeys::Build({.keys = keys, .num_keys = kKeys}, form));
          },
          8 * form.block_keys, is_bounds ? 1 : form.block_keys, true};
}

void AddGraphs(std::vector<IndexCase>* cases) {
  const auto source_of = [](const kernels::RowsView& keys) {
    return GraphSource{.keys = keys, .num_keys = kKeys};
  };
  IndexCase graph = {"graph", [=](const kernels::RowsView& keys, size_t) {
                       return Own(GraphIndex::Build(source_of(keys)));
                     }};
  graph.num_groups = 2;
  cases->push_back(graph);
  IndexCase roar = {
      "roargraph", [=](const kernels::RowsView& keys, size_t) {
        return Own(GraphIndex::BuildRoar(
            source_of(keys), {.keys_per_query = 40, .max_degree = 12, .search_window = 60}));
      }};
  roar.num_groups = 1;
  cases->push_back(roar);
  IndexCase heads = {"graph of each q head", [=](const kernels::RowsView& keys, size_t group) {
                       return Own(HeadGraphs::Build(
                           source_of(keys), static_cast<uint32_t>(group),
                           [](const GraphSource& of_head) { return GraphIndex::Build(of_head); }));
                     }};
  heads.num_troubles = 1;
  heads.num_groups = 1;
  cases->push_back(heads);
}

std::vector<IndexCase> Cases() {
  std::vector<IndexCase> cases = {PqCase(8, 8), PqCase(4, 8), PqCase(16, 4), PqCase(2, 6),
                                  PqCase(32, 6)};
  for (const uint32_t page : {8u, 16u, 64u}) {
    cases.push_back(BlockCase("quest " + std::to_string(page),
                              {.summary = BlockSummary::kBounds, .block_keys = page}));
  }
  cases.push_back(BlockCase(
      "infllm",
      {.summary = BlockSummary::kRepresentatives, .block_keys = 32, .num_representatives = 4}));
  cases.push_back({"wave",
                   [](const kernels::RowsView& keys, size_t) {
                     return Own(WaveKeys::Build({.keys = keys, .values = keys, .num_keys = kKeys},
                                                {.num_rounds = 4}));
                   },
                   256, 16, true});
  cases.push_back({"clustered", [](const kernels::RowsView& keys, size_t) {
                     return Own(ClusteredKeys::Build(PlaneSource{.keys = keys, .num_keys = kKeys}));
                   }});
  AddGraphs(&cases);
  return cases;
}

std::vector<std::vector<uint32_t>> Search(const IndexCall& call) {
  std::vector<std::vector<uint32_t>> tokens(call.num_q_rows, std::vector<uint32_t>(kKeys + 64));
  std::vector<std::vector<float>> scores(call.num_q_rows, std::vector<float>(kKeys + 64));
  std::vector<FoundKeys> found(call.num_q_rows);
  for (size_t r = 0; r < found.size(); ++r) found[r] = {tokens[r].data(), scores[r].data(), 0};
  AlignedBuffer scratch = *AlignedBuffer::Allocate(call.runs[0].index->ScratchBytes(call) + 64);
  SearchCost cost;
  EXPECT_TRUE(test::SearchInMemory(call, scratch.data(), found.data(), &cost).ok());
  for (size_t r = 0; r < found.size(); ++r) tokens[r].resize(found[r].count);
  return tokens;
}

class FairShareTest : public ::testing::TestWithParam<size_t> {};

TEST_P(FairShareTest, NoHeadOfAGroupStarves) {
  const IndexCase of = Cases()[GetParam()];
  for (const Trouble& trouble : std::span(kTroubles).first(of.num_troubles)) {
    for (const size_t group : std::span(trouble.groups).first(of.num_groups)) {
      SCOPED_TRACE(of.name + ", " + trouble.name + ", group of " + std::to_string(group));
      const TiedHeads heads(group, of.num_single, trouble, attndb::test::SeedOr(57));
      const std::unique_ptr<KeyIndex> index = of.build(heads.view(), group);
      const IndexRun run = {.index = index.get(), .keys = heads.view(), .num_visible = kKeys};
      const auto found = Search(heads.Call({&run, 1}, of.k));
      for (size_t head = 0; head < group; ++head) {
        const auto share = static_cast<uint32_t>(of.k / group);
        IndexCall alone = heads.Call({&run, 1}, share);
        alone.q += head * kDim;
        alone.num_q_rows = 1;
        double best = heads.BestShare(head, share);
        if (of.is_vague || (of.is_coarse && head == 0)) {
          best = std::min(best, heads.Held(head, Search(alone)[0]));
        }
        EXPECT_GE(heads.Held(head, found[head]), 0.85 * best) << "head " << head;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Indexes, FairShareTest, ::testing::Range<size_t>(0, Cases().size()));

// Scratch for shares.
class Shares {
 public:
  Shares(const IndexCall& call, size_t num_items)
      : memory_(*AlignedBuffer::Allocate(1 << 16)),
        scratch_(memory_.data()),
        shares(call, num_items, &scratch_) {}

 private:
  AlignedBuffer memory_;
  SearchScratch scratch_;

 public:
  FairShare shares;
};

// By hand: 8 items, 2 rows, 4 selected. Row 1 has two items that weigh alike; of these, one is
// selected, which is less than nine tenths of both.
TEST(FairShareRuleTest, AStarvedRowGetsItsBestItemsAndOthersKeepTheRest) {
  const float kNone = -std::numeric_limits<float>::infinity();
  const std::vector<float> best_known(2, kNone);
  IndexCall call;
  call.num_q_rows = 2;
  call.best = best_known.data();
  const std::vector<float> scores = {5, 5, 5, 5, 5, 0, 0, 0,  //
                                     0, 0, 0, 9, 0, 0, 0, 9};
  std::vector<float> worth = {0, 0, 0, 0, 0, -9, -9, 0};
  AlignedBuffer select = *AlignedBuffer::Allocate(kernels::SelectTopKScratchBytes(8) + 64);
  Shares of(call, 8);
  of.shares.SetBest(0, 5);
  of.shares.SetBest(1, 9);
  const RatedItems items = {scores.data(), 8, worth.data(), true};
  const std::vector<uint32_t> first = {0, 1, 2, 3};
  EXPECT_TRUE(of.shares.Feed(items, first, select.data()));
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(std::isinf(worth[i]), i == 3 || i == 7) << i;
  }
  const std::vector<uint32_t> second = {0, 1, 3, 7};
  EXPECT_FALSE(of.shares.Feed(items, second, select.data()));
}

// Tokens that are attended to in any case may outweigh all items.
TEST(FairShareRuleTest, ARowStarvesOfNothingThatItsWindowOutweighs) {
  for (const bool has_window : {false, true}) {
    const std::vector<float> best_known = {0, has_window ? 20.0f : 0.0f};
    IndexCall call;
    call.num_q_rows = 2;
    call.best = best_known.data();
    const std::vector<float> scores = {5, 5, 5, 5, 5, 5, 5, 5,  //
                                       0, 0, 0, 0, 0, 0, 0, 9};
    std::vector<float> worth = {0, 0, 0, 0, 0, 0, 0, 0};
    AlignedBuffer select = *AlignedBuffer::Allocate(kernels::SelectTopKScratchBytes(8) + 64);
    Shares of(call, 8);
    of.shares.SetBest(0, 5);
    of.shares.SetBest(1, has_window ? 20 : 9);
    const std::vector<uint32_t> selected = {0, 1, 2, 3};
    EXPECT_EQ(of.shares.Feed({scores.data(), 8, worth.data(), true}, selected, select.data()),
              !has_window);
  }
}

// A row whose scores are no numbers, and a single row, change nothing.
TEST(FairShareRuleTest, ABrokenRowHasNoSay) {
  const std::vector<float> best_known = {0, 0};
  IndexCall call;
  call.best = best_known.data();
  const std::vector<float> scores = {5, 5, 5, 5, 0, 0, 0, 9};
  std::vector<float> worth = {0, 0, 0, 0};
  AlignedBuffer select = *AlignedBuffer::Allocate(kernels::SelectTopKScratchBytes(8) + 64);
  for (const size_t num_rows : {1u, 2u}) {
    call.num_q_rows = num_rows;
    Shares of(call, 8);
    of.shares.SetBest(0, 5);
    if (num_rows == 2) of.shares.SetBest(1, std::nanf(""));
    const std::vector<uint32_t> selected = {0, 1};
    EXPECT_FALSE(of.shares.Feed({scores.data(), 4, worth.data(), true}, selected, select.data()));
  }
}

}  // namespace
}  // namespace attndb::index
