// Goal:   attention of a layer equals a float64 reference for every plan, cut and shape, and is
//         bit-identical for equal number of parts, whatever the order in which parts run.
// Method: random K and V cut into random runs; the reference chooses tokens by its own float64
//         scores, so a plan's selection is tested as well as the sum.
// Replay: a test's seeds are its parameter, or follow from it.
#include "attention/layer_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "common/aligned_buffer.h"
#include "db/builtin_plans.h"
#include "index/planes/key_planes.h"
#include "index/planes/value_planes.h"
#include "kernels/convert.h"
#include "testing/test_size.h"

namespace attndb::attention {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Shape {
  uint32_t q_heads = 6;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 32;
  uint32_t v_head_dim = 32;
  uint32_t sliding_window = 0;
  float soft_cap = 0.0f;
  RopeLayout layout = RopeLayout::kHalf;
  bool v_is_k = false;  // Values that go with the scores, as those of real heads do.
  // Denominators of little to nearly all of the mass, by q head.
  bool denominators = false;
};

// K, V and q of one layer in float32, and their stored form cut into runs.
class Layer {
 public:
  Layer(const Shape& shape, DType dtype, std::vector<uint64_t> run_lengths, uint64_t num_rows,
        uint32_t seed)
      : shape_(shape), dtype_(dtype), run_lengths_(std::move(run_lengths)), num_rows_(num_rows) {
    for (const uint64_t n : run_lengths_) num_tokens_ += n;
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    q_.resize(num_rows * shape.q_heads * shape.head_dim);
    for (float& x : q_) x = 1.5f * normal(random);
    for (uint32_t h = 0; h < shape.kv_heads; ++h) {
      for (const uint64_t n : run_lengths_) {
        k_.push_back(Store(n, shape.head_dim, &random, &k_values_));
        v_.push_back(Store(n, shape.v_head_dim, &random, &v_values_));
        runs_.push_back({k_.back().data(), (shape.v_is_k ? k_ : v_).back().data(), n});
      }
    }
    if (shape.v_is_k) v_values_ = k_values_;
    non_finite_.assign(shape.kv_heads, 0);
  }

  LayerCall Call(const planner::LayerPlan& plan, uint32_t num_parts) {
    LayerCall call;
    call.spec = {.num_q_heads = shape_.q_heads,
                 .num_kv_heads = shape_.kv_heads,
                 .head_dim = shape_.head_dim,
                 .v_head_dim = shape_.v_head_dim,
                 .scale = Scale(),
                 .soft_cap = shape_.soft_cap,
                 .sliding_window = shape_.sliding_window,
                 .rope = {.layout = shape_.layout}};
    for (uint32_t head = 0; shape_.denominators && head < shape_.q_heads; ++head) {
      call.spec.denominator_logits.push_back(static_cast<float>(Denominator(head)));
    }
    call.kv_dtype = dtype_;
    call.plan = plan;
    search_ = plan.MakeSearch(call.spec);
    call.search = search_.get();
    // The last draw may be off by twice what is tolerated.
    draws_.assign(call.spec.num_kv_heads, {100, plan.error / 2});
    call.draws = draws_;
    call.runs = runs_;
    call.estimates = estimates_;
    call.values = values_;
    call.means = means_;
    call.num_runs = run_lengths_.size();
    call.non_finite = non_finite_;
    call.num_tokens = num_tokens_;
    call.q =
        TensorView::Contiguous(q_.data(), DType::kFloat32, Rows(), shape_.q_heads, shape_.head_dim);
    out_.assign(num_rows_ * shape_.q_heads * shape_.v_head_dim, std::nanf(""));
    lse_.assign(num_rows_ * shape_.q_heads, std::nanf(""));
    call.out = MutableTensorView::Contiguous(out_.data(), DType::kFloat32, Rows(), shape_.q_heads,
                                             shape_.v_head_dim);
    call.lse = lse_.data();
    call.num_parts = num_parts;
    return call;
  }

  // Key planes for every run but the last.
  void BuildPlanes() {
    const size_t padded = kernels::RowElements(shape_.head_dim);
    planes_.reserve(runs_.size());
    for (size_t i = 0; i < runs_.size(); ++i) {
      estimates_.push_back(nullptr);
      if (i % run_lengths_.size() + 1 == run_lengths_.size()) continue;
      planes_.push_back(
          *index::KeyPlanes::Build({runs_[i].k, padded, padded, dtype_}, runs_[i].num_tokens));
      estimates_.back() = &planes_.back();
    }
  }

  // Value planes and means for every run but the last.
  void BuildValues() {
    const size_t padded = kernels::RowElements(shape_.v_head_dim);
    coded_.clear();
    averaged_.clear();
    values_.clear();
    means_.clear();
    coded_.reserve(runs_.size());  // Views point into them.
    averaged_.reserve(runs_.size());
    for (size_t i = 0; i < runs_.size(); ++i) {
      values_.push_back(nullptr);
      means_.push_back(nullptr);
      if (i % run_lengths_.size() + 1 == run_lengths_.size()) continue;
      const kernels::RowsView v = {runs_[i].v, padded, padded, dtype_};
      coded_.push_back(*index::ValuePlanes::Build(v, runs_[i].num_tokens));
      averaged_.push_back(*index::ValueMeans::Build(v, runs_[i].num_tokens));
      values_.back() = &coded_.back().view();
      means_.back() = &averaged_.back().view();
    }
  }

  // Runs the call in `num_parts` parts, last part first, on one thread or on as many.
  CallCost Run(const planner::LayerPlan& plan, uint32_t num_parts, bool threads = false) {
    LayerAttention attention;
    EXPECT_TRUE(attention.Begin(Call(plan, num_parts)).ok());
    if (threads) {
      std::vector<std::thread> workers;
      for (uint32_t p = 0; p < num_parts; ++p) {
        workers.emplace_back([&attention, p] { attention.RunPart(p); });
      }
      for (std::thread& worker : workers) worker.join();
    } else {
      for (uint32_t p = num_parts; p-- > 0;) attention.RunPart(p);
    }
    bounds_.assign(attention.bounds().begin(), attention.bounds().end());
    return attention.cost();
  }

  // The share of the mass that the last call left out, and what its output is off by, are no more
  // than their bounds.
  void ExpectBoundsHold(const char* text) {
    ASSERT_EQ(bounds_.size(), lse_.size());
    for (uint64_t row = 0; row < num_rows_; ++row) {
      for (uint32_t head = 0; head < shape_.q_heads; ++head) {
        const size_t i = row * shape_.q_heads + head;
        double whole = 0;
        Reference({}, row, head, &whole);
        const double share = 1 - std::exp(double{lse_[i]} - whole);
        ASSERT_LE(share, double{bounds_[i].mass} + 1e-5)
            << text << " row " << row << " head " << head;
        const Difference off = DifferenceFrom({}, row, head, 0);
        ASSERT_LE(off.out * off.norm, double{bounds_[i].out} + 1e-5 * off.norm)
            << text << " row " << row << " head " << head;
        EXPECT_LE(double{bounds_[i].out}, double{bounds_[i].mass} * 30);  // Of V's norms of 5.7.
      }
    }
  }

  // Relative errors (norm) of all rows, and errors of lse, against float64. Where the mass that a
  // plan asks for is held to within rounding, one token more or less is as right.
  void ExpectExact(const planner::LayerPlan& plan, double tolerance) {
    constexpr double kRounding = 1e-5;
    for (uint64_t row = 0; row < num_rows_; ++row) {
      for (uint32_t head = 0; head < shape_.q_heads; ++head) {
        Difference off = DifferenceFrom(plan, row, head, 0);
        for (const double slack : {-kRounding, kRounding}) {
          if (plan.Is("mass") && off.out > tolerance) off = DifferenceFrom(plan, row, head, slack);
        }
        ASSERT_LE(off.out, tolerance) << plan.ToString() << " row " << row << " head " << head;
        ASSERT_LE(off.lse, 1e-4) << plan.ToString() << " row " << row << " head " << head;
      }
    }
  }

  // Mean over q heads and rows of the relative error (norm) against float64 attention over all.
  double MeanErrorOfFull() {
    double sum = 0;
    for (uint64_t row = 0; row < num_rows_; ++row) {
      for (uint32_t head = 0; head < shape_.q_heads; ++head) {
        sum += DifferenceFrom({}, row, head, 0).out;
      }
    }
    return sum / static_cast<double>(num_rows_ * shape_.q_heads);
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }
  std::vector<float>& out() { return out_; }
  const std::vector<HeadBound>& bounds() const { return bounds_; }
  std::vector<uint8_t>& non_finite() { return non_finite_; }
  uint64_t num_tokens() const { return num_tokens_; }

 private:
  int64_t Rows() const { return static_cast<int64_t>(num_rows_); }

  // n random rows, rounded to the stored type, appended to `values` as stored.
  AlignedBuffer Store(uint64_t n, uint32_t dim, std::mt19937* random, std::vector<float>* values) {
    std::normal_distribution<float> normal;
    std::vector<float> rows(n * dim);
    for (float& x : rows) x = normal(*random);
    const size_t padded = kernels::RowElements(dim);
    AlignedBuffer stored = *AlignedBuffer::Allocate(n * padded * DTypeBytes(dtype_) + 64);
    kernels::ConvertRows(DType::kFloat32, rows.data(), dim, dtype_, stored.data(), padded, n, dim,
                         padded);
    kernels::ConvertRows(dtype_, stored.data(), padded, DType::kFloat32, rows.data(), dim, n, dim,
                         dim);
    values->insert(values->end(), rows.begin(), rows.end());
    return stored;
  }

  double Score(uint64_t row, uint32_t head, uint64_t token) const {
    const float* q = &q_[(row * shape_.q_heads + head) * shape_.head_dim];
    const uint64_t kv_head = head / (shape_.q_heads / shape_.kv_heads);
    const float* k = &k_values_[(kv_head * num_tokens_ + token) * shape_.head_dim];
    double score = 0;
    const uint32_t half = shape_.head_dim / 2;
    for (uint32_t d = 0; d < shape_.head_dim; ++d) {
      const uint32_t from =
          shape_.layout == RopeLayout::kInterleaved ? (d < half ? 2 * d : 2 * (d - half) + 1) : d;
      score += static_cast<double>(q[from]) * k[d];
    }
    return score;
  }

  // The tokens' lse is 8 or so.
  double Denominator(uint32_t head) const {
    return shape_.denominators ? 1 + 9.0 * (head + 1) / shape_.q_heads : -kInf;
  }

  double Logit(double score) const {
    const double x = score * Scale();
    return shape_.soft_cap == 0 ? x : shape_.soft_cap * std::tanh(x / shape_.soft_cap);
  }

  struct Difference {
    double out = 0;   // Over the norm
    double norm = 0;  // ... of what was expected.
    double lse = 0;
  };

  // Of a row of the last call from float64 attention over the tokens of the plan.
  Difference DifferenceFrom(const planner::LayerPlan& plan, uint64_t row, uint32_t head,
                            double slack) const {
    double lse = 0;
    const std::vector<double> expected = Reference(plan, row, head, &lse, slack);
    double error = 0;
    double norm = 0;
    const float* got = &out_[(row * shape_.q_heads + head) * shape_.v_head_dim];
    for (uint32_t d = 0; d < shape_.v_head_dim; ++d) {
      error += (got[d] - expected[d]) * (got[d] - expected[d]);
      norm += expected[d] * expected[d];
    }
    const double lse_off = std::abs(double{lse_[row * shape_.q_heads + head]} - lse);
    return {std::sqrt(error / norm), std::sqrt(norm), std::isnan(lse_off) ? kInf : lse_off};
  }

  // The tokens that a q row attends to. slack: added to the share that a mass plan asks for.
  std::vector<bool> Chosen(const planner::LayerPlan& plan, uint64_t row, uint32_t head,
                           const std::vector<double>& scores, double slack) const {
    const uint64_t end = num_tokens_ - num_rows_ + row + 1;
    std::vector<bool> chosen(end, true);
    if (shape_.sliding_window != 0) {
      for (uint64_t i = 0; i + shape_.sliding_window < end; ++i) chosen[i] = false;
      return chosen;
    }
    if (plan.kind == planner::QueryKind::kFull || num_rows_ > 64) return chosen;
    const double max = *std::max_element(scores.begin(), scores.begin() + static_cast<long>(end));
    std::vector<uint64_t> middle;
    for (uint64_t i = plan.sink; i + plan.window < end; ++i) middle.push_back(i);
    std::stable_sort(middle.begin(), middle.end(),
                     [&](uint64_t a, uint64_t b) { return scores[a] > scores[b]; });
    double all = std::exp(Denominator(head) - Logit(max));
    double held = all;
    for (uint64_t i = 0; i < end; ++i) {
      const double weight = std::exp(Logit(scores[i]) - Logit(max));
      all += weight;
      if (i < plan.sink || i + plan.window >= end) held += weight;
    }
    for (size_t rank = 0; rank < middle.size(); ++rank) {
      const uint64_t i = middle[rank];
      chosen[i] = plan.Is("topk")   ? static_cast<double>(rank) < plan.Get("k")
                  : plan.Is("dipr") ? scores[i] >= max - Beta(plan)
                  : plan.Is("mass") ? held < (plan.Get("p") + slack) * all
                                    : false;
      held += std::exp(Logit(scores[i]) - Logit(max));
    }
    return chosen;
  }

  double Beta(const planner::LayerPlan& plan) const {
    return plan.Given("beta") ? plan.Get("beta") : -std::log(plan.Get("alpha")) / Scale();
  }

  std::vector<double> Reference(const planner::LayerPlan& plan, uint64_t row, uint32_t head,
                                double* lse, double slack = 0) const {
    const uint64_t end = num_tokens_ - num_rows_ + row + 1;
    std::vector<double> scores(end);
    for (uint64_t i = 0; i < end; ++i) scores[i] = Score(row, head, i);
    const std::vector<bool> chosen = Chosen(plan, row, head, scores, slack);
    double max = Denominator(head);
    const auto logit = [&](uint64_t i) { return Logit(scores[i]); };
    for (uint64_t i = 0; i < end; ++i) {
      if (chosen[i]) max = std::max(max, logit(i));
    }
    std::vector<double> out(shape_.v_head_dim);
    double sum = shape_.denominators ? std::exp(Denominator(head) - max) : 0;
    const uint64_t kv_head = head / (shape_.q_heads / shape_.kv_heads);
    for (uint64_t i = 0; i < end; ++i) {
      if (!chosen[i]) continue;
      const double weight = std::exp(logit(i) - max);
      sum += weight;
      for (uint32_t d = 0; d < shape_.v_head_dim; ++d) {
        out[d] += weight * v_values_[(kv_head * num_tokens_ + i) * shape_.v_head_dim + d];
      }
    }
    for (double& x : out) x /= sum;
    *lse = max + std::log(sum);
    return out;
  }

  const Shape shape_;
  const DType dtype_;
  const std::vector<uint64_t> run_lengths_;
  const uint64_t num_rows_;
  uint64_t num_tokens_ = 0;
  std::vector<float> q_;
  std::vector<float> k_values_;  // [kv_heads][num_tokens][head_dim], as stored.
  std::vector<float> v_values_;
  std::vector<AlignedBuffer> k_;
  std::vector<AlignedBuffer> v_;
  std::vector<storage::KvRows> runs_;
  std::vector<index::KeyPlanes> planes_;
  std::vector<const index::KeyEstimates*> estimates_;
  std::vector<index::ValuePlanes> coded_;
  std::vector<index::ValueMeans> averaged_;
  std::vector<const kernels::ValuePlanesView*> values_;
  std::vector<const kernels::ValueMeansView*> means_;
  std::vector<uint8_t> non_finite_;
  std::unique_ptr<const index::CriticalSearch> search_;
  std::vector<planner::DrawBudget> draws_;
  std::vector<float> out_;
  std::vector<float> lse_;
  std::vector<HeadBound> bounds_;  // Of the last call, if its plan has some.
};

const planner::PlanRegistry& Registry() {
  static const planner::PlanRegistry registry = internal::BuiltinPlans();
  return registry;
}

planner::LayerPlan PlanOf(std::string_view text) {
  return planner::Plan::Parse(text, Registry())->ForLayer(0);
}

constexpr std::string_view kPlans[] = {"full",
                                       "window(sink=4,window=30)",
                                       "topk(k=20,sink=4,window=16)",
                                       "topk(k=5000)",
                                       "dipr(alpha=0.05,sink=3,window=9)",
                                       "dipr(beta=0,sink=0,window=1)",
                                       "mass(p=0.8,sink=2,window=5)"};
constexpr std::string_view kDraw = "auto(error=0.05,sink=2,window=5)";

// The parameter is the number of rows.
class RowsLayerAttentionTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(RowsLayerAttentionTest, EveryPlanMatchesFloat64OverAnyCut) {
  const Shape shapes[] = {{},
                          {.q_heads = 3, .kv_heads = 3, .head_dim = 64, .v_head_dim = 48},
                          {.q_heads = 8, .kv_heads = 1, .soft_cap = 5.0f},
                          {.layout = RopeLayout::kInterleaved},
                          {.sliding_window = 37},
                          {.denominators = true},
                          {.q_heads = 8, .sliding_window = 37, .denominators = true},
                          {.q_heads = 4, .kv_heads = 1, .soft_cap = 5.0f, .denominators = true}};
  const auto num_rows = GetParam();
  for (uint32_t number = 0; number < std::size(shapes); ++number) {
    // A short run takes one seed for each shape and number of rows, a long one three, which are the
    // three types. A case is the same in both.
    for (uint32_t seed = 0; seed < test::Sized(1, 3); ++seed) {
      const auto dtype = static_cast<DType>((number + num_rows + seed) % 3);
      SCOPED_TRACE("shape " + std::to_string(number) + ", seed " + std::to_string(seed));
      std::seed_seq seeds = {number, num_rows, seed};
      std::mt19937 random(seeds);
      std::vector<uint64_t> runs = {num_rows + random() % 70};
      for (auto n = random() % 3; n > 0; --n) runs.push_back(1 + random() % 700);
      Layer layer(shapes[number], dtype, runs, num_rows, static_cast<uint32_t>(random()));
      for (const std::string_view text : kPlans) {
        const auto num_parts = static_cast<uint32_t>(1 + random() % 4);
        layer.Run(PlanOf(text), num_parts);
        layer.ExpectExact(PlanOf(text), 1e-4);
        if (HasFatalFailure()) return;
      }
      // So small an error that all is drawn, or read.
      layer.Run(PlanOf("auto(error=1e-6,sink=2,window=5)"), /*num_parts=*/3);
      layer.ExpectExact(PlanOf("full"), 1e-4);
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, RowsLayerAttentionTest, ::testing::Values(1u, 3u, 64u, 65u, 200u));

class LayerAttentionTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(LayerAttentionTest, ResultsAreBitIdenticalForEqualParts) {
  std::vector<std::string_view> texts(std::begin(kPlans), std::end(kPlans));
  texts.push_back(kDraw);
  for (const bool denominators : {false, true}) {
    Layer layer({.denominators = denominators}, DType::kFloat16, {900, 64, 333}, 2, GetParam());
    for (const std::string_view text : texts) {
      for (const uint32_t parts : {1u, 2u, 3u}) {
        layer.Run(PlanOf(text), parts);
        const std::vector<float> first = layer.out();
        layer.Run(PlanOf(text), parts, /*threads=*/true);
        EXPECT_EQ(first, layer.out()) << text << " " << parts;
      }
    }
  }
}

TEST_P(LayerAttentionTest, HeadsWithNonFiniteValuesRunFull) {
  Layer layer({}, DType::kFloat32, {400}, 1, GetParam());
  layer.non_finite()[0] = 1;
  layer.Run(PlanOf("full"), 1);
  const std::vector<float> full = layer.out();
  const CallCost cost = layer.Run(PlanOf("topk(k=1,sink=0,window=1)"), 2);
  const size_t head_0 = full.size() / 2;
  for (size_t i = 0; i < head_0; ++i) EXPECT_NEAR(layer.out()[i], full[i], 1e-6);
  EXPECT_EQ(cost.num_queries, 3u);  // The q heads of the other kv head.
  EXPECT_EQ(cost.num_selected, 3u);
}

TEST_P(LayerAttentionTest, CostCountsWhatWasRead) {
  Layer layer({}, DType::kFloat16, {1000}, 1, GetParam());
  const uint64_t row_bytes = 32 * 2;
  EXPECT_EQ(layer.Run(PlanOf("full"), 2).bytes_touched, 2 * 1000 * 2 * row_bytes);
  const CallCost top = layer.Run(PlanOf("topk(k=10,sink=4,window=6)"), 2);
  EXPECT_EQ(top.bytes_touched, 2 * 1000 * row_bytes + 6 * 20 * row_bytes);
  EXPECT_EQ(top.num_selected, 60u);
}

TEST_P(LayerAttentionTest, ARemainderNoLargerThanItsSampleIsAttendedToWhole) {
  const Shape shapes[] = {{}, {.soft_cap = 4.0f}, {.denominators = true}};
  for (const Shape& shape : shapes) {
    Layer layer(shape, DType::kBFloat16, {500, 200, 30}, 2, GetParam());
    layer.BuildPlanes();
    for (const char* bits : {"exact", "4", "8"}) {
      for (const char* query : {"topk(k=9", "dipr(alpha=0.3", "mass(p=0.5"}) {
        const std::string text =
            std::string(query) + ",bits=" + bits + ",remainder=sample:730,sink=2,window=3)";
        layer.Run(PlanOf(text), 2);
        layer.ExpectExact(PlanOf("full"), 1e-4);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(LayerAttentionTest, SamplingTheRemainderIsBetterThanDroppingIt) {
  for (const bool denominators : {false, true}) {
    Layer layer({.v_is_k = true, .denominators = denominators}, DType::kFloat16, {3000, 1000, 40},
                4, GetParam());
    layer.BuildPlanes();
    for (const char* bits : {"exact", "8", "4"}) {
      const std::string query = std::string("topk(k=200,bits=") + bits;
      layer.Run(PlanOf(query + ")"), 1);
      const double dropped = layer.MeanErrorOfFull();
      layer.Run(PlanOf(query + ",remainder=sample:200)"), 1);
      EXPECT_LT(layer.MeanErrorOfFull(), 0.5 * dropped) << bits;
    }
  }
}

TEST_P(LayerAttentionTest, MeansStandForTheRemainder) {
  for (const bool denominators : {false, true}) {
    Layer layer({.v_is_k = true, .denominators = denominators}, DType::kFloat16, {3000, 1000, 40},
                4, GetParam());
    layer.BuildPlanes();
    layer.BuildValues();
    for (const char* bits : {"exact", "8", "4"}) {
      const std::string query = std::string("topk(k=200,bits=") + bits;
      layer.Run(PlanOf(query + ")"), 1);
      const double dropped = layer.MeanErrorOfFull();
      layer.Run(PlanOf(query + ",remainder=mean)"), 2);
      EXPECT_LT(layer.MeanErrorOfFull(), dropped) << bits;
      const std::vector<float> first = layer.out();
      layer.Run(PlanOf(query + ",remainder=mean)"), 2, /*threads=*/true);
      EXPECT_EQ(first, layer.out());
    }
  }
}

TEST_P(LayerAttentionTest, WithoutValuePlanesTheRemainderIsReadFromV) {
  Layer layer({}, DType::kBFloat16, {500, 200, 30}, 2, GetParam());
  layer.Run(PlanOf("topk(k=9,sink=2,window=3,remainder=mean)"), 2);
  layer.ExpectExact(PlanOf("full"), 1e-4);
}

TEST_P(LayerAttentionTest, LightRowsOfADrawMayBeCodes) {
  Layer layer({.v_is_k = true}, DType::kFloat16, {3000, 3000, 40}, 4, GetParam());
  layer.BuildPlanes();
  layer.BuildValues();
  const CallCost exact = layer.Run(PlanOf("auto(error=0.02,value_bits=exact)"), 1);
  const double error = layer.MeanErrorOfFull();
  const CallCost coded = layer.Run(PlanOf("auto(error=0.02,value_bits=8)"), 1);
  EXPECT_LT(coded.bytes_touched, exact.bytes_touched);
  EXPECT_NEAR(layer.MeanErrorOfFull(), error, 0.05 * error);
}

TEST_P(LayerAttentionTest, AutoKeepsItsError) {
  for (const bool denominators : {false, true}) {
    Layer layer({.v_is_k = true, .denominators = denominators}, DType::kFloat16, {3000, 3000, 40},
                4, GetParam());
    layer.BuildPlanes();
    double last = 1;
    for (const char* error : {"0.1", "0.03", "0.01"}) {
      layer.Run(PlanOf(std::string("auto(error=") + error + ")"), 1);
      EXPECT_LT(layer.MeanErrorOfFull(), 1.2 * std::strtod(error, nullptr)) << error;
      EXPECT_LE(layer.MeanErrorOfFull(), last) << error;
      last = layer.MeanErrorOfFull();
    }
  }
}

TEST_P(LayerAttentionTest, RangesOfAUnitDrawWhatOneRangeDraws) {
  Layer layer({.v_is_k = true}, DType::kFloat16, {3000, 3000, 40}, 1, GetParam());
  for (const bool planes : {false, true}) {
    if (planes) layer.BuildPlanes();
    const CallCost one = layer.Run(PlanOf("auto(error=0.05)"), 1);
    const std::vector<float> out = layer.out();
    const CallCost ranges = layer.Run(PlanOf("auto(error=0.05)"), 3);
    EXPECT_EQ(ranges.bytes_touched, one.bytes_touched);
    EXPECT_EQ(ranges.num_selected, one.num_selected);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(layer.out()[i], out[i], 1e-5) << i;
  }
}

TEST_P(LayerAttentionTest, PlanesFindWhatExactScoresFind) {
  Layer layer({.head_dim = 64, .v_head_dim = 64}, DType::kFloat16, {900, 700, 100}, 2, GetParam());
  layer.BuildPlanes();
  const std::string_view plans[] = {"topk(k=100)", "dipr(alpha=0.05)", "mass(p=0.9)"};
  for (const std::string_view text : plans) {
    const double exact = (layer.Run(PlanOf(text), 1), layer.MeanErrorOfFull());
    for (const uint32_t bits : {8u, 4u}) {
      planner::LayerPlan plan = PlanOf(text);
      plan.bits = bits;
      const CallCost cost = layer.Run(plan, 2);
      EXPECT_NEAR(layer.MeanErrorOfFull(), exact, bits == 8 ? 0.01 : 0.05) << plan.ToString();
      EXPECT_GE(cost.num_candidates, cost.num_selected / 2);
      const std::vector<float> first = layer.out();
      layer.Run(plan, 2, /*threads=*/true);
      EXPECT_EQ(first, layer.out()) << plan.ToString();
    }
  }
}

TEST_P(LayerAttentionTest, BoundsHoldAndChangeNothingUnlessTheyAreExceeded) {
  const Shape shapes[] = {{}, {.soft_cap = 4.0f}, {.denominators = true}};
  for (const Shape& shape : shapes) {
    Layer layer(shape, DType::kFloat16, {700, 333, 50}, 3, GetParam());
    layer.BuildPlanes();
    for (const char* query : {"topk(k=50", "dipr(alpha=0.05", "mass(p=0.8"}) {
      for (const char* bits : {"exact", "8", "4"}) {
        const std::string text = std::string(query) + ",bits=" + bits;
        layer.Run(PlanOf(text + ")"), 2);
        const std::vector<float> without = layer.out();
        EXPECT_TRUE(layer.bounds().empty());
        CallCost cost = layer.Run(PlanOf(text + ",exact_fallback=1)"), 2);
        layer.ExpectBoundsHold(text.c_str());
        layer.BuildValues();
        cost = layer.Run(PlanOf(text + ",exact_fallback=1)"), 2);
        EXPECT_EQ(layer.out(), without) << text;
        EXPECT_EQ(cost.num_fallbacks, 0u);
        EXPECT_EQ(cost.num_bounds, 18u);
        layer.ExpectBoundsHold(text.c_str());
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(LayerAttentionTest, ADenominatorMakesBoundsSmaller) {
  const char* const plan = "topk(k=50,bits=8,exact_fallback=1)";
  Layer without({}, DType::kFloat16, {700, 333, 50}, 1, GetParam());
  Layer with({.denominators = true}, DType::kFloat16, {700, 333, 50}, 1, GetParam());
  without.BuildPlanes();
  with.BuildPlanes();
  without.Run(PlanOf(plan), 1);
  with.Run(PlanOf(plan), 1);
  for (uint32_t head = 0; head < 6; ++head) {
    EXPECT_LT(with.bounds()[head].mass, without.bounds()[head].mass) << head;
    EXPECT_LT(with.bounds()[head].out, without.bounds()[head].out) << head;
  }
  EXPECT_LT(with.bounds()[5].mass, 0.5f * without.bounds()[5].mass);  // Of more than all tokens.
}

TEST_P(LayerAttentionTest, RowsWhoseBoundIsExceededAttendToAllTokens) {
  Layer layer({}, DType::kBFloat16, {400, 65, 30}, 2, GetParam());
  layer.BuildPlanes();
  for (const char* query : {"topk(k=9", "dipr(alpha=0.3", "mass(p=0.5,bits=8", "topk(k=9,bits=4"}) {
    const std::string text = query;
    const CallCost cost = layer.Run(PlanOf(text + ",exact_fallback=1e-6)"), 2);
    EXPECT_EQ(cost.num_fallbacks, 12u) << text;
    EXPECT_EQ(cost.mass_bound_sum, 0) << text;
    layer.ExpectExact(PlanOf("full"), 1e-4);
    if (HasFatalFailure()) return;
    // Some do, some don't, and no bound is larger than what is tolerated.
    layer.Run(PlanOf(text + ",exact_fallback=1)"), 2);
    std::vector<float> bounds;
    for (const HeadBound& bound : layer.bounds()) bounds.push_back(bound.mass);
    std::nth_element(bounds.begin(), bounds.begin() + 6, bounds.end());
    planner::LayerPlan plan = PlanOf(text + ")");
    plan.exact_fallback = bounds[6];
    EXPECT_EQ(layer.Run(plan, 1).num_fallbacks, 5u) << plan.ToString();
    layer.ExpectBoundsHold(text.c_str());
    if (HasFatalFailure()) return;
  }
}

TEST_P(LayerAttentionTest, NothingLeftOutIsABoundOfNothing) {
  Layer layer({}, DType::kFloat16, {300, 20}, 1, GetParam());
  layer.BuildPlanes();
  const CallCost cost = layer.Run(PlanOf("topk(k=5000,bits=4,exact_fallback=1e-9)"), 1);
  EXPECT_EQ(cost.num_fallbacks, 0u);
  EXPECT_EQ(cost.mass_bound_sum, 0);
  EXPECT_EQ(cost.out_bound_sum, 0);
}

TEST_P(LayerAttentionTest, CostOfPlanesIsWhatTheyHold) {
  Layer layer({}, DType::kFloat16, {5000, 100}, 1, GetParam());
  layer.BuildPlanes();
  const CallCost cost = layer.Run(PlanOf("topk(k=10,bits=4,sink=4,window=6)"), 2);
  const uint64_t row_bytes = 32 * 2;
  const uint64_t planes = 2 * (5000 - 4) * (32 / 2 + 2 + 32 * 2 / 64);  // Codes, scale, means.
  const uint64_t exact_keys = 2 * (4 + 100) * row_bytes + cost.num_candidates * row_bytes;
  EXPECT_EQ(cost.bytes_touched, planes + exact_keys + 6 * 20 * row_bytes);
}

INSTANTIATE_TEST_SUITE_P(Seeds, LayerAttentionTest, ::testing::Values(1u, 2u, 3u));

}  // namespace
}  // namespace attndb::attention
