#include <memory>
#include <string>

#include "cli/client/server_commands.h"
#include "cli/client/server_contexts.h"
#include "cli/commands/commands.h"
#include "cli/common/units.h"
#include "cli/common/upkeep_report.h"

namespace attndb::cli {
namespace {

class QuotaCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"size", "SIZE", "Bytes, 512M, 20GiB, or none; without it: show the limit"}, &size_);
  }

  Result<ExitCode> Run(Environment* env) override { return size_.empty() ? Show(env) : Set(env); }

 private:
  static Result<ExitCode> Show(Environment* env) {
    if (!env->server().empty()) return ShowServers(env);
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    return ReportQuota(env, stats.quota_bytes, stats.file_bytes);
  }

  static Result<ExitCode> ShowServers(Environment* env) {
    ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<Contexts> contexts, OpenServerContexts(env));
    ATTNDB_ASSIGN_OR_RETURN(const ContextList list, contexts->List());
    return ReportQuota(env, list.quota_bytes, list.file_bytes);
  }

  Result<ExitCode> Set(Environment* env) const {
    const Result<uint64_t> limit = ParseLimit(size_);
    if (!limit.ok()) {
      return env->WithAdvice(limit.status(), "'attndb quota none' takes the limit away");
    }
    const uint64_t bytes = *limit;
    if (!env->server().empty()) return SetQuotaThroughServer(env, bytes);
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false));
    ATTNDB_RETURN_IF_ERROR(db.SetQuota(bytes));
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    return ReportNewQuota(env, bytes, stats.file_bytes);
  }

  std::string size_;
};

}  // namespace

std::unique_ptr<Command> MakeQuota() { return std::make_unique<QuotaCommand>(); }

}  // namespace attndb::cli
