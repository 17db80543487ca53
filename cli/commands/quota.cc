#include <string>

#include "cli/commands/commands.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class QuotaCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"size", "SIZE", "Bytes, 512M, 20GiB, or none; without it: show the limit"}, &size_);
  }

  Result<ExitCode> Run(Environment* env) override { return size_.empty() ? Show(env) : Set(env); }

 private:
  static ExitCode Report(Environment* env, uint64_t quota, uint64_t used) {
    env->PrintJson({{"quota_bytes", quota}, {"file_bytes", used}});
    env->Print((quota == 0 ? "no limit" : "at most " + FormatBytes(quota)) + "; " +
               FormatBytes(used) + " in use\n");
    return ExitCode::kOk;
  }

  static Result<ExitCode> Show(Environment* env) {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    return Report(env, stats.quota_bytes, stats.file_bytes);
  }

  Result<ExitCode> Set(Environment* env) const {
    uint64_t bytes = 0;
    if (size_ != "none") {
      ATTNDB_ASSIGN_OR_RETURN(bytes, ParseBytes(size_));
      if (bytes == 0) {
        return env->WithAdvice(Status::InvalidArgument("a limit of 0 bytes would store nothing"),
                               "'attndb quota none' takes the limit away");
      }
    }
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForWriting(false));
    ATTNDB_RETURN_IF_ERROR(db.SetQuota(bytes));
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    if (bytes != 0 && stats.file_bytes > bytes) {
      env->Note("the next import evicts what was used longest ago to get below the limit");
    }
    return Report(env, bytes, stats.file_bytes);
  }

  std::string size_;
};

}  // namespace

std::unique_ptr<Command> MakeQuota() { return std::make_unique<QuotaCommand>(); }

}  // namespace attndb::cli
