#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "attndb/version.h"
#include "cli/commands/commands.h"
#include "cli/common/attention_bench.h"
#include "cli/common/interrupt.h"
#include "cli/common/machine.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

Json ToJson(const BenchResult& r, const BenchOptions& options) {
  return {{"synthetic", r.synthetic},
          {"num_tokens", r.num_tokens},
          {"num_q_heads", r.num_q_heads},
          {"num_kv_heads", r.num_kv_heads},
          {"head_dim", r.head_dim},
          {"kv_dtype", DTypeName(options.kv_dtype)},
          {"num_threads", options.num_threads},
          {"isa", KernelIsa()},
          {"cpu", ReadCpuInfo().model},
          {"plan", r.plan},
          {"num_runs", r.num_runs},
          {"ms_median", r.ms_median},
          {"ms_mad", r.ms_mad},
          {"full_ms_median", r.full_ms_median},
          {"bytes_touched", r.bytes_touched},
          {"bytes_per_second", r.bytes_per_second},
          {"read_bandwidth", r.bandwidth},
          {"share_of_bandwidth", r.bytes_per_second / r.bandwidth},
          {"selected_mean", r.selected_mean},
          {"error_mean", r.error_mean},
          {"error_max", r.error_max}};
}

std::string ToText(const BenchResult& r, const BenchOptions& options) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"vectors",
       r.synthetic ? "synthetic: speed means something, selection and error do not" : "from files"},
      {"shape", FormatCount(r.num_tokens) + " tokens, " + std::to_string(r.num_q_heads) + "/" +
                    std::to_string(r.num_kv_heads) + " heads of " + std::to_string(r.head_dim) +
                    ", " + std::string(DTypeName(options.kv_dtype))},
      {"plan", r.plan},
      {"on", ReadCpuInfo().model + ", " + KernelIsa() + ", " + std::to_string(options.num_threads) +
                 (options.num_threads == 1 ? " thread" : " threads")},
      {"time", FormatFixed(r.ms_median, 3) + " ms a token (median of " +
                   std::to_string(r.num_runs) + ", deviation " + FormatFixed(r.ms_mad, 3) + ")"},
      {"full", FormatFixed(r.full_ms_median, 3) + " ms a token: " +
                   FormatFixed(r.full_ms_median / r.ms_median, 2) + " x the plan's"},
      {"read", FormatBytes(r.bytes_touched) + " a token, " +
                   FormatFixed(r.bytes_per_second / 1e9, 1) +
                   " GB/s: " + FormatFixed(100 * r.bytes_per_second / r.bandwidth, 0) +
                   " % of the " + FormatFixed(r.bandwidth / 1e9, 1) + " GB/s measured here"},
      {"selected", FormatFixed(r.selected_mean, 1) + " tokens a row and q head"},
      {"error", FormatFixed(100 * r.error_mean, 3) + " % mean, " +
                    FormatFixed(100 * r.error_max, 3) + " % at most, against full"}};
  return PairsText(pairs);
}

class BenchCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    Flags attention = flags->Subcommand("attention", "One new token over many stored ones");
    AddGeometry(&attention);
    attention.Group("Vectors from files (all three)");
    attention.Add({"--keys", "K.npy", "[tokens, heads, dim], float16 or float32"}, &keys_);
    attention.Add({"--values", "V.npy", "[tokens, heads, dim]"}, &values_);
    attention.Add({"--queries", "Q.npy", "[rows, q heads, dim]"}, &queries_);
  }

  Result<ExitCode> Run(Environment* env) override {
    const int num_files =
        (keys_.empty() ? 0 : 1) + (values_.empty() ? 0 : 1) + (queries_.empty() ? 0 : 1);
    std::optional<BenchVectors> vectors;
    if (num_files != 0 && num_files != 3) {
      return Status::InvalidArgument("--keys, --values and --queries go together");
    }
    if (num_files == 3) {
      vectors.emplace();
      ATTNDB_ASSIGN_OR_RETURN(vectors->keys, ReadNpy(keys_));
      ATTNDB_ASSIGN_OR_RETURN(vectors->values, ReadNpy(values_));
      ATTNDB_ASSIGN_OR_RETURN(vectors->queries, ReadNpy(queries_));
      ATTNDB_RETURN_IF_ERROR(CheckVectors(*vectors));
    }
    const InterruptScope interrupt;
    ATTNDB_ASSIGN_OR_RETURN(const BenchResult result, RunAttentionBench(options_, vectors));
    env->PrintJson(ToJson(result, options_));
    env->Print(ToText(result, options_));
    return ExitCode::kOk;
  }

 private:
  void AddGeometry(Flags* flags) {
    flags->Add({"--dtype", "TYPE", "Stored K and V: f16 (default), bf16 or f32"},
               &options_.kv_dtype);
    flags->Add({"--plan", "TEXT", "How to attend (default: full)"}, &options_.plan);
    flags->Add({"-t,--threads", "N", "Threads of one call (default: 1)"}, &options_.num_threads, 1U,
               1024U);
    flags->Add({"--repeat", "N", "Timed runs (default: 20)"}, &options_.repeat, 1U, 1'000'000U);
    flags->Add({"--temp-dir", "PATH", "Folder of the temporary store ($TMPDIR)"},
               &options_.temp_dir);
    flags->Group("Synthetic vectors");
    flags->Add({"--tokens", "N", "Stored tokens (default: 32768)"}, &options_.num_tokens,
               uint64_t{1}, uint64_t{1} << 30);
    flags->Add({"--head-dim", "N", "Size of a head (default: 128)"}, &options_.head_dim, 1U, 4096U);
    flags->Add({"--q-heads", "N", "q heads (default: 32)"}, &options_.num_q_heads, 1U, 4096U);
    flags->Add({"--kv-heads", "N", "kv heads (default: 8)"}, &options_.num_kv_heads, 1U, 4096U);
  }

  BenchOptions options_;
  std::string keys_;
  std::string values_;
  std::string queries_;
};

}  // namespace

std::unique_ptr<Command> MakeBench() { return std::make_unique<BenchCommand>(); }

}  // namespace attndb::cli
