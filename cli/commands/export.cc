#include <filesystem>
#include <string>
#include <system_error>

#include "attndb/kv_file.h"
#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/interrupt.h"
#include "cli/common/output_file.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class ExportCommand : public Command {
 public:
  void AddFlags(Flags* flags) override {
    flags->Add({"context", "CONTEXT", "Name, or #id", /*required=*/true}, &context_);
    flags->Add({"-o,--safetensors", "FILE", "The KV file to write; it must not be there yet",
                /*required=*/true},
               &file_);
  }

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_RETURN_IF_ERROR(CheckOutputFile(file_, "--safetensors"));
    // Reading only: taking a copy is not using it.
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(context_));
    const InterruptScope interrupt;
    const double start_seconds = MonotonicSeconds();
    ProgressLine progress({.label = "export", .unit = "bytes", .enabled = env->show_progress()});
    KvFileExportOptions options;
    options.progress = ShowUntilInterrupted(&progress);
    const Status status = ExportKvFile(db, context_, file_, options);
    progress.Clear();
    ATTNDB_RETURN_IF_ERROR(WithFileAdvice(env, status));
    Report(env, info, MonotonicSeconds() - start_seconds);
    return ExitCode::kOk;
  }

 private:
  void Report(Environment* env, const ContextInfo& info, double seconds) const {
    std::error_code error;
    const uint64_t file_bytes = std::filesystem::file_size(file_, error);
    env->PrintJson({{"context", info.name},
                    {"id", static_cast<int64_t>(info.id)},
                    {"file", file_},
                    {"num_tokens", info.num_tokens},
                    {"file_bytes", file_bytes},
                    {"seconds", seconds}});
    env->Print("exported '" + NameOf(info) + "' to " + file_ + ": " +
               Counted(info.num_tokens, "token") + ", " + FormatBytes(file_bytes) + ", in " +
               FormatSeconds(seconds) + "\n");
  }

  std::string context_;
  std::string file_;
};

}  // namespace

std::unique_ptr<Command> MakeExport() { return std::make_unique<ExportCommand>(); }

}  // namespace attndb::cli
