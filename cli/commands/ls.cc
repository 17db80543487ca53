#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

std::string TotalsText(const std::vector<ContextInfo>& contexts, const DBStats& stats) {
  std::string text = FormatCount(contexts.size()) +
                     (contexts.size() == 1 ? " context, " : " contexts, ") +
                     FormatBytes(stats.file_bytes) + " on disk";
  if (stats.quota_bytes > 0) text += " of " + FormatBytes(stats.quota_bytes);
  return text + "\n";
}

class LsCommand : public Command {
 public:
  void AddFlags(Flags* /*flags*/) override {}

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    Json list = Json::array();
    for (const ContextInfo& context : contexts) list.push_back(ToJson(context));
    env->PrintJson({{"contexts", std::move(list)},
                    {"file_bytes", stats.file_bytes},
                    {"quota_bytes", stats.quota_bytes}});
    if (contexts.empty()) {
      env->Print("No contexts yet; 'attndb import FILE' makes one.\n");
    } else {
      env->Print(ContextTable(contexts, NowUs()) + "\n" + TotalsText(contexts, stats));
    }
    return ExitCode::kOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeLs() { return std::make_unique<LsCommand>(); }

}  // namespace attndb::cli
