#include <string>

#include "cli/commands/commands.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

Json ToJson(const VerifyReport& report) {
  Json damages = Json::array();
  for (const Damage& damage : report.damages) {
    damages.push_back({{"segment_id", damage.segment_id},
                       {"file", damage.file},
                       {"message", damage.message},
                       {"contexts", damage.contexts}});
  }
  return {{"ok", report.ok()},
          {"num_segments", report.num_segments},
          {"num_bytes", report.num_bytes},
          {"damages", std::move(damages)}};
}

std::string ToText(const Damage& damage) {
  std::string text = "DAMAGED " + damage.file + ": " + damage.message + "\n";
  for (const std::string& context : damage.contexts) text += "  not served: " + context + "\n";
  return text;
}

class VerifyCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Only this one: name, or #id"}, &context_);
  }

  Result<ExitCode> Run(Environment* env) override {
    // Damage is written down if we may write; beside a writer it is only reported.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForUse(Environment::Brief()));
    const InterruptScope interrupt;
    ProgressLine progress({.label = "verify", .unit = "bytes", .enabled = env->show_progress()});
    VerifyOptions options;
    options.context = context_;
    options.progress = ShowUntilInterrupted(&progress);
    ATTNDB_ASSIGN_OR_RETURN(const VerifyReport report, db.Verify(options));
    progress.Clear();
    env->PrintJson(ToJson(report));
    for (const Damage& damage : report.damages) env->Print(ToText(damage));
    env->Print((report.ok() ? "ok: " : std::to_string(report.damages.size()) + " damaged: ") +
               Counted(report.num_segments, "segment") + ", " + FormatBytes(report.num_bytes) +
               " checked in " + FormatSeconds(progress.elapsed_seconds()) + "\n");
    if (report.ok()) return ExitCode::kOk;
    if (env->show_progress()) {
      env->Note("damaged contexts are not served, the others are; 'attndb import' them again");
    }
    return ExitCode::kDamage;
  }

 private:
  std::string context_;
};

}  // namespace

std::unique_ptr<Command> MakeVerify() { return std::make_unique<VerifyCommand>(); }

}  // namespace attndb::cli
