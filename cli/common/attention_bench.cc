#include "cli/common/attention_bench.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "attndb/db.h"
#include "cli/common/interrupt.h"
#include "cli/common/machine.h"
#include "cli/common/progress.h"
#include "cli/common/temp_dir.h"

namespace attndb::cli {
namespace {

constexpr uint64_t kChunkTokens = 4096;
constexpr int64_t kSyntheticQueries = 16;
constexpr uint64_t kSeed = 17;

// Normal values from a table: a hundred times as fast as drawing each, and as good for timing.
class NormalSource {
 public:
  NormalSource() : table_(size_t{1} << 16) {
    std::normal_distribution<float> normal;
    for (float& value : table_) value = normal(random_);
  }
  void Fill(std::vector<float>* values) {
    for (float& value : *values) value = table_[random_() >> 48];
  }

 private:
  std::mt19937_64 random_{kSeed};
  std::vector<float> table_;
};

// Rows [begin, end) of a view.
TensorView Rows(const TensorView& view, uint64_t begin, uint64_t end) {
  TensorView rows = view;
  const auto skipped = static_cast<int64_t>(begin) * view.strides[0];
  rows.data =
      static_cast<const char*>(view.data) + static_cast<size_t>(skipped) * DTypeBytes(view.dtype);
  rows.shape[0] = static_cast<int64_t>(end - begin);
  return rows;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// |a - b| / |b| of one head.
double RelativeError(const float* a, const float* b, size_t count) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < count; ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return norm == 0 ? (difference == 0 ? 0 : INFINITY) : std::sqrt(difference / norm);
}

struct Measured {
  std::vector<double> ms;
  std::vector<float> outputs;  // [queries, q heads, v_head_dim]
  LayerExplain explain;
};

class Bench {
 public:
  Bench(const BenchOptions& options, const std::optional<BenchVectors>& vectors)
      : options_(options), vectors_(vectors) {
    if (vectors_) {
      const TensorView k = vectors_->keys.View();
      layer_.head_dim = static_cast<uint32_t>(k.dim());
      layer_.v_head_dim = static_cast<uint32_t>(vectors_->values.View().dim());
      layer_.num_kv_heads = static_cast<uint32_t>(k.heads());
      layer_.num_q_heads = static_cast<uint32_t>(vectors_->queries.View().heads());
      num_tokens_ = static_cast<uint64_t>(k.rows());
    } else {
      layer_.head_dim = options.head_dim;
      layer_.v_head_dim = options.head_dim;
      layer_.num_kv_heads = options.num_kv_heads;
      layer_.num_q_heads = options.num_q_heads;
      num_tokens_ = options.num_tokens;
    }
    spec_ = ModelSpec::Uniform(1, layer_, options.kv_dtype, "attndb bench");
  }

  Result<BenchResult> Run() {
    ATTNDB_RETURN_IF_ERROR(spec_.Validate());
    ATTNDB_ASSIGN_OR_RETURN(const TempDir dir, TempDir::Create(options_.temp_dir));
    DBOptions db_options;
    db_options.num_threads = options_.num_threads;
    db_options.query_sample = 0;
    ATTNDB_ASSIGN_OR_RETURN(const DB db, DB::Open(dir.path() + "/store", db_options));
    ATTNDB_RETURN_IF_ERROR(StoreAllButLast(db));
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec_, tokens_));
    ATTNDB_RETURN_IF_ERROR(AppendTokens(&start.session, num_tokens_ - 1, num_tokens_));
    LoadQueries();
    ATTNDB_ASSIGN_OR_RETURN(const Measured full, Measure(&start.session, "full"));
    ATTNDB_ASSIGN_OR_RETURN(const Measured plan, Measure(&start.session, options_.plan));
    return Summarize(full, plan);
  }

 private:
  // Synthetic rows are made anew for each chunk, so that memory stays bounded.
  Status AppendTokens(Session* session, uint64_t begin, uint64_t end) {
    if (vectors_) {
      return session->Append(0, Rows(vectors_->keys.View(), begin, end),
                             Rows(vectors_->values.View(), begin, end));
    }
    const auto rows = static_cast<int64_t>(end - begin);
    const auto heads = static_cast<int64_t>(layer_.num_kv_heads);
    const auto dim = static_cast<int64_t>(layer_.head_dim);
    std::vector<float> k((end - begin) * layer_.num_kv_heads * layer_.head_dim);
    std::vector<float> v(k.size());
    normal_.Fill(&k);
    normal_.Fill(&v);
    return session->Append(0, TensorView::Contiguous(k.data(), DType::kFloat32, rows, heads, dim),
                           TensorView::Contiguous(v.data(), DType::kFloat32, rows, heads, dim));
  }

  Status StoreAllButLast(const DB& db) {
    for (uint64_t i = 0; i < num_tokens_; ++i) tokens_.push_back(static_cast<TokenId>(i));
    const uint64_t num_stored = num_tokens_ - 1;
    ATTNDB_ASSIGN_OR_RETURN(SessionStart start, db.CreateSession(spec_, tokens_));
    for (uint64_t at = 0; at < num_stored; at += kChunkTokens) {
      if (Interrupted()) return Status::Cancelled("interrupted");
      ATTNDB_RETURN_IF_ERROR(
          AppendTokens(&start.session, at, std::min(at + kChunkTokens, num_stored)));
    }
    if (num_stored == 0) return Status();
    return db.Store(start.session, std::span(tokens_).first(num_stored)).status();
  }

  void LoadQueries() {
    if (vectors_) {
      queries_ = vectors_->queries.View();
      return;
    }
    synthetic_queries_.resize(static_cast<size_t>(kSyntheticQueries) * layer_.num_q_heads *
                              layer_.head_dim);
    normal_.Fill(&synthetic_queries_);
    queries_ = TensorView::Contiguous(synthetic_queries_.data(), DType::kFloat32, kSyntheticQueries,
                                      layer_.num_q_heads, layer_.head_dim);
  }

  size_t OutputFloats() const { return size_t{layer_.num_q_heads} * layer_.v_head_dim; }

  Status AttendOne(Session* session, uint64_t query, float* out) const {
    const MutableTensorView view = MutableTensorView::Contiguous(
        out, DType::kFloat32, 1, layer_.num_q_heads, layer_.v_head_dim);
    return session->Attend(0, Rows(queries_, query, query + 1), view);
  }

  // One untimed pass over all queries, whose outputs are kept, then the timed ones.
  Result<Measured> Measure(Session* session, const std::string& plan) const {
    ATTNDB_RETURN_IF_ERROR(session->SetPlan(plan));
    const auto num_queries = static_cast<uint64_t>(queries_.rows());
    Measured measured;
    measured.outputs.resize(num_queries * OutputFloats());
    for (uint64_t i = 0; i < num_queries; ++i) {
      if (Interrupted()) return Status::Cancelled("interrupted");
      ATTNDB_RETURN_IF_ERROR(AttendOne(session, i, measured.outputs.data() + i * OutputFloats()));
    }
    std::vector<float> out(OutputFloats());
    for (uint32_t run = 0; run < options_.repeat; ++run) {
      if (Interrupted()) return Status::Cancelled("interrupted");
      const double start = MonotonicSeconds();
      ATTNDB_RETURN_IF_ERROR(AttendOne(session, run % num_queries, out.data()));
      measured.ms.push_back((MonotonicSeconds() - start) * 1e3);
    }
    ATTNDB_ASSIGN_OR_RETURN(measured.explain, session->Explain(0));
    return measured;
  }

  BenchResult Summarize(const Measured& full, const Measured& plan) const {
    BenchResult result;
    result.synthetic = !vectors_;
    result.num_tokens = num_tokens_;
    result.num_q_heads = layer_.num_q_heads;
    result.num_kv_heads = layer_.num_kv_heads;
    result.head_dim = layer_.head_dim;
    result.plan = plan.explain.plan;
    result.full_ms_median = Median(full.ms);
    result.ms_median = Median(plan.ms);
    std::vector<double> deviations;
    for (const double ms : plan.ms) deviations.push_back(std::abs(ms - result.ms_median));
    result.ms_mad = Median(deviations);
    result.bytes_touched = plan.explain.bytes_touched;
    result.bytes_per_second = static_cast<double>(result.bytes_touched) / result.ms_median * 1e3;
    result.selected_mean = plan.explain.selected_mean;
    result.num_runs = options_.repeat;
    const size_t dim = layer_.v_head_dim;
    const size_t num_heads = full.outputs.size() / dim;
    for (size_t head = 0; head < num_heads; ++head) {
      const double error =
          RelativeError(plan.outputs.data() + head * dim, full.outputs.data() + head * dim, dim);
      result.error_mean += error / static_cast<double>(num_heads);
      result.error_max = std::max(result.error_max, error);
    }
    return result;
  }

  const BenchOptions& options_;
  const std::optional<BenchVectors>& vectors_;
  LayerSpec layer_;
  ModelSpec spec_;
  uint64_t num_tokens_ = 0;
  std::vector<TokenId> tokens_;
  NormalSource normal_;
  std::vector<float> synthetic_queries_;
  TensorView queries_;
};

std::string Shape(const TensorView& view) {
  return "[" + std::to_string(view.rows()) + ", " + std::to_string(view.heads()) + ", " +
         std::to_string(view.dim()) + "]";
}

}  // namespace

Status CheckVectors(const BenchVectors& vectors) {
  const TensorView k = vectors.keys.View();
  const TensorView v = vectors.values.View();
  const TensorView q = vectors.queries.View();
  if (k.rows() != v.rows() || k.heads() != v.heads()) {
    return Status::InvalidArgument("keys are " + Shape(k) + ", values " + Shape(v) +
                                   "; expected equal numbers of tokens and kv heads");
  }
  if (q.dim() != k.dim() || q.heads() % k.heads() != 0) {
    return Status::InvalidArgument(
        "keys are " + Shape(k) + ", queries " + Shape(q) +
        "; expected equal head sizes and q heads a multiple of kv heads");
  }
  constexpr int64_t kMaxSize = int64_t{1} << 31;
  if (k.rows() >= kMaxSize || q.heads() >= 65536 || q.dim() >= 65536 || v.dim() >= 65536) {
    return Status::InvalidArgument("arrays are too large: keys " + Shape(k) + ", queries " +
                                   Shape(q));
  }
  return Status();
}

Result<BenchResult> RunAttentionBench(const BenchOptions& options,
                                      const std::optional<BenchVectors>& vectors) {
  // Before the store takes its memory.
  const CpuInfo cpu = ReadCpuInfo();
  const double bandwidth =
      MeasureReadBandwidth(options.num_threads, BandwidthBufferBytes(cpu, ReadMemoryInfo()));
  ATTNDB_ASSIGN_OR_RETURN(BenchResult result, Bench(options, vectors).Run());
  result.bandwidth = bandwidth;
  return result;
}

}  // namespace attndb::cli
