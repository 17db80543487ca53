#include <memory>
#include <string>
#include <vector>

#include "bench/attention/attention_bench.h"
#include "bench/attention/attention_report.h"
#include "bench/attention/frontier.h"
#include "bench/bench_progress.h"
#include "bench/commands.h"
#include "bench/heads/vector_flags.h"
#include "cli/common/interrupt.h"

namespace attndb::bench {
namespace {

class AttentionCommand : public cli::Command {
 public:
  void AddFlags(cli::Flags* flags) override {
    flags->Group("Plans");
    flags->Add({"--plan", "TEXT", "How to attend, beside full; may be repeated"}, &options_.plans);
    flags->Add({"--try-plan", "TEXT", "The same, but left out where this build has it not"},
               &options_.optional_plans);
    flags->Add({"--sweep", "", "A list of plans that shows the frontier"}, &sweep_);
    vectors_.AddTo(flags);
    flags->Group("How it is measured");
    flags->Add({"-t,--threads", "N", "Threads of one call (default: 1)"}, &options_.num_threads, 1U,
               1024U);
    flags->Add({"--rows", "N", "Tokens to step through, the last ones (default: 16)"},
               &options_.num_rows, 1U, 65536U);
    flags->Add({"--repeat", "N", "Times that each is stepped through (default: 1)"},
               &options_.repeat, 1U, 1'000'000U);
    flags->Add({"--temp-dir", "PATH", "Folder of the temporary store ($TMPDIR)"},
               &options_.temp_dir);
  }

  Result<cli::ExitCode> Run(cli::Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<HeadSource> source, vectors_.Open());
    if (sweep_) {
      const std::vector<std::string> plans = SweepPlans();
      options_.optional_plans.insert(options_.optional_plans.end(), plans.begin(), plans.end());
    }
    const cli::InterruptScope interrupt;
    options_.progress = ShowProgress(
        *env, [](const std::string& phase) { return phase == "store" ? "tokens" : "steps"; });
    const Result<AttentionBenchResult> result = RunAttentionBench(source.get(), options_);
    options_.progress = nullptr;
    ATTNDB_RETURN_IF_ERROR(result.status());
    env->PrintJson(BenchJson(source->info(), options_, *result));
    env->Print(BenchText(source->info(), options_, *result));
    return cli::ExitCode::kOk;
  }

 private:
  VectorFlags vectors_;
  AttentionBenchOptions options_;
  bool sweep_ = false;
};

}  // namespace

std::unique_ptr<cli::Command> MakeAttentionBench() { return std::make_unique<AttentionCommand>(); }

}  // namespace attndb::bench
