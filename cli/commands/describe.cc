#include <string>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/contexts.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class DescribeCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const auto contexts, OpenContexts(env, Access::kRead));
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, contexts->Describe(context_));
    env->PrintJson(ToJson(info));
    env->Print(ContextText(info, NowUs()));
    return info.damaged ? ExitCode::kDamage : ExitCode::kOk;
  }

 private:
  std::string context_;
};

}  // namespace

std::unique_ptr<Command> MakeDescribe() { return std::make_unique<DescribeCommand>(); }

}  // namespace attndb::cli
