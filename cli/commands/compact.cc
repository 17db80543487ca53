#include <string>

#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/graph_flags.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/upkeep_report.h"

namespace attndb::cli {
namespace {

class CompactCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Only this one, by name or #id (default: all)"}, &context_);
    flags->Add({"--segment-tokens", "N",
                "Merge segments shorter than this, into ones of at most this; default: those below "
                "2048, into any length"},
               &segment_tokens_, uint64_t{1}, CompactOptions::kMaxSegmentTokens);
    flags->Add(
        {"--grow-graphs", "",
         "Graphs of merged segments go on from that of the first, instead of being built anew"},
        &grow_graphs_);
    graphs_.AddTo(flags);
  }

  Result<ExitCode> Run(Environment* env) override {
    const InterruptScope interrupt;
    if (!env->server().empty()) return CompactThroughServer(env, context_, segment_tokens_);
    // A user who compacts waits for the builds.
    DBOptions options = {.background_threads = 0, .grow_graphs = grow_graphs_};
    graphs_.Apply(&options);
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false, options));
    ATTNDB_ASSIGN_OR_RETURN(const DBStats before, db.Stats());
    const double start = MonotonicSeconds();
    ATTNDB_RETURN_IF_ERROR(Merge(env, db));
    ATTNDB_RETURN_IF_ERROR(FinishCompanions(env, db));
    const double seconds = MonotonicSeconds() - start;
    ATTNDB_ASSIGN_OR_RETURN(const DBStats after, db.Stats());
    return ReportCompacted(env, SizeOf(before), SizeOf(after), seconds);
  }

 private:
  static StoreSize SizeOf(const DBStats& stats) {
    return {stats.num_contexts, stats.num_segments, stats.file_bytes};
  }

  Status Merge(Environment* env, const DB& db) const {
    ProgressLine line({.label = "compact", .unit = "bytes", .enabled = env->show_progress()});
    const Status status = db.Compact({.context = context_,
                                      .segment_tokens = segment_tokens_,
                                      .progress = ShowUntilInterrupted(&line)});
    if (status.code() != StatusCode::kCancelled) return status;
    return env->WithAdvice(status, "what was merged stays merged; run it again for the rest");
  }

  static Status FinishCompanions(Environment* env, const DB& db) {
    ProgressLine line({.label = "planes", .unit = "bytes", .enabled = env->show_progress()});
    const Status status = db.WaitForBackground({.progress = ShowUntilInterrupted(&line)});
    if (status.code() != StatusCode::kCancelled) return status;
    return env->WithAdvice(status,
                           "all is merged; planes and indexes are built when they are used");
  }

  std::string context_;
  uint64_t segment_tokens_ = 0;
  bool grow_graphs_ = false;
  GraphFlags graphs_;
};

}  // namespace

std::unique_ptr<Command> MakeCompact() { return std::make_unique<CompactCommand>(); }

}  // namespace attndb::cli
