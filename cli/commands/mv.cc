#include <string>

#include "cli/commands/commands.h"
#include "cli/common/contexts.h"

namespace attndb::cli {
namespace {

class MvCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add({"name", "NAME", "What it is called from now on", /*required=*/true}, &name_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const auto contexts, OpenContexts(env, Access::kWrite));
    const Status status = contexts->Rename(context_, name_);
    if (status.code() == StatusCode::kAlreadyExists) {
      return env->WithAdvice(status,
                             "choose another name; 'attndb rm' removes the context that has it");
    }
    ATTNDB_RETURN_IF_ERROR(status);
    env->PrintJson({{"context", context_}, {"name", name_}});
    env->Print(context_ + " is called " + name_ + " now\n");
    return ExitCode::kOk;
  }

 private:
  std::string context_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Command> MakeMv() { return std::make_unique<MvCommand>(); }

}  // namespace attndb::cli
