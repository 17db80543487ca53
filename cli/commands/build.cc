#include <cstdint>
#include <string>

#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/graph_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/upkeep_report.h"

namespace attndb::cli {
namespace {

class BuildCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add(
        {"--index", "INDEX",
         "As in plans: clustered, graph, roargraph, roargraph,graphs=head, quest, infllm, wave, pq "
         "or pq,m=4,b=8; static=prefill; or planes, built anyway",
         /*required=*/true},
        &index_);
    flags->Add({"--m", "M", "Subspaces of pq, as m= in INDEX"}, &m_, 1u, kMaxSetting);
    flags->Add({"--b", "B", "Bits of each of them, as b= in INDEX"}, &b_, 1u, kMaxSetting);
    flags->Add({"--iterations", "N", "Of k-means, for pq (default: 8) and wave (10)"}, &iterations_,
               1u, DBOptions::kMaxKmeansIterations);
    graphs_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    const InterruptScope interrupt;
    if (!env->server().empty()) return BuildThroughServer(env, context_, Index());
    DBOptions options = {.background_threads = 0, .kmeans_iterations = iterations_};
    graphs_.Apply(&options);
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false, options));
    ProgressLine line({.label = "build", .unit = "bytes", .enabled = env->show_progress()});
    const Result<BuildReport> report =
        db.Build(context_, Index(), {.progress = ShowUntilInterrupted(&line)});
    line.Clear();
    if (report.status().code() == StatusCode::kCancelled) {
      return env->WithAdvice(report.status(), "what is built stays; run it again for the rest");
    }
    ATTNDB_RETURN_IF_ERROR(report.status());
    return ReportBuilt(env, *report);
  }

 private:
  static constexpr uint32_t kMaxSetting = 1024;  // The library says which ones there are.

  std::string Index() const {
    std::string index = index_;
    if (m_ != 0) index += ",m=" + std::to_string(m_);
    if (b_ != 0) index += ",b=" + std::to_string(b_);
    return index;
  }

  std::string context_;
  std::string index_;
  uint32_t m_ = 0;  // 0: not given.
  uint32_t b_ = 0;
  uint32_t iterations_ = 0;
  GraphFlags graphs_;
};

}  // namespace

std::unique_ptr<Command> MakeBuild() { return std::make_unique<BuildCommand>(); }

}  // namespace attndb::cli
