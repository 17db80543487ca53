// attndb-simulate: the program that `attndb simulate` starts, with the same command line. It calls
// itself attndb, so that its messages name the command that a user gave.
#include <memory>

#include "attndb/tiers.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/simulate_flags.h"
#include "cli/program.h"

namespace attndb::cli {
namespace {

class SimulateCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags_.AddTo(flags); }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(SimulateOptions options, flags_.ToOptions());
    const InterruptScope interrupt;
    ProgressLine line({.label = "simulate", .unit = "turns", .enabled = env->show_progress()});
    options.progress = ShowUntilInterrupted(&line);
    ATTNDB_ASSIGN_OR_RETURN(const SimulateReport report, Simulate(options));
    line.Clear();
    if (env->json()) env->PrintJson(ReadOwnJson(report.ToJson()));
    env->Print(report.ToText());
    return ExitCode::kOk;
  }

 private:
  SimulateFlags flags_;
};

}  // namespace
}  // namespace attndb::cli

int main(int argc, char** argv) {
  using attndb::cli::Command;
  const attndb::cli::CommandEntry simulate = {
      "simulate", "Replay conversations through memory and disk: what they would buy",
      "attndb simulate\n"
      "attndb simulate --help",
      []() -> std::unique_ptr<Command> {
        return std::make_unique<attndb::cli::SimulateCommand>();
      }};
  return attndb::cli::RunProgram(
      {.name = "attndb",
       .about = "The simulator of attndb, which 'attndb simulate' starts.",
       .examples = "  attndb simulate\n",
       .commands = {&simulate, 1},
       .moved = {}},
      argc, argv);
}
