#include <memory>

#include "cli/commands/commands.h"
#include "cli/common/other_program.h"
#include "cli/common/simulate_flags.h"

namespace attndb::cli {
namespace {

// Knows its flags, and leaves the rest to attndb-simulate.
class SimulateCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags_.AddTo(flags); }

  Result<ExitCode> Run(Environment* env) override {
    return BecomeProgram(env, kSimulateProgram, "'make build' builds it");
  }

 private:
  SimulateFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeSimulate() { return std::make_unique<SimulateCommand>(); }

}  // namespace attndb::cli
