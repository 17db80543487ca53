#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/attention_bench.h"
#include "cli/bench/bench_report.h"
#include "cli/bench/frontier.h"
#include "cli/bench/head_source.h"
#include "cli/bench/index_bench.h"
#include "cli/bench/index_report.h"
#include "cli/bench/smaller_groups.h"
#include "cli/bench/stretched_heads.h"
#include "cli/bench/synthetic_heads.h"
#include "cli/commands/commands.h"
#include "cli/common/interrupt.h"
#include "cli/common/npy.h"
#include "cli/common/progress.h"

namespace attndb::cli {
namespace {

class BenchCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    AddAttentionFlags(flags);
    AddIndexFlags(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<HeadSource> source, OpenSource());
    return runs_index_ ? RunIndex(source.get(), env) : RunAttention(source.get(), env);
  }

 private:
  void AddAttentionFlags(Flags* flags) {
    Flags attention = flags->Subcommand(
        "attention", "Error, bytes and time of plans, token after token", &runs_attention_);
    attention.Group("Plans");
    attention.Add({"--plan", "TEXT", "How to attend, beside full; may be repeated"},
                  &options_.plans);
    attention.Add({"--try-plan", "TEXT", "The same, but left out where this build has it not"},
                  &options_.optional_plans);
    attention.Add({"--sweep", "", "A list of plans that shows the frontier"}, &sweep_);
    AddVectors(&attention);
    attention.Group("How it is measured");
    attention.Add({"-t,--threads", "N", "Threads of one call (default: 1)"}, &options_.num_threads,
                  1U, 1024U);
    attention.Add({"--rows", "N", "Tokens to step through, the last ones (default: 16)"},
                  &options_.num_rows, 1U, 65536U);
    attention.Add({"--repeat", "N", "Times that each is stepped through (default: 1)"},
                  &options_.repeat, 1U, 1'000'000U);
    attention.Add({"--temp-dir", "PATH", "Folder of the temporary store ($TMPDIR)"},
                  &options_.temp_dir);
  }

  void AddIndexFlags(Flags* flags) {
    Flags index = flags->Subcommand("index", "Recall and time of indexes, beside other libraries'",
                                    &runs_index_);
    index.Group("What is compared");
    index.Add({"--plan", "TEXT", "topk with an index; may be repeated (default: a sweep of each)"},
              &index_options_.plans);
    index.Add({"--peers", "COMMAND", "Runs COMMAND FOLDER beside (bench/python/index_peers.py)"},
              &index_options_.peers);
    index.Add({"--heads", "LIST", "Layer and kv head, as in 3:0,12:1 (default: one of each layer)"},
              &index_options_.heads);
    index.Add({"-k", "N", "Keys to be found (default: 100)"}, &index_options_.k, 1U, 65536U);
    AddVectors(&index);
    index.Group("How it is measured");
    index.Add({"--num-queries", "N", "Groups of queries (default: 64)"},
              &index_options_.num_queries, 1U, 65536U);
    index.Add({"--rounds", "N", "Times that each is searched for (default: 5)"},
              &index_options_.num_rounds, 1U, 10000U);
    index.Add({"--query-sample", "RATE", "Training queries per key (default: 0.4)"},
              &index_options_.query_sample, 0.0, 16.0);
    index.Add({"--segment-tokens", "N",
               "Merge segments into ones of at most N tokens (default: as imported, 4096)"},
              &index_options_.segment_tokens, uint64_t{1}, CompactOptions::kMaxSegmentTokens);
    index.Add({"--temp-dir", "PATH", "Folder of the temporary stores ($TMPDIR)"},
              &index_options_.temp_dir);
  }

  // Progress of a benchmark whose phases do so many of these units.
  static BenchProgress ShowProgress(Environment* env,
                                    std::function<std::string(const std::string&)> unit_of) {
    struct Shown {
      std::optional<ProgressLine> line;
      std::string phase;
    };
    return [env, unit_of = std::move(unit_of), shown = std::make_shared<Shown>()](
               const std::string& phase, uint64_t done, uint64_t total) {
      if (shown->phase != phase) {
        shown->phase = phase;
        shown->line.reset();
        shown->line.emplace(ProgressLine::Options{
            .label = phase, .unit = unit_of(phase), .enabled = env->show_progress()});
      }
      shown->line->Update(done, total);
      return !Interrupted();
    };
  }

  Result<ExitCode> RunIndex(HeadSource* source, Environment* env) {
    const InterruptScope interrupt;
    index_options_.progress = ShowProgress(env, [](const std::string&) { return "plans"; });
    const Result<std::vector<IndexHeadResult>> heads = RunIndexBench(source, index_options_);
    index_options_.progress = nullptr;
    ATTNDB_RETURN_IF_ERROR(heads.status());
    env->PrintJson(IndexBenchJson(source->info(), index_options_, *heads));
    env->Print(IndexBenchText(source->info(), index_options_, *heads));
    return ExitCode::kOk;
  }

  Result<ExitCode> RunAttention(HeadSource* source, Environment* env) {
    if (sweep_) {
      const std::vector<std::string> plans = SweepPlans();
      options_.optional_plans.insert(options_.optional_plans.end(), plans.begin(), plans.end());
    }
    const InterruptScope interrupt;
    options_.progress = ShowProgress(
        env, [](const std::string& phase) { return phase == "store" ? "tokens" : "steps"; });
    const Result<AttentionBenchResult> result = RunAttentionBench(source, options_);
    options_.progress = nullptr;
    ATTNDB_RETURN_IF_ERROR(result.status());
    env->PrintJson(BenchJson(source->info(), options_, *result));
    env->Print(BenchText(source->info(), options_, *result));
    return ExitCode::kOk;
  }

  void AddVectors(Flags* flags) {
    flags->Group("Captured vectors");
    flags->Add({"--capture", "FILE", "What attndb capture wrote, with q of some last tokens"},
               &capture_);
    flags->Add({"--layers", "LIST", "Its layers to measure, as in 0,3,5-7 (default: all)"},
               &layers_);
    flags->Add({"--first-tokens", "N", "Its first N tokens alone"}, &first_tokens_, uint64_t{1},
               uint64_t{1} << 30);
    flags->Add({"--group-size", "N", "The first N q heads of each kv head alone"}, &group_size_, 1U,
               1024U);
    flags->Add({"--stretch", "N",
                "Make it N tokens long: more tokens with K and V of captured ones at random, keys "
                "turned to positions that were captured; labelled so"},
               &stretch_, uint64_t{1}, uint64_t{1} << 30);
    flags->Group("Vectors from files (all three)");
    flags->Add({"--keys", "K.npy", "[tokens, heads, dim], float16 or float32"}, &keys_);
    flags->Add({"--values", "V.npy", "[tokens, heads, dim]"}, &values_);
    flags->Add({"--queries", "Q.npy", "[rows, q heads, dim], of the last tokens"}, &queries_);
    flags->Group("Synthetic vectors, with the spread of SmolLM2's softmax");
    flags->Add({"--geometry", "NAME",
                "llama3-8b (default), smollm2, or kv heads x q heads of each x channels: 8x4x128"},
               &geometry_);
    flags->Add({"--tokens", "N", "Tokens (default: 32768)"}, &num_tokens_, uint64_t{2},
               uint64_t{1} << 30);
    flags->Group("Stored as");
    flags->Add({"--dtype", "TYPE", "f16 (default), bf16 or f32; of a capture its own"}, &kv_dtype_);
  }

  Result<std::unique_ptr<HeadSource>> OpenSource() const {
    const int num_files =
        (keys_.empty() ? 0 : 1) + (values_.empty() ? 0 : 1) + (queries_.empty() ? 0 : 1);
    if (num_files != 0 && num_files != 3) {
      return Status::InvalidArgument("--keys, --values and --queries go together");
    }
    const bool has_geometry = !geometry_.empty();
    if ((num_files != 0 ? 1 : 0) + (capture_.empty() ? 0 : 1) + (has_geometry ? 1 : 0) > 1) {
      return Status::InvalidArgument("expected one of --capture, --keys and --geometry");
    }
    if (capture_.empty() &&
        (stretch_ != 0 || first_tokens_ != 0 || group_size_ != 0 || !layers_.empty())) {
      return Status::InvalidArgument(
          "--stretch, --first-tokens, --group-size and --layers are of a --capture");
    }
    if (num_files != 0) {
      ATTNDB_ASSIGN_OR_RETURN(NpyArray keys, ReadNpy(keys_));
      ATTNDB_ASSIGN_OR_RETURN(NpyArray values, ReadNpy(values_));
      ATTNDB_ASSIGN_OR_RETURN(NpyArray queries, ReadNpy(queries_));
      return HeadsFromArrays(std::move(keys), std::move(values), std::move(queries), kv_dtype_);
    }
    if (!capture_.empty()) {
      ATTNDB_ASSIGN_OR_RETURN(std::unique_ptr<HeadSource> heads,
                              HeadsFromCapture(capture_, layers_, first_tokens_));
      if (group_size_ != 0) {
        ATTNDB_ASSIGN_OR_RETURN(heads, SmallerGroups(std::move(heads), group_size_));
      }
      if (stretch_ == 0) return heads;
      return StretchedHeads(std::move(heads), stretch_);
    }
    ATTNDB_ASSIGN_OR_RETURN(const LayerSpec layer,
                            ParseGeometry(has_geometry ? geometry_ : "llama3-8b"));
    return SyntheticHeads(layer, num_tokens_, kv_dtype_);
  }

  bool runs_attention_ = false;
  bool runs_index_ = false;
  IndexBenchOptions index_options_;
  AttentionBenchOptions options_;
  bool sweep_ = false;
  std::string capture_;
  std::string layers_;
  uint64_t first_tokens_ = 0;
  uint32_t group_size_ = 0;  // 0: as captured.
  uint64_t stretch_ = 0;
  std::string keys_;
  std::string values_;
  std::string queries_;
  std::string geometry_;
  uint64_t num_tokens_ = 32768;
  DType kv_dtype_ = DType::kFloat16;
};

}  // namespace

std::unique_ptr<Command> MakeBench() { return std::make_unique<BenchCommand>(); }

}  // namespace attndb::cli
