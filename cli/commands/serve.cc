#include <memory>

#include "cli/commands/commands.h"
#include "cli/common/other_program.h"
#include "cli/common/serve_flags.h"

namespace attndb::cli {
namespace {

// Knows its flags, and leaves the rest to attndb-server.
class ServeCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags_.AddTo(flags); }

  Result<ExitCode> Run(Environment* env) override {
    return BecomeProgram(env, kServerProgram,
                         "'make build' builds it; -DATTNDB_BUILD_SERVER=OFF leaves it out");
  }

 private:
  ServeFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeServe() { return std::make_unique<ServeCommand>(); }

}  // namespace attndb::cli
