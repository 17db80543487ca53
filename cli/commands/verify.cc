#include <string>

#include "cli/client/server_commands.h"
#include "cli/commands/commands.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/upkeep_report.h"

namespace attndb::cli {
namespace {

class VerifyCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Only this one: name, or #id"}, &context_);
  }

  Result<ExitCode> Run(Environment* env) override {
    const InterruptScope interrupt;
    if (!env->server().empty()) return VerifyThroughServer(env, context_);
    // Damage is recorded if we may write; beside a writer it is only reported.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForUse(Environment::Brief()));
    ProgressLine progress({.label = "verify", .unit = "bytes", .enabled = env->show_progress()});
    VerifyOptions options;
    options.context = context_;
    options.progress = ShowUntilInterrupted(&progress);
    ATTNDB_ASSIGN_OR_RETURN(const VerifyReport report, db.Verify(options));
    progress.Clear();
    return ReportVerified(env, report, progress.elapsed_seconds());
  }

 private:
  std::string context_;
};

}  // namespace

std::unique_ptr<Command> MakeVerify() { return std::make_unique<VerifyCommand>(); }

}  // namespace attndb::cli
