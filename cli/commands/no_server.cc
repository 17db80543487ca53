// `attndb serve` in a build without a server: it says so.
#include "cli/commands/commands.h"

namespace attndb::cli {
namespace {

class NoServerCommand : public Command {
 public:
  void AddFlags(Flags* flags) override { flags->AcceptAnything(); }
  Result<ExitCode> Run(Environment* env) override {
    return env->WithAdvice(
        Status::Unsupported("this build has no server"),
        "build it with llama.cpp and -DATTNDB_BUILD_SERVER=ON, which needs Boost "
        "1.81");
  }
};

}  // namespace

std::unique_ptr<Command> MakeServe() { return std::make_unique<NoServerCommand>(); }

}  // namespace attndb::cli
