#include <string>

#include "cli/commands/commands.h"
#include "cli/common/contexts.h"

namespace attndb::cli {
namespace {

class PinCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add({"--off", "", "Release it"}, &off_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const auto contexts, OpenContexts(env, Access::kWrite));
    ATTNDB_RETURN_IF_ERROR(contexts->Pin(context_, !off_));
    env->PrintJson({{"context", context_}, {"pinned", !off_}});
    env->Print((off_ ? "released " : "pinned ") + context_ + "\n");
    return ExitCode::kOk;
  }

 private:
  std::string context_;
  bool off_ = false;
};

}  // namespace

std::unique_ptr<Command> MakePin() { return std::make_unique<PinCommand>(); }

}  // namespace attndb::cli
