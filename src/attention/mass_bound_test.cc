// Goal:   no set of tokens that is left out has a larger share of the softmax mass, or more effect
//         on the output, than its bounds, whatever q, keys, values, runs and choice are; and the
//         bounds say something.
// Method: against float64, over keys that quantization does badly on, in runs that begin anywhere,
//         for choices that no search would make: some 12,000 queries. Where scores are read from
//         rows of K, what their float32 sums of products may be off by is granted.
// Replay: ATTNDB_SEED=17 ctest -R attention_test
#include "attention/mass_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "attention/view_rows_test_util.h"
#include "common/aligned_buffer.h"
#include "common/random.h"
#include "index/planes/key_planes.h"
#include "index/planes/value_planes.h"
#include "kernels/score.h"
#include "testing/seed.h"

namespace attndb::attention {
namespace {

constexpr size_t kDim = 32;
constexpr uint64_t kSink = 3;
constexpr uint64_t kWindow = 5;

struct Keys {
  const char* name;
  float bias;  // Added to every second channel.
  float size;
  float tail;          // Log-normal sizes of keys.
  float long_key = 1;  // Key kLongKey is so many times as long.
};

constexpr uint64_t kLongKey = 100;

constexpr Keys kKeys[] = {{"normal", 0, 1, 0},
                          {"biased", 40, 1, 0},
                          {"large norms", 0, 30, 0},
                          {"tiny", 0, 1e-3f, 0},
                          {"heavy tails", 0, 1, 1.5f},
                          {"biased, large, of all sizes", 100, 5, 1},
                          {"one long key", 0, 1, 0, 1000}};

// Runs of keys, all but the last with planes, and the results of a row of q in them.
class Context {
 public:
  Context(const Keys& kind, std::vector<uint64_t> run_lengths, Random* random) : random_(*random) {
    for (const uint64_t length : run_lengths) num_tokens_ += length;
    keys_.resize(num_tokens_ * kDim);
    for (size_t i = 0; i < num_tokens_; ++i) {
      const float of_long = i == kLongKey ? kind.long_key : 1.0f;
      const float size = of_long * kind.size * std::exp(kind.tail * Gaussian());
      for (size_t d = 0; d < kDim; ++d) {
        keys_[i * kDim + d] = (d % 2 == 0 ? kind.bias : 0) + size * Gaussian();
      }
    }
    planes_.reserve(run_lengths.size());
    values_.reserve(run_lengths.size());
    uint64_t begin = 0;
    for (const uint64_t length : run_lengths) {
      const kernels::RowsView k = {&keys_[begin * kDim], kDim, kDim, DType::kFloat32};
      planes_.push_back(*index::KeyPlanes::Build(k, length));
      values_.push_back(*index::ValueMeans::Build(k, length));
      const bool has_values = random->Uniform(2) == 0;
      // Values are as long, and as different, as keys.
      runs_.push_back(source_.Add({begin, begin + length}, k, k));
      runs_.back().estimates = &planes_.back();
      if (has_values) runs_.back().means = &values_.back().view();
      begin += length;
    }
    runs_.back().estimates = nullptr;
    q_ = *AlignedBuffer::Allocate(kDim * sizeof(float));
    spare_ = *AlignedBuffer::Allocate(kDim * sizeof(float));
    codes_ = *AlignedBuffer::Allocate(index::QueryCodeBytes(kDim));
  }

  // Bounds and truth when each middle token is chosen with this probability.
  struct Outcome {
    double bound;
    double share;        // Share of the mass that was left out.
    double granted = 0;  // Nats by which float32 scores may be off.
    double out_bound = 0;
    double off = 0;   // Norm of the output's error.
    double norm = 0;  // Norm of the output.
  };
  // above: the denominator's logit minus the largest logit, in nats; -inf if there is none.
  Outcome Try(uint32_t bits, const kernels::LogitSpec& logit, double chosen_share, float q_size,
              double above = -std::numeric_limits<double>::infinity()) {
    for (size_t d = 0; d < kDim; ++d) q()[d] = q_size * Gaussian();
    const TokenRange middle = {kSink, num_tokens_ - kWindow};
    std::vector<float> scores = Scores(bits, logit.scale, middle);
    std::vector<float> chosen;
    Sums kept;
    Sums left;
    double largest = 0;
    double reference = Logit(logit, 0);
    for (uint64_t i = 1; i < num_tokens_; ++i) reference = std::max(reference, Logit(logit, i));
    const auto denominator = static_cast<float>(reference + above);
    kept.mass = std::exp(double{denominator} - reference);
    for (uint64_t i = 0; i < num_tokens_; ++i) {
      const bool fixed = i < middle.begin || i >= middle.end;
      const bool is_chosen = fixed || random_.NextDouble() < chosen_share;
      (is_chosen ? kept : left).Add(std::exp(Logit(logit, i) - reference), &keys_[i * kDim]);
      largest = std::max(largest, Norm(&keys_[i * kDim]));
      if (!is_chosen) continue;
      chosen.push_back(0);
      kernels::ScoreRows({&keys_[i * kDim], kDim, kDim, DType::kFloat32}, 1, q(), kDim, 1,
                         &chosen.back(), 1);
      if (!fixed) scores[i] = -std::numeric_limits<float>::infinity();
    }
    CallCost cost;
    rows_.Reset(&source_);
    const LeftBound bound =
        *BoundLeft({runs_, bits, q(), scores.data(), middle, chosen, logit,
                    reinterpret_cast<float*>(spare_.data()), codes_.data(), denominator, &rows_},
                   &cost);
    Outcome found = {.bound = bound.share, .share = left.mass / (left.mass + kept.mass)};
    found.granted = 2 * kDim * 0x1p-24 * logit.scale * Norm(q()) * largest;
    if (kept.mass == 0) return found;  // Below float64's range: no output to compare.
    double out_square = 0;
    double off_square = 0;
    for (size_t d = 0; d < kDim; ++d) {
      const double out = kept.value[d] / kept.mass;
      const double full = (kept.value[d] + left.value[d]) / (kept.mass + left.mass);
      out_square += out * out;
      off_square += (out - full) * (out - full);
    }
    found.out_bound = bound.OfOutput(std::sqrt(out_square));
    found.off = std::sqrt(off_square);
    found.norm = std::sqrt(out_square);
    return found;
  }

 private:
  struct Sums {
    void Add(double weight, const float* v) {
      mass += weight;
      for (size_t d = 0; d < kDim; ++d) value[d] += weight * double{v[d]};
    }
    double mass = 0;
    double value[kDim] = {};
  };

  float* q() { return reinterpret_cast<float*>(q_.data()); }
  float Gaussian() { return static_cast<float>(random_.NextGaussian()); }

  static double Norm(const float* x) {
    double square = 0;
    for (size_t d = 0; d < kDim; ++d) square += double{x[d]} * double{x[d]};
    return std::sqrt(square);
  }

  double Logit(const kernels::LogitSpec& logit, uint64_t token) {
    double score = 0;
    for (size_t d = 0; d < kDim; ++d) score += double{q()[d]} * double{keys_[token * kDim + d]};
    const double x = score * double{logit.scale};
    return logit.soft_cap == 0 ? x : logit.soft_cap * std::tanh(x / double{logit.soft_cap});
  }

  void ScoreExactly(const HeadRun& run, TokenRange rows, float* out) {
    const kernels::RowsView k = {&keys_[(run.tokens.begin + rows.begin) * kDim], kDim, kDim,
                                 DType::kFloat32};
    const uint64_t count = rows.end - rows.begin;
    kernels::ScoreRows(k, count, q(), kDim, 1, out + rows.begin, count);
  }

  // The scores that an Attend has: lowered estimates of the middle of runs that have planes, and
  // exact scores of outlier blocks and of all others.
  std::vector<float> Scores(uint32_t bits, float scale, TokenRange middle) {
    std::vector<float> scores(num_tokens_);
    for (HeadRun& run : runs_) {
      const uint64_t count = run.tokens.end - run.tokens.begin;
      float* const out = &scores[run.tokens.begin];
      if (bits == 0) run.estimates = nullptr;
      if (run.estimates == nullptr) {
        ScoreExactly(run, {0, count}, out);
        continue;
      }
      index::EstimateQuery query =
          run.estimates->Prepare(q(), reinterpret_cast<float*>(spare_.data()), codes_.data());
      query.offset -= ScoreShift(ScoreError(*run.estimates, bits, q(), kDim), scale);
      run.estimates->Scan(bits, 0, count, &query, 1, out, count);
      for (const uint64_t block : run.estimates->outlier_blocks()) {
        const uint64_t begin = block * kernels::kWeightBlock;
        ScoreExactly(run, {begin, std::min(begin + kernels::kWeightBlock, count)}, out);
      }
    }
    // Scores of chosen tokens are never read.
    for (uint64_t i = 0; i < middle.begin; ++i) scores[i] = 0;
    for (uint64_t i = middle.end; i < num_tokens_; ++i) scores[i] = 0;
    return scores;
  }

  Random& random_;
  uint64_t num_tokens_ = 0;
  std::vector<float> keys_;
  std::vector<index::KeyPlanes> planes_;
  std::vector<index::ValueMeans> values_;
  ViewRows source_;
  storage::RowLease rows_;
  std::vector<HeadRun> runs_;
  AlignedBuffer q_, spare_, codes_;
};

class MassBoundTest : public ::testing::Test {
 protected:
  // Runs of which most begin amid a block.
  Context Draw(const Keys& kind) {
    std::vector<uint64_t> lengths;
    for (uint64_t n = 1 + random_.Uniform(3); n > 0; --n)
      lengths.push_back(1 + random_.Uniform(200));
    lengths.push_back(kSink + kWindow + random_.Uniform(40));
    return Context(kind, lengths, &random_);
  }

  Random random_{attndb::test::SeedOr(61)};
};

TEST_F(MassBoundTest, NoMoreIsLeftOutThanTheBoundSays) {
  size_t num_queries = 0;
  for (const Keys& kind : kKeys) {
    for (uint32_t context_idx = 0; context_idx < 12; ++context_idx) {
      Context context = Draw(kind);
      const uint32_t bits = context_idx % 3 * 4;
      for (const float cap : {0.0f, 5.0f}) {
        for (const double chosen : {0.0, 0.1, 0.9}) {
          for (int i = 0; i < 30; ++i, ++num_queries) {
            const float q_size = std::exp(2 * static_cast<float>(random_.NextGaussian()) - 1);
            const Context::Outcome found = context.Try(bits, {0.18f, cap}, chosen, q_size);
            ASSERT_LE(found.share, found.bound * std::exp(found.granted))
                << kind.name << ", " << bits << " bits, cap " << cap << ", chosen " << chosen;
            ASSERT_LE(found.bound, 1);
            ASSERT_LE(found.off, found.out_bound * std::exp(found.granted) * (1 + 1e-12))
                << kind.name << ", " << bits << " bits, cap " << cap << ", chosen " << chosen;
          }
        }
      }
    }
  }
  EXPECT_GE(num_queries, 12000u);
}

TEST_F(MassBoundTest, ADenominatorIsAChosenTokenOfValueZero) {
  for (const Keys& kind : kKeys) {
    for (uint32_t context_idx = 0; context_idx < 6; ++context_idx) {
      Context context = Draw(kind);
      const uint32_t bits = context_idx % 3 * 4;
      for (const double above : {-30.0, -2.0, 0.5, 6.0, 40.0}) {
        for (int i = 0; i < 20; ++i) {
          const Context::Outcome found = context.Try(bits, {0.18f, 0.0f}, 0.3, 0.7f, above);
          ASSERT_LE(found.share, found.bound * std::exp(found.granted))
              << kind.name << ", " << bits << " bits, " << above << " nats";
          // The difference of two outputs is itself rounded, which tells where little is left out.
          const double rounding = 1e-15 * found.norm;
          ASSERT_LE(found.off, found.out_bound * std::exp(found.granted) * (1 + 1e-12) + rounding)
              << kind.name << ", " << bits << " bits, " << above << " nats";
          if (bits != 0 || &kind != &kKeys[0]) continue;
          // The bound is as tight as without a denominator: see below.
          ASSERT_LE(found.bound, 1.001 * found.share + 1e-20) << above << " nats";
        }
      }
    }
  }
}

TEST_F(MassBoundTest, TheBoundIsTight) {
  for (const auto& [bits, most] : {std::pair(0u, 1.001), std::pair(8u, 1.25), std::pair(4u, 8.0)}) {
    Context context = Draw(kKeys[0]);
    for (int i = 0; i < 50; ++i) {
      const Context::Outcome found = context.Try(bits, {0.18f, 0.0f}, 0.9, 1.0f);
      EXPECT_LE(found.bound, most * found.share + 1e-20) << bits << " bits";
      // The left-out values are half as long as the longest, and have another direction than the
      // output.
      EXPECT_LE(found.out_bound, 12 * most * found.off + 1e-20) << bits << " bits";
    }
  }
}

// The block of a key that is far longer than others has exact scores, which bound themselves.
TEST_F(MassBoundTest, ALongKeyDoesNotLoosenTheBound) {
  Context context({"one long key", 0, 1, 0, 1000}, {30, 400, 40}, &random_);
  for (const auto& [bits, most] : {std::pair(8u, 1.25), std::pair(4u, 8.0)}) {
    for (int i = 0; i < 50; ++i) {
      const Context::Outcome found = context.Try(bits, {0.18f, 0.0f}, 0.9, 1.0f);
      // If the long key holds all of the mass, uncountably small weights make up the bound.
      EXPECT_LE(found.bound, most * found.share * std::exp(found.granted) + 1e-15)
          << bits << " bits";
    }
  }
}

}  // namespace
}  // namespace attndb::attention
