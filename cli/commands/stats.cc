#include <string>

#include "cli/commands/commands.h"
#include "cli/common/context_text.h"
#include "cli/common/table.h"
#include "cli/common/units.h"

namespace attndb::cli {
namespace {

class StatsCommand : public Command {
 public:
  void AddFlags(Flags* /*flags*/) override {}

  Result<ExitCode> Run(Environment* env) override {
    ATTNDB_ASSIGN_OR_RETURN(const DB db, env->OpenForReading());
    ATTNDB_ASSIGN_OR_RETURN(const DBStats stats, db.Stats());
    if (env->json()) env->PrintJson(ReadOwnJson(stats.ToJson()));
    env->Print(PairsText({
        {"store", stats.path},
        {"format", "version " + std::to_string(stats.format_version)},
        {"tenant", db.tenant()},
        {"contexts", FormatCount(stats.num_contexts)},
        {"segments", FormatCount(stats.num_segments) +
                         (stats.num_damaged_segments == 0
                              ? ""
                              : ", DAMAGED: " + FormatCount(stats.num_damaged_segments))},
        {"tokens", FormatCount(stats.num_tokens) + " (shared ones counted once)"},
        {"on disk", FormatBytes(stats.file_bytes)},
        {"key planes", PlanesText(stats.companion_bytes, stats.num_pending_companions)},
        {"limit", stats.quota_bytes == 0 ? "none" : FormatBytes(stats.quota_bytes)},
        {"memory limit", FormatBytes(stats.memory_limit_bytes)},
    }));
    return stats.num_damaged_segments == 0 ? ExitCode::kOk : ExitCode::kDamage;
  }
};

}  // namespace

std::unique_ptr<Command> MakeStats() { return std::make_unique<StatsCommand>(); }

}  // namespace attndb::cli
