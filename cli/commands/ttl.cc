#include <optional>
#include <string>

#include "cli/commands/commands.h"
#include "cli/common/contexts.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class TtlCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add({"ttl", "TIME", "Seconds, 15m, 1h30m, 7d, or never: counted from the last use",
                /*required=*/true},
               &ttl_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const std::optional<std::chrono::seconds> ttl, ParseTtl(ttl_));
    ATTNDB_ASSIGN_OR_RETURN(const auto contexts, OpenContexts(env, Access::kWrite));
    ATTNDB_RETURN_IF_ERROR(contexts->SetTtl(context_, ttl));
    env->PrintJson({{"context", context_}, {"ttl_seconds", ttl ? Json(ttl->count()) : Json()}});
    env->Print(context_ + (ttl ? " expires " + FormatTtl(ttl->count()) + " after its last use\n"
                               : " never expires\n"));
    return ExitCode::kOk;
  }

 private:
  std::string context_;
  std::string ttl_;
};

}  // namespace

std::unique_ptr<Command> MakeTtl() { return std::make_unique<TtlCommand>(); }

}  // namespace attndb::cli
