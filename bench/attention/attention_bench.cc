#include "bench/attention/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "attndb/db.h"
#include "bench/attention/frontier.h"
#include "bench/attention/plan_session.h"
#include "bench/median.h"
#include "bench/what_ran.h"
#include "cli/common/machine.h"
#include "cli/common/temp_dir.h"

namespace attndb::bench {
namespace {

constexpr uint64_t kChunkTokens = 4096;
// Rows that attend to a window alone, so that their q is sampled at no cost.
constexpr uint64_t kSampledRows = 64;
constexpr const char* kSamplingPlan = "window(sink=1,window=1)";
// A share of the mass far above what float32 rounds in an lse.
constexpr double kLeastShare = 1e-4;

// |a - b| / |b| of one head.
double NormOf(std::span<const float> a) {
  double square = 0;
  for (const float x : a) square += double{x} * double{x};
  return std::sqrt(square);
}

double Distance(std::span<const float> a, std::span<const float> b) {
  double square = 0;
  for (size_t i = 0; i < a.size(); ++i) square += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(square);
}

double RelativeError(std::span<const float> a, std::span<const float> b) {
  const double difference = Distance(a, b);
  const double norm = NormOf(b);
  return norm == 0 ? (difference == 0 ? 0 : INFINITY) : difference / norm;
}

// The plan without its estimate of what was not selected; empty if it can't be asked for.
std::string WithoutRemainder(std::string plan) {
  if (plan.find("auto(") != std::string::npos) return "";
  for (size_t at; (at = plan.find(",remainder=")) != std::string::npos;) {
    plan.erase(at, plan.find_first_of(",)", at + 1) - at);
  }
  return plan;
}

struct AskedPlan {
  std::string plan;
  bool optional = false;
};

// One plan, its sessions and what was measured of it.
struct PlanRun {
  PlanSession session;
  std::optional<PlanSession> dropping;  // For the mass, where the plan's own lse is estimated.
  bool mass_is_known = true;
  bool is_replaced = false;  // Something else ran in the place of the plan.
  PlanResult result;
  StepOutput output;
  std::vector<double> ms, speedups;
  std::vector<double> error_sums;     // By layer and q head.
  std::vector<double> looseness;      // Each bound of the mass over the mass that was left out.
  std::vector<double> out_looseness;  // Each bound of the output over what the output is off by.
  double mass_sum = 0;
  double bytes_sum = 0;
};

class Bench {
 public:
  Bench(HeadSource* source, const AttentionBenchOptions& options)
      : source_(*source),
        info_(source->info()),
        spec_(info_.SpecOfLayers()),
        options_(options),
        num_rows_(std::min({uint64_t{options.num_rows}, info_.num_queries, info_.num_tokens - 1})),
        num_stored_(info_.num_tokens - num_rows_) {}

  Result<AttentionBenchResult> Run() {
    if (num_rows_ == 0) return Status::InvalidArgument("one token; expected two or more");
    ATTNDB_ASSIGN_OR_RETURN(const cli::TempDir dir, cli::TempDir::Create(options_.temp_dir));
    DBOptions db_options;
    db_options.num_threads = options_.num_threads;
    db_options.background_threads = 0;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(dir.path() + "/store", db_options));
    for (uint64_t i = 0; i < info_.num_tokens; ++i) tokens_.push_back(static_cast<TokenId>(i));
    ATTNDB_RETURN_IF_ERROR(CheckPlans(db));  // Before the long work.
    ATTNDB_RETURN_IF_ERROR(StoreTokens(db));
    ATTNDB_RETURN_IF_ERROR(OpenPlan(db, "full"));
    for (const AskedPlan& plan : plans_) ATTNDB_RETURN_IF_ERROR(OpenAsked(db, plan));
    ATTNDB_ASSIGN_OR_RETURN(const StepRows rows, StepRows::Read(&source_, num_rows_));
    // First calls ask for what plans read (some of them measure what full takes before), and next
    // ones find it.
    constexpr int kWarmUps = 4;
    for (int i = 0; i < kWarmUps; ++i) {
      ATTNDB_RETURN_IF_ERROR(RunStep(rows, 0));
      ATTNDB_RETURN_IF_ERROR(db.WaitForBackground());
    }
    for (PlanRun& run : runs_) ATTNDB_RETURN_IF_ERROR(run.session.ForgetRan());
    ATTNDB_RETURN_IF_ERROR(RunSteps(rows));
    return Summarize();
  }

 private:
  Status Progress(const std::string& phase, uint64_t done, uint64_t total) const {
    if (!options_.progress || options_.progress(phase, done, total)) return Status();
    return Status::Cancelled("interrupted");
  }

  // Those that can be honoured.
  Status CheckPlans(const DB& db) {
    for (const std::string& plan : options_.plans) {
      ATTNDB_RETURN_IF_ERROR(PlanOfLayers(db, plan).status());
      plans_.push_back({plan, /*optional=*/false});
    }
    for (const std::string& plan : options_.optional_plans) {
      const Status status = PlanOfLayers(db, plan).status();
      if (status.code() == StatusCode::kUnsupported) {
        result_.left_out.push_back({plan, status.message()});
        continue;
      }
      ATTNDB_RETURN_IF_ERROR(status);
      plans_.push_back({plan, /*optional=*/true});
    }
    return Status();
  }

  // A plan's layers are the model's: what it says of those that there are vectors of, as the layers
  // of a model of their own.
  Result<std::string> PlanOfLayers(const DB& db, const std::string& plan) const {
    const TokenId any = 0;
    ATTNDB_ASSIGN_OR_RETURN(
        const SessionStart start,
        db.CreateSession(info_.model, std::span(&any, 1), {.reuse = false, .plan = plan}));
    const Explain explain = start.session.Explain();
    std::string text = explain.layers[info_.layers.front()].plan;
    const std::string first = text;
    for (size_t i = 1; i < info_.layers.size(); ++i) {
      const std::string& of_layer = explain.layers[info_.layers[i]].plan;
      if (of_layer != first) text += "; layers " + std::to_string(i) + ": " + of_layer;
    }
    return text;
  }

  // A plan that lacks what it reads is refused, or left out.
  Status OpenAsked(const DB& db, const AskedPlan& asked) {
    ATTNDB_RETURN_IF_ERROR(OpenPlan(db, asked.plan));
    const std::string missing = MissingText(runs_.back().session.GetExplain());
    if (missing.empty()) return Status();
    if (!asked.optional) {
      return Status::Unsupported("plan '" + asked.plan + "' can't be measured: " + missing);
    }
    result_.left_out.push_back({asked.plan, missing});
    order_.pop_back();
    runs_.pop_back();
    return Status();
  }

  Status OpenPlan(const DB& db, const std::string& plan) {
    ATTNDB_ASSIGN_OR_RETURN(const std::string text, PlanOfLayers(db, plan));
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec_, tokens_, {.plan = text}));
    PlanRun run = {.session = PlanSession(&info_, std::move(start.session))};
    run.result.plan = plan;
    run.result.canonical = text;
    const std::string dropping = WithoutRemainder(text);
    run.mass_is_known = !dropping.empty();
    if (run.mass_is_known && dropping != text) {
      ATTNDB_ASSIGN_OR_RETURN(SessionStart other,
                              db.CreateSession(spec_, tokens_, {.plan = dropping}));
      run.dropping.emplace(&info_, std::move(other.session));
      ATTNDB_RETURN_IF_ERROR(run.dropping->AwaitDerived());
    }
    ATTNDB_RETURN_IF_ERROR(run.session.AwaitDerived());
    order_.push_back(runs_.size());
    runs_.push_back(std::move(run));
    return Status();
  }

  // With q of all tokens that there is q of, as an engine hands it over.
  Status StoreTokens(const DB& db) {
    ATTNDB_ASSIGN_OR_RETURN(MassProfiler profiler, MassProfiler::Create(&source_));
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start,
                            db.CreateSession(spec_, tokens_, {.plan = kSamplingPlan}));
    const uint64_t first_query = std::min(num_stored_, info_.num_tokens - info_.num_queries);
    for (uint64_t begin = 0, end = 0; begin < num_stored_; begin = end) {
      ATTNDB_RETURN_IF_ERROR(Progress("store", begin, num_stored_));
      const bool has_queries = begin >= first_query;
      end = has_queries ? std::min(begin + kSampledRows, num_stored_)
                        : std::min(begin + kChunkTokens, first_query);
      ATTNDB_RETURN_IF_ERROR(AppendTokens(&start.session, {begin, end}, has_queries, &profiler));
    }
    ATTNDB_RETURN_IF_ERROR(db.Store(start.session, std::span(tokens_).first(num_stored_)).status());
    ATTNDB_RETURN_IF_ERROR(AddLastKeys(&profiler));
    result_.profile = profiler.Finish();
    return Progress("store", num_stored_, num_stored_);
  }

  Status AppendTokens(Session* session, TokenRange range, bool has_queries,
                      MassProfiler* profiler) {
    const auto rows = static_cast<int64_t>(range.end - range.begin);
    std::vector<float> k;
    std::vector<float> v;
    for (size_t i = 0; i < info_.layers.size(); ++i) {
      const LayerSpec& layer = info_.layer(i);
      const int64_t heads = layer.num_kv_heads;
      k.resize(static_cast<size_t>(rows * heads) * layer.head_dim);
      v.resize(static_cast<size_t>(rows * heads) * layer.v_head_dim);
      ATTNDB_RETURN_IF_ERROR(source_.ReadKv(i, range, k.data(), v.data()));
      profiler->AddKeys(i, k);
      ATTNDB_RETURN_IF_ERROR(session->Append(
          static_cast<LayerId>(i),
          TensorView::Contiguous(k.data(), DType::kFloat32, rows, heads, layer.head_dim),
          TensorView::Contiguous(v.data(), DType::kFloat32, rows, heads, layer.v_head_dim)));
      if (has_queries) ATTNDB_RETURN_IF_ERROR(SampleQueries(session, i, range));
    }
    return Status();
  }

  // The rows that are not stored are keys too, of the newest query.
  Status AddLastKeys(MassProfiler* profiler) {
    for (size_t i = 0; i < info_.layers.size(); ++i) {
      const LayerSpec& layer = info_.layer(i);
      std::vector<float> k(num_rows_ * layer.num_kv_heads * layer.head_dim);
      std::vector<float> v(num_rows_ * layer.num_kv_heads * layer.v_head_dim);
      ATTNDB_RETURN_IF_ERROR(
          source_.ReadKv(i, {num_stored_, info_.num_tokens}, k.data(), v.data()));
      profiler->AddKeys(i, k);
    }
    return Status();
  }

  // The output is of no use.
  Status SampleQueries(Session* session, size_t i, TokenRange range) {
    const LayerSpec& layer = info_.layer(i);
    const uint64_t rows = range.end - range.begin;
    std::vector<float> q(rows * layer.num_q_heads * layer.head_dim);
    std::vector<float> out(rows * layer.num_q_heads * layer.v_head_dim);
    ATTNDB_RETURN_IF_ERROR(source_.ReadQueries(i, range, q.data()));
    const auto n = static_cast<int64_t>(rows);
    return session->Attend(
        static_cast<LayerId>(i),
        TensorView::Contiguous(q.data(), DType::kFloat32, n, layer.num_q_heads, layer.head_dim),
        MutableTensorView::Contiguous(out.data(), DType::kFloat32, n, layer.num_q_heads,
                                      layer.v_head_dim));
  }

  // All plans, in another order each time: what ran before leaves its bytes in the cache.
  Status RunStep(const StepRows& rows, uint64_t step) {
    const uint64_t row = step % num_rows_;
    for (size_t i = runs_.size(); i > 1; --i) std::swap(order_[i - 1], order_[order_seed_() % i]);
    for (const size_t i : order_) {
      PlanRun& run = runs_[i];
      if (row == 0) ATTNDB_RETURN_IF_ERROR(run.session.Rewind());
      ATTNDB_RETURN_IF_ERROR(run.session.Step(rows, row, &run.output));
    }
    return Status();
  }

  Status RunSteps(const StepRows& rows) {
    const uint64_t num_steps = num_rows_ * options_.repeat;
    for (uint64_t step = 0; step < num_steps; ++step) {
      ATTNDB_RETURN_IF_ERROR(Progress("attend", step, num_steps));
      ATTNDB_RETURN_IF_ERROR(RunStep(rows, step));
      for (PlanRun& run : runs_) AddStep(&run);
      ATTNDB_RETURN_IF_ERROR(AddMasses(rows, step % num_rows_));
    }
    result_.num_steps = static_cast<uint32_t>(num_steps);
    return Status();
  }

  // REQUIRES: all plans did the step.
  void AddStep(PlanRun* run) const {
    const StepOutput& full = runs_.front().output;
    run->ms.push_back(run->output.ms);
    run->speedups.push_back(full.ms / run->output.ms);
    run->bytes_sum += run->output.bytes_touched;
    size_t at = 0;
    for (size_t i = 0; i < info_.layers.size(); ++i) {
      if (run->error_sums.size() == at) run->error_sums.resize(at + info_.layer(i).num_q_heads);
      for (size_t head = 0; head < info_.layer(i).num_q_heads; ++head, ++at) {
        run->error_sums[at] +=
            RelativeError(OutputOf(run->output, i, head), OutputOf(full, i, head));
      }
    }
  }

  std::span<const float> OutputOf(const StepOutput& output, size_t layer, size_t head) const {
    const size_t dim = info_.layer(layer).v_head_dim;
    return std::span(output.out[layer]).subspan(head * dim, dim);
  }

  Status AddMasses(const StepRows& rows, uint64_t row) {
    const StepOutput& full = runs_.front().output;
    for (PlanRun& run : runs_) {
      if (!run.mass_is_known) continue;
      StepOutput dropped;
      if (run.dropping) {
        if (row == 0) ATTNDB_RETURN_IF_ERROR(run.dropping->Rewind());
        ATTNDB_RETURN_IF_ERROR(run.dropping->Step(rows, row, &dropped));
      }
      const StepOutput& selected = run.dropping ? dropped : run.output;
      double sum = 0;
      double count = 0;
      for (size_t i = 0; i < full.lse.size(); ++i) {
        for (size_t head = 0; head < full.lse[i].size(); ++head, ++count) {
          const double whole = full.lse[i][head];
          const double mass = std::exp(std::min(0.0, selected.lse[i][head] - whole));
          sum += mass;
          if (!run.output.mass_bounds[i].empty()) CheckBounds(i, head, 1 - mass, &run);
          if (run.dropping)
            CheckEstimate(1 - mass, std::exp(run.output.lse[i][head] - whole) - mass, &run.result);
        }
      }
      run.mass_sum += sum / count;
    }
    return Status();
  }

  // Compares the mass left out, `is`, with the plan's estimate of it.
  static void CheckEstimate(double is, double estimated, PlanResult* result) {
    if (is < kLeastShare) return;
    ++result->num_estimates;
    if (estimated >= is / 2 && estimated <= is * 2) ++result->num_within_2;
  }

  // left: share of the mass. Each lse is float32 and comes from float32 logits, some roundings of
  // its own size, by which weights and so outputs are off, too.
  void CheckBounds(size_t layer, size_t head, double left, PlanRun* run) const {
    const StepOutput& full = runs_.front().output;
    const std::span<const float> out = OutputOf(run->output, layer, head);
    const std::span<const float> expected = OutputOf(full, layer, head);
    const double off = Distance(out, expected);
    const double mass_bound = run->output.mass_bounds[layer][head];
    const double out_bound = run->output.out_bounds[layer][head];
    const double rounding = 0x1p-22 * (std::abs(double{full.lse[layer][head]}) + 8);
    ++run->result.num_bounds;
    if (left <= mass_bound + rounding) ++run->result.num_held;
    if (off <= out_bound + rounding * (NormOf(out) + NormOf(expected))) ++run->result.num_out_held;
    if (left < kLeastShare) return;
    run->looseness.push_back(mass_bound / left);
    if (off > 0) run->out_looseness.push_back(out_bound / off);
  }

  AttentionBenchResult Summarize() {
    const double num_steps = result_.num_steps;
    for (PlanRun& run : runs_) {
      PlanResult& result = run.result;
      const auto heads = static_cast<double>(run.error_sums.size());
      for (const double sum : run.error_sums) {
        result.error_mean += sum / num_steps / heads;
        result.error_worst_head = std::max(result.error_worst_head, sum / num_steps);
      }
      if (run.mass_is_known) result.mass = run.mass_sum / num_steps;
      if (!run.looseness.empty()) result.bound_looseness = Median(run.looseness);
      if (!run.out_looseness.empty()) result.out_bound_looseness = Median(run.out_looseness);
      result.selected_mean = run.session.SelectedMean();
      const Explain explain = run.session.GetExplain();
      result.ran = RanText(explain);
      result.substitutes = explain.Substitutes();
      run.is_replaced = IsReplaced(explain);
      result.bytes_touched = run.bytes_sum / num_steps;
      result.ms_median = Median(run.ms);
      for (double& ms : run.ms) ms = std::abs(ms - result.ms_median);
      result.ms_mad = Median(run.ms);
      result.speedup = Median(run.speedups);
      result_.plans.push_back(result);
    }
    MarkFrontiers();
    result_.kv_bytes = spec_.KvBytesPerToken() * info_.num_tokens;
    return std::move(result_);
  }

  // Points of a fallback are those of another plan.
  void MarkFrontiers() {
    std::vector<PlanPoint> bytes;
    std::vector<PlanPoint> times;
    std::vector<PlanResult*> plans;
    for (size_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i].is_replaced) continue;
      PlanResult& plan = result_.plans[i];
      plans.push_back(&plan);
      bytes.push_back({plan.error_mean, plan.bytes_touched});
      times.push_back({plan.error_mean, plan.ms_median});
    }
    const std::vector<bool> by_bytes = OnFrontier(bytes);
    const std::vector<bool> by_time = OnFrontier(times);
    for (size_t i = 0; i < plans.size(); ++i) {
      plans[i]->best_by_bytes = by_bytes[i];
      plans[i]->best_by_time = by_time[i];
    }
  }

  HeadSource& source_;
  const HeadInfo& info_;
  const ModelSpec spec_;
  const AttentionBenchOptions& options_;
  const uint64_t num_rows_;
  const uint64_t num_stored_;
  std::vector<TokenId> tokens_;
  std::vector<AskedPlan> plans_;
  std::vector<PlanRun> runs_;  // `full` first.
  std::vector<size_t> order_;  // Indices of runs_, in the order in which a step attends.
  std::minstd_rand order_seed_;
  AttentionBenchResult result_;
};

}  // namespace

Result<AttentionBenchResult> RunAttentionBench(HeadSource* source,
                                               const AttentionBenchOptions& options) {
  const cli::CpuInfo cpu = cli::ReadCpuInfo();
  const uint64_t buffer_bytes = options.bandwidth_bytes != 0
                                    ? options.bandwidth_bytes
                                    : cli::BandwidthBufferBytes(cpu, cli::ReadMemoryInfo());
  const double before = cli::MeasureReadBandwidth(options.num_threads, buffer_bytes);
  ATTNDB_ASSIGN_OR_RETURN(AttentionBenchResult result, Bench(source, options).Run());
  result.bandwidth = std::max(before, cli::MeasureReadBandwidth(options.num_threads, buffer_bytes));
  result.last_cache_bytes = cpu.last_cache_bytes;
  return result;
}

}  // namespace attndb::bench
