#include <string>
#include <vector>

#include "cli/commands/commands.h"

namespace attndb::cli {
namespace {

class RmCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"contexts", "CONTEXT", "Names, or #ids", /*required=*/true}, &contexts_);
  }

  // All or none: nothing is removed if one of them is not there.
  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false));
    for (const std::string& context : contexts_) {
      ATTNDB_RETURN_IF_ERROR(db.Describe(context).status());
    }
    for (const std::string& context : contexts_) {
      ATTNDB_RETURN_IF_ERROR(db.Drop(context));
      env->Print("removed " + context + "\n");
    }
    env->PrintJson({{"removed", contexts_}});
    return ExitCode::kOk;
  }

 private:
  std::vector<std::string> contexts_;
};

}  // namespace

std::unique_ptr<Command> MakeRm() { return std::make_unique<RmCommand>(); }

}  // namespace attndb::cli
