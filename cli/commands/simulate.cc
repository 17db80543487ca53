#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/common/other_program.h"
#include "cli/common/simulate_flags.h"
#include "engines/llama/source_tree.h"

namespace attndb::cli {
namespace {

std::string HowToGetSimulator() {
  if (llama::HasSources(llama::ProjectFolders())) return "'make build' builds it";
  return "install attndb again: each installation puts it beside 'attndb'";
}

// Checks the flags, then becomes attndb-simulate, which does the work.
class SimulateCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags_.AddTo(flags); }

  Result<ExitCode> Run(Environment* env) override {
    return BecomeProgram(env, kSimulateProgram, env->options().words, HowToGetSimulator());
  }

 private:
  SimulateFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeSimulate() { return std::make_unique<SimulateCommand>(); }

}  // namespace attndb::cli
