// Goal:   clusters estimate the tokens left out by their definition, never more than their weight;
//         they exclude hidden tokens, and count nothing twice.
// Method: keys that drift as those of a text do, of two runs with clusters, one of them cut by a
//         filter, and one without; sums in float64.
#include "attention/cluster_remainder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "common/aligned_buffer.h"
#include "index/coarse/coarse_test_util.h"
#include "index/coarse/wave_test_util.h"
#include "kernels/score.h"

namespace attndb::attention {
namespace {

using index::ClusterSums;
using index::test::DriftingHead;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr size_t kDim = 32;
constexpr uint32_t kGroup = 2;
constexpr size_t kRunKeys[] = {3000, 200, 2500};
constexpr float kScale = 0.03f;
// The visible part of each run's tokens. The first run loses keys [700, 760) by a filter. The last
// run loses its end, which the row does not see.
constexpr uint64_t kHiddenBegin = 700;
constexpr uint64_t kHiddenEnd = 760;
constexpr uint64_t kNumTokens = 3000 - 60 + 200 + 2400;

class ClusterRemainderTest : public ::testing::Test {
 protected:
  ClusterRemainderTest() {
    for (size_t run = 0; run < 3; ++run) {
      keys_.emplace_back(DType::kFloat32, kRunKeys[run], kDim, 10 + run, 0);
      values_.emplace_back(DType::kFloat32, kRunKeys[run], kDim, 20 + run, 0);
    }
    for (size_t run = 0; run < 3; ++run) {
      waves_.push_back(*index::WaveKeys::Build(
          {.keys = keys_[run].keys(), .values = values_[run].keys(), .num_keys = kRunKeys[run]},
          {.num_rounds = 4}));
    }
    AddPart(0, 0, kHiddenBegin);
    AddPart(0, kHiddenEnd, kRunKeys[0]);
    AddPart(1, 0, kRunKeys[1]);
    AddPart(2, 0, kRunKeys[2]);
    q_ = keys_[0].Query(kGroup);
    scratch_bytes_ = *AlignedBuffer::Allocate(uint64_t{1} << 20);
    Arena arena(scratch_bytes_.data(), scratch_bytes_.size());
    scratch_ = ClusterScratch::Take(kGroup, NumClusters(runs_), runs_.size(), &arena);
  }

  void AddPart(uint32_t run, uint64_t first, uint64_t end) {
    const uint64_t begin = runs_.empty() ? 0 : runs_.back().tokens.end;
    runs_.push_back({.tokens = {begin, begin + end - first},
                     .origin = begin - first,
                     .number = run,
                     .k_elements = kDim,
                     .v_elements = kDim,
                     .dtype = DType::kFloat32,
                     .sums = run == 1 ? nullptr : &waves_[run].sums()});
  }

  const HeadRun& RunOf(uint64_t token) const {
    size_t i = 0;
    while (token >= runs_[i].tokens.end) ++i;
    return runs_[i];
  }
  double Score(uint64_t token, uint32_t head) const {
    const HeadRun& run = RunOf(token);
    return index::test::Dot(q_.data() + head * kDim, keys_[run.number].Key(run.RowOf(token)));
  }

  // The tokens of a run's cluster; none if some are hidden.
  std::vector<uint64_t> WholeCluster(uint32_t run, size_t cluster) const {
    std::vector<uint64_t> tokens;
    for (const size_t key : index::test::KeysOf(waves_[run].sums(), cluster)) {
      const auto part = std::ranges::find_if(runs_, [&](const HeadRun& of) {
        const uint64_t token = key + of.origin;
        return of.number == run && of.sums != nullptr && token >= of.tokens.begin &&
               token < of.tokens.end && token < kNumTokens;
      });
      if (part == runs_.end()) return {};
      tokens.push_back(key + part->origin);
    }
    return tokens;
  }

  struct Plain {
    double mass = 0;       // The estimate's mass.
    double true_mass = 0;  // The mass of the tokens that the estimate stands for.
    std::vector<double> out = std::vector<double>(kDim);
  };
  // Over exp(0).
  Plain PlainEstimate(uint32_t head, const std::set<uint64_t>& attended, double share = 1) const {
    struct Cluster {
      double weight = 0;
      double true_weight = 0;
      std::vector<double> mean;
    };
    std::vector<Cluster> clusters;
    size_t num_clusters = 0;
    for (const uint32_t run : {0u, 2u}) {
      const ClusterSums& sums = waves_[run].sums();
      num_clusters += sums.num_clusters;
      for (size_t c = 0; c < sums.num_clusters; ++c) {
        Cluster cluster;
        double sum = 0;
        double count = 0;
        for (const uint64_t token : WholeCluster(run, c)) {
          if (attended.contains(token)) continue;
          sum += Score(token, head);
          cluster.true_weight += std::exp(double{kScale} * Score(token, head));
          ++count;
        }
        if (count == 0) continue;
        cluster.weight = count * std::exp(double{kScale} * sum / count);
        cluster.mean = index::test::MeanOf(values_[run].keys(), index::test::KeysOf(sums, c));
        clusters.push_back(cluster);
      }
    }
    std::ranges::sort(clusters, std::ranges::greater(), &Cluster::weight);
    const auto most = static_cast<size_t>(std::ceil(share * static_cast<double>(num_clusters)));
    clusters.resize(std::min(most, clusters.size()));
    Plain plain;
    for (const Cluster& cluster : clusters) {
      plain.mass += cluster.weight;
      plain.true_mass += cluster.true_weight;
      for (size_t d = 0; d < kDim; ++d) plain.out[d] += cluster.weight * cluster.mean[d];
    }
    return plain;
  }

  // Folds into a state that holds one token: logit 1, value 0.
  double Fold(uint32_t head, const std::set<uint64_t>& attended, double share = 1,
              float best = kInf) {
    const ClusterRemainderCall call = {.runs = runs_,
                                       .q = {q_.data(), kDim, kGroup},
                                       .num_tokens = kNumTokens,
                                       .logit = {kScale},
                                       .share = share};
    ClusterRemainder remainder(call, scratch_, &cost_);
    std::vector<uint32_t> tokens(attended.begin(), attended.end());
    std::vector<float> scores;
    for (const uint32_t token : tokens) scores.push_back(static_cast<float>(Score(token, head)));
    max_ = 1.0f;
    sum_ = 1.0f;
    out_.assign(kDim, 0.0f);
    remainder.Begin(head);
    // In two lists, like sinks with the window, and selected tokens.
    const size_t half = tokens.size() / 2;
    remainder.Take({tokens.data() + half, scores.data() + half, tokens.size() - half});
    remainder.Take({tokens.data(), scores.data(), half});
    return remainder.Fold(best, {&max_, &sum_, out_.data(), kDim});
  }

  void ExpectPlain(const Plain& plain, double mass) const {
    const double factor = std::exp(double{max_});
    EXPECT_NEAR(mass * factor, plain.mass, 2e-5 * plain.mass);
    EXPECT_NEAR(double{sum_} * factor, plain.mass + std::exp(1.0), 2e-5 * plain.mass);
    for (size_t d = 0; d < kDim; ++d) {
      EXPECT_NEAR(double{out_[d]} * factor, plain.out[d], 1e-4 * plain.mass) << d;
    }
  }

  // The tokens of largest score, and the first and last ones.
  std::set<uint64_t> Attended(uint32_t head, size_t count) const {
    std::vector<uint64_t> tokens(kNumTokens);
    for (uint64_t token = 0; token < kNumTokens; ++token) tokens[token] = token;
    std::ranges::sort(tokens, std::ranges::greater(),
                      [&](uint64_t token) { return Score(token, head); });
    std::set<uint64_t> attended(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(count));
    for (uint64_t token = 0; token < 5; ++token) attended.insert(token);
    for (uint64_t token = kNumTokens - 30; token < kNumTokens; ++token) attended.insert(token);
    return attended;
  }

  std::vector<DriftingHead> keys_;
  std::vector<DriftingHead> values_;
  std::vector<index::WaveKeys> waves_;
  std::vector<HeadRun> runs_;
  std::vector<float> q_;
  AlignedBuffer scratch_bytes_;
  ClusterScratch scratch_;
  CallCost cost_;
  float max_ = 0;
  float sum_ = 0;
  std::vector<float> out_;
};

TEST_F(ClusterRemainderTest, EstimatesAreThoseOfTheirDefinition) {
  for (const uint32_t head : {0u, 1u}) {
    for (const size_t count : {0u, 1u, 100u, 2000u}) {
      const std::set<uint64_t> attended = Attended(head, count);
      const double mass = Fold(head, attended);
      EXPECT_GT(mass, 0);
      ExpectPlain(PlainEstimate(head, attended), mass);
    }
  }
}

TEST_F(ClusterRemainderTest, EstimatesLieBelowTheTrueMass) {
  for (const uint32_t head : {0u, 1u}) {
    for (const size_t count : {0u, 300u}) {
      const std::set<uint64_t> attended = Attended(head, count);
      const double mass = Fold(head, attended) * std::exp(double{max_});
      const double true_mass = PlainEstimate(head, attended).true_mass;
      EXPECT_LT(mass, true_mass);
      EXPECT_GT(mass, 0.3 * true_mass);
    }
  }
}

TEST_F(ClusterRemainderTest, AShareIsOfTheClustersThatWeighMost) {
  const std::set<uint64_t> attended = Attended(0, 100);
  double last = 0;
  for (const double share : {0.0001, 0.1, 0.232, 1.0}) {
    const double mass = Fold(0, attended, share);
    ExpectPlain(PlainEstimate(0, attended, share), mass);
    EXPECT_GT(mass * std::exp(double{max_}), last);
    last = mass * std::exp(double{max_});
  }
}

TEST_F(ClusterRemainderTest, OfTokensThatAreAllAttendedToNothingIsLeft) {
  std::set<uint64_t> all;
  for (uint64_t token = 0; token < kNumTokens; ++token) all.insert(token);
  EXPECT_EQ(Fold(0, all), 0.0);
  EXPECT_EQ(sum_, 1.0f);
}

// Means of clusters of which a token is hidden could be anything.
TEST_F(ClusterRemainderTest, HiddenTokensChangeNothing) {
  const double before = Fold(0, {});
  const std::vector<float> out = out_;
  for (const uint32_t run : {0u, 2u}) {
    const ClusterSums& sums = waves_[run].sums();
    size_t num_cut = 0;
    for (size_t c = 0; c < sums.num_clusters; ++c) {
      if (!WholeCluster(run, c).empty()) continue;
      ++num_cut;
      for (const kernels::RowsView& rows : {sums.keys, sums.values}) {
        auto* const row = const_cast<float*>(static_cast<const float*>(rows.data)) + c * kDim;
        std::fill_n(row, kDim, 1e6f);
      }
    }
    EXPECT_GT(num_cut, 2u);
  }
  EXPECT_EQ(Fold(0, {}), before);
  EXPECT_EQ(out_, out);
}

// Keys of tokens that were moved stand elsewhere than the means say.
TEST_F(ClusterRemainderTest, ClustersOfTokensThatWereMovedAreNotEstimated) {
  runs_[0].sums = nullptr;
  for (const size_t count : {0u, 100u, 2000u}) {
    const std::set<uint64_t> attended = Attended(1, count);
    const double mass = Fold(1, attended);
    EXPECT_GT(mass, 0);
    ExpectPlain(PlainEstimate(1, attended), mass);
  }
}

TEST_F(ClusterRemainderTest, NothingLeftOutIsThoughtBetterThanTheBest) {
  const float best = -5.0f;  // Below the mean score of some clusters.
  const double mass = Fold(0, {}, 1, best) * std::exp(double{max_});
  EXPECT_LT(mass, PlainEstimate(0, {}).mass);
  EXPECT_LE(mass, static_cast<double>(kNumTokens) * std::exp(double{kScale} * double{best}));
}

}  // namespace
}  // namespace attndb::attention
