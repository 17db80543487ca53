// Random K, V and q of one layer, and a float64 reference of attention over them by each plan.
#ifndef ATTNDB_ATTENTION_LAYER_TEST_UTIL_H_
#define ATTNDB_ATTENTION_LAYER_TEST_UTIL_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "attention/call_runner.h"
#include "attention/registry.h"
#include "common/aligned_buffer.h"
#include "common/rope_frequencies.h"
#include "common/turn.h"
#include "index/clustered/clustered_keys.h"
#include "index/graph/graph_index.h"
#include "index/planes/key_planes.h"
#include "index/planes/value_planes.h"
#include "index/pq/pq_index.h"
#include "index/prefill/prefill_ranking.h"
#include "kernels/convert.h"
#include "planner/builtin_plans.h"
#include "storage/kv/chain_rows.h"
#include "testing/copied_rows.h"

namespace attndb::attention {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

struct Shape {
  uint32_t q_heads = 6;
  uint32_t kv_heads = 2;
  uint32_t head_dim = 32;
  uint32_t v_head_dim = 32;
  uint32_t sliding_window = 0;
  float soft_cap = 0.0f;
  RopeLayout layout = RopeLayout::kHalf;
  // Values are the keys, so that they correlate with the scores, like those of real heads.
  bool v_is_k = false;
  bool topics = false;  // Keys and values lie around a few topics, like those of real heads.
  // [q head]: denominators that hold from little to nearly all of the mass.
  bool denominators = false;
  float key_tail = 0.0f;      // Keys have log-normal sizes of this deviation.
  bool has_long_key = false;  // The third key of each run is 3,000 times as long.
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
    search_ = Registry().MakeSearch(plan, call.spec);
    call.search = search_.get();
    // The last draw may be off by twice the tolerated error.
    draws_.assign(call.spec.num_kv_heads, {.first_rows = 100,
                                           .tolerated_error = plan.error / 2,
                                           .trade = 15 * std::pow(plan.error, 3),
                                           .max_spread = plan.error});
    call.draws = draws_;
    const storage::LayerShape rows = {shape_.kv_heads, shape_.head_dim, shape_.v_head_dim};
    in_memory_.Reset(rows, dtype_);
    for (size_t run = 0; run < run_lengths_.size(); ++run) {
      std::vector<storage::KvRows> heads;
      for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
        heads.push_back(runs_[head * run_lengths_.size() + run]);
      }
      in_memory_.AddRun(heads);
    }
    copied_.Reset(&in_memory_);
    call.rows = copies_rows_ ? static_cast<const storage::RowSource*>(&copied_) : &in_memory_;
    parts_.clear();
    for (const uint64_t n : run_lengths_) {
      parts_.push_back({static_cast<uint32_t>(parts_.size()), 0, n});
    }
    for (const auto& [run, turn] : moved_) parts_[run].turn = turn;
    call.parts = parts_;
    call.turns = turns_;
    if (plan.Finds()) call.find = Registry().MakeSpec(plan, call.spec, {.num_tokens = num_tokens_});
    call.estimates = estimates_;
    if (plan.UsesIndex()) {
      call.indexes = plan.index->name == "graph" ? graphs_
                     : plan.index->name == "pq"  ? codes_
                                                 : clusters_;
    }
    call.values = values_;
    call.means = means_;
    call.rankings = rankings_;
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

  // From now on a source that copies and counts rows reads them.
  void CopyRows() { copies_rows_ = true; }
  const test::CopiedRows& copied() const { return copied_; }

  // Builds key planes for every run but the last.
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

  // Builds clusters and a graph for every run but the last.
  void BuildIndexes() {
    const size_t padded = kernels::RowElements(shape_.head_dim);
    for (size_t i = 0; i < runs_.size(); ++i) {
      clusters_.push_back(nullptr);
      graphs_.push_back(nullptr);
      if (i % run_lengths_.size() + 1 == run_lengths_.size()) continue;
      const kernels::RowsView keys = {runs_[i].k, padded, padded, dtype_};
      clustered_.push_back(std::make_unique<index::ClusteredKeys>(*index::ClusteredKeys::Build(
          index::PlaneSource{.keys = keys, .num_keys = runs_[i].num_tokens})));
      graph_.push_back(std::make_unique<index::GraphIndex>(*index::GraphIndex::Build(
          index::GraphSource{.keys = keys, .num_keys = runs_[i].num_tokens})));
      clusters_.back() = clustered_.back().get();
      graphs_.back() = graph_.back().get();
    }
  }

  // Builds product codes for every run but the last.
  void BuildCodes() {
    const size_t padded = kernels::RowElements(shape_.head_dim);
    for (size_t i = 0; i < runs_.size(); ++i) {
      codes_.push_back(nullptr);
      if (i % run_lengths_.size() + 1 == run_lengths_.size()) continue;
      index::PqSource source;
      source.keys = {runs_[i].k, padded, padded, dtype_};
      source.num_keys = runs_[i].num_tokens;
      pq_.push_back(std::make_unique<index::PqIndex>(*index::PqKeys::Build(source, {})));
      codes_.back() = pq_.back().get();
    }
  }
  // Builds rankings, by a few random queries, for every run but the last.
  void BuildRankings() {
    constexpr uint32_t kQueries = 5;
    const size_t padded = kernels::RowElements(shape_.head_dim);
    std::mt19937 random(17);
    for (size_t i = 0; i < runs_.size(); ++i) {
      rankings_.push_back(nullptr);
      if (i % run_lengths_.size() + 1 == run_lengths_.size()) continue;
      std::vector<float> values;
      const AlignedBuffer q = Store(kQueries, shape_.head_dim, &random, &values);
      const std::vector<uint32_t> tokens(kQueries, static_cast<uint32_t>(runs_[i].num_tokens - 1));
      const std::vector<uint32_t> heads(kQueries, 0);
      ranked_.push_back(std::make_unique<index::PrefillRanking>(
          *index::PrefillRanking::Build({.keys = {runs_[i].k, padded, padded, dtype_},
                                         .num_keys = runs_[i].num_tokens,
                                         .queries = {q.data(), tokens, heads},
                                         .logit = {Scale(), 0}})));
      rankings_.back() = &ranked_.back()->ranking();
    }
  }
  // Moves the tokens of a run `positions` beyond their keys' positions: calls rotate q for them,
  // and the reference rotates their keys. Forgets the run's derived objects. REQUIRES: layout
  // kHalf.
  void MoveRun(size_t run, int64_t positions) {
    const std::vector<double> frequencies =
        *RopeFrequencies({.layout = RopeLayout::kHalf}, shape_.head_dim);
    turns_.emplace_back(frequencies, -positions);
    moved_.emplace_back(run, turns_.size());
    uint64_t first = 0;
    for (size_t i = 0; i < run; ++i) first += run_lengths_[i];
    for (uint32_t head = 0; head < shape_.kv_heads; ++head) {
      for (uint64_t token = first; token < first + run_lengths_[run]; ++token) {
        float* const key = &k_values_[(head * num_tokens_ + token) * shape_.head_dim];
        for (size_t i = 0; i < frequencies.size(); ++i) {
          const double angle = frequencies[i] * static_cast<double>(positions);
          const double a = key[i];
          const double b = key[i + frequencies.size()];
          key[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
          key[i + frequencies.size()] =
              static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
        }
      }
    }
    ForgetRun(run, &estimates_);
    ForgetRun(run, &clusters_);
    ForgetRun(run, &graphs_);
    ForgetRun(run, &codes_);
    ForgetRun(run, &values_);
    ForgetRun(run, &means_);
    ForgetRun(run, &rankings_);
  }
  void ForgetCodesOfHead(uint32_t head) {
    const size_t num_runs = run_lengths_.size();
    for (size_t run = 0; run < num_runs; ++run) codes_[head * num_runs + run] = nullptr;
  }
  void ForgetCodesOfRun(size_t run) { ForgetRun(run, &codes_); }

  // Fills the scratch that later calls use with a byte.
  void FillScratch(std::byte byte) {
    constexpr size_t kBytes = size_t{4} << 20;
    const ScratchLease scratch = *pool_.Lease(kBytes);
    std::fill_n(scratch.data(), scratch.size(), byte);
  }

  // Sets the first element of the first q head's row to NaN.
  void PoisonQuery() { q_[0] = std::nanf(""); }

  // Builds value planes and means for every run but the last.
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
    return RunCall(Call(plan, num_parts), threads);
  }

  // The status of each part of a call, run one after another.
  std::vector<Status> RunParts(const LayerCall& call) {
    CallRunner runner(Registry().MakeOperators(), &pool_);
    OperatorChoice choice;
    Registry().Choose(call, &choice);
    EXPECT_TRUE(runner.Begin(call, choice).ok());
    std::vector<Status> statuses;
    for (uint32_t p = 0; p < call.num_parts; ++p) statuses.push_back(runner.RunPart(p));
    runner.End();
    return statuses;
  }

  // The tokens that the plan selects, by q head.
  std::vector<CriticalTokens> Search(const planner::LayerPlan& plan, uint32_t num_parts) {
    std::vector<CriticalTokens> found(shape_.q_heads);
    LayerCall call = Call(plan, num_parts);
    call.found = found.data();
    RunCall(call, /*threads=*/false);
    return found;
  }

  // Expects the `count` best tokens of the range, in order, with their scores.
  void ExpectBest(const CriticalTokens& found, uint32_t head, TokenRange range,
                  size_t count) const {
    std::vector<std::pair<double, uint32_t>> best;
    for (uint64_t token = range.begin; token < range.end; ++token) {
      best.emplace_back(-Score(0, head, token), static_cast<uint32_t>(token));
    }
    std::ranges::sort(best);
    best.resize(count);
    std::ranges::sort(best, {}, [](const auto& entry) { return entry.second; });
    ASSERT_EQ(found.tokens.size(), count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(found.tokens[i], best[i].second) << head;
      EXPECT_NEAR(double{found.scores[i]}, -best[i].first, 1e-4) << head;
    }
  }

  // Runs a call that Call described.
  CallCost RunCall(const LayerCall& call, bool threads) {
    CallRunner runner(Registry().MakeOperators(), &pool_);
    const uint32_t num_parts = call.num_parts;
    OperatorChoice choice;
    Registry().Choose(call, &choice);
    EXPECT_TRUE(runner.Begin(call, choice).ok());
    if (threads) {
      std::vector<std::thread> workers;
      for (uint32_t p = 0; p < num_parts; ++p) {
        workers.emplace_back([&runner, p] { EXPECT_TRUE(runner.RunPart(p).ok()); });
      }
      for (std::thread& worker : workers) worker.join();
    } else {
      for (uint32_t p = num_parts; p-- > 0;) EXPECT_TRUE(runner.RunPart(p).ok());
    }
    runner.End();
    bounds_.assign(runner.bounds().begin(), runner.bounds().end());
    return runner.cost();
  }

  // Expects that the share of the mass that the last call left out, and the error of its output,
  // are at most their bounds.
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
        EXPECT_LE(double{bounds_[i].out}, double{bounds_[i].mass} * 30);  // Norms of V are 5.7.
      }
    }
  }

  // Expects relative errors (norm) of all rows, and errors of lse, within `tolerance` of float64.
  // If the plan's mass is reached within rounding, one token more or less is right, too.
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

  // The share of all mass, the denominator's among it, that the last call attended to.
  double HeldShare(uint64_t row, uint32_t head) const {
    double whole = 0;
    Reference({}, row, head, &whole);
    return std::exp(double{lse_[row * shape_.q_heads + head]} - whole);
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
  template <typename Object>
  void ForgetRun(size_t run, std::vector<const Object*>* objects) {
    for (size_t i = run; i < objects->size(); i += run_lengths_.size()) (*objects)[i] = nullptr;
  }
  int64_t Rows() const { return static_cast<int64_t>(num_rows_); }

  // n random rows, rounded to the stored type, appended to `values` as stored.
  AlignedBuffer Store(uint64_t n, uint32_t dim, std::mt19937* random, std::vector<float>* values) {
    std::normal_distribution<float> normal;
    std::vector<float> rows(n * dim);
    for (float& x : rows) x = normal(*random);
    if (shape_.topics) MoveToTopics(dim, random, &rows);
    if (values == &k_values_) StretchKeys(dim, random, &rows);
    const size_t padded = kernels::RowElements(dim);
    AlignedBuffer stored = *AlignedBuffer::Allocate(n * padded * DTypeBytes(dtype_) + 64);
    kernels::ConvertRows(DType::kFloat32, rows.data(), dim, dtype_, stored.data(), padded, n, dim,
                         padded);
    kernels::ConvertRows(dtype_, stored.data(), padded, DType::kFloat32, rows.data(), dim, n, dim,
                         dim);
    values->insert(values->end(), rows.begin(), rows.end());
    return stored;
  }

  void StretchKeys(uint32_t dim, std::mt19937* random, std::vector<float>* rows) const {
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < rows->size(); i += dim) {
      float size = shape_.key_tail == 0 ? 1.0f : std::exp(shape_.key_tail * normal(*random));
      if (shape_.has_long_key && i == 2 * size_t{dim}) size = 3000;
      for (uint32_t d = 0; d < dim; ++d) (*rows)[i + d] *= size;
    }
  }

  // Moves rows close to one of a few topics, so that few bits tell them apart.
  static void MoveToTopics(uint32_t dim, std::mt19937* random, std::vector<float>* rows) {
    constexpr size_t kTopics = 200;
    std::normal_distribution<float> normal;
    std::vector<float> topics(kTopics * dim);
    for (float& x : topics) x = 0.9f * normal(*random);
    for (size_t i = 0; i < rows->size(); i += dim) {
      const float* const topic = &topics[(*random)() % kTopics * dim];
      for (uint32_t d = 0; d < dim; ++d) (*rows)[i + d] = 0.35f * (*rows)[i + d] + topic[d];
    }
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

  // The tokens' lse is about 8.
  double Denominator(uint32_t head) const {
    return shape_.denominators ? 1 + 9.0 * (head + 1) / shape_.q_heads : -kInf;
  }

  double Logit(double score) const {
    const double x = score * Scale();
    return shape_.soft_cap == 0 ? x : shape_.soft_cap * std::tanh(x / shape_.soft_cap);
  }

  struct Difference {
    double out = 0;   // Norm of the output's error over `norm`.
    double norm = 0;  // Norm of the expected output.
    double lse = 0;
  };

  // Difference of a row of the last call from float64 attention over the plan's tokens.
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

  // The static tokens of a row for a kv head: runs share them by their tokens of the middle.
  std::vector<bool> Static(const planner::LayerPlan& plan, uint64_t end, uint64_t kv_head) const {
    std::vector<bool> statics(end);
    const auto in_middle = [&](uint64_t i) { return i >= plan.sink && i + plan.window < end; };
    std::vector<uint64_t> counts;  // [run]: tokens of the middle in it and in earlier runs.
    uint64_t sum = 0;
    uint64_t first = 0;
    for (size_t run = 0; run < run_lengths_.size() && !rankings_.empty(); ++run) {
      const bool has = rankings_[kv_head * run_lengths_.size() + run] != nullptr;
      for (uint64_t i = 0; i < run_lengths_[run]; ++i) sum += has && in_middle(first + i) ? 1u : 0u;
      counts.push_back(sum);
      first += run_lengths_[run];
    }
    first = 0;
    for (size_t run = 0; run < counts.size() && plan.num_static > 0; ++run) {
      const uint64_t before = run == 0 ? 0 : counts[run - 1];
      uint64_t share = counts[run] == before
                           ? 0
                           : plan.num_static * counts[run] / sum - plan.num_static * before / sum;
      const auto* const ranking = rankings_[kv_head * run_lengths_.size() + run];
      for (size_t i = 0; share > 0 && i < ranking->rows.size(); ++i) {
        const uint64_t token = first + ranking->rows[i];
        if (!in_middle(token)) continue;
        statics[token] = true;
        --share;
      }
      first += run_lengths_[run];
    }
    return statics;
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
    const std::vector<bool> statics = Static(plan, end, head / (shape_.q_heads / shape_.kv_heads));
    std::vector<uint64_t> middle;
    for (uint64_t i = plan.sink; i + plan.window < end; ++i) {
      if (!statics[i]) middle.push_back(i);
    }
    std::stable_sort(middle.begin(), middle.end(),
                     [&](uint64_t a, uint64_t b) { return scores[a] > scores[b]; });
    double all = std::exp(Denominator(head) - Logit(max));
    double held = all;
    for (uint64_t i = 0; i < end; ++i) {
      const double weight = std::exp(Logit(scores[i]) - Logit(max));
      all += weight;
      if (i < plan.sink || i + plan.window >= end || statics[i]) held += weight;
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
  std::vector<RunPart> parts_;
  std::vector<Turn> turns_;
  std::vector<std::pair<size_t, uint32_t>> moved_;  // Runs, with their turns.
  const uint64_t num_rows_;
  uint64_t num_tokens_ = 0;
  std::vector<float> q_;
  std::vector<float> k_values_;  // [kv_heads][num_tokens][head_dim], as stored.
  std::vector<float> v_values_;
  std::vector<AlignedBuffer> k_;
  std::vector<AlignedBuffer> v_;
  std::vector<storage::KvRows> runs_;
  storage::ChainRows in_memory_;
  test::CopiedRows copied_;
  bool copies_rows_ = false;
  std::vector<index::KeyPlanes> planes_;
  std::vector<const index::KeyEstimates*> estimates_;
  std::vector<std::unique_ptr<index::ClusteredKeys>> clustered_;
  std::vector<std::unique_ptr<index::GraphIndex>> graph_;
  std::vector<std::unique_ptr<index::PqIndex>> pq_;
  std::vector<const index::KeyIndex*> codes_;
  std::vector<const index::KeyIndex*> clusters_;
  std::vector<const index::KeyIndex*> graphs_;
  std::vector<index::ValuePlanes> coded_;
  std::vector<index::ValueMeans> averaged_;
  std::vector<const kernels::ValuePlanesView*> values_;
  std::vector<const kernels::ValueMeansView*> means_;
  std::vector<std::unique_ptr<index::PrefillRanking>> ranked_;
  std::vector<const index::TokenRanking*> rankings_;
  std::vector<uint8_t> non_finite_;
  std::unique_ptr<const index::CriticalSearch> search_;
  std::vector<planner::DrawBudget> draws_;
  std::vector<float> out_;
  std::vector<float> lse_;
  std::vector<HeadBound> bounds_;  // Bounds of the last call, if its plan has some.
  storage::MemoryBudget budget_{uint64_t{1} << 32};
  ScratchPool pool_{&budget_};
};

inline const planner::PlanRegistry& Plans() {
  static const planner::PlanRegistry registry = planner::BuiltinPlans();
  return registry;
}

inline planner::LayerPlan PlanOf(std::string_view text) {
  return planner::Plan::Parse(text, Plans())->ForLayer(0);
}

}  // namespace attndb::attention

#endif  // ATTNDB_ATTENTION_LAYER_TEST_UTIL_H_
