#include "cli/common/dry_run.h"

#include <optional>
#include <string>

#include "cli/common/evicted.h"
#include "cli/common/units.h"

namespace attndb::cli {

void PrintDryRun(Environment* env, const std::string& name, uint64_t num_tokens,
                 const RoomReport& report, std::optional<double> seconds) {
  const uint64_t num_new = num_tokens - report.num_reused;
  env->PrintJson({{"context", name},
                  {"dry_run", true},
                  {"num_tokens", num_tokens},
                  {"reused_tokens", report.num_reused},
                  {"new_tokens", num_new},
                  {"new_bytes", report.new_bytes},
                  {"predicted_seconds", seconds ? Json(*seconds) : Json()},
                  {"evicted", report.evicted}});
  env->Print("'" + name + "' would have " + Counted(num_tokens, "token") + ", " +
             FormatCount(report.num_reused) + " of them stored already; the others take " +
             FormatBytes(report.new_bytes) + " on disk" +
             (seconds ? " and about " + FormatSeconds(*seconds) : "") + "\n");
  if (!report.evicted.empty()) {
    env->Note("would be evicted for it: " + Counted(report.evicted.size(), "context") +
              ", beginning with " + report.evicted.front());
  }
}

Result<StoreToLookAt> StoreToLookAt::Open(Environment* env, const DBOptions& options) {
  StoreToLookAt store;
  Result<DB> db = env->OpenForReading(options);
  if (db.status().code() == StatusCode::kNotFound) {
    ATTNDB_ASSIGN_OR_RETURN(TempDir created, TempDir::Create(""));
    store.folder_.emplace(std::move(created));
    db = DB::Open(store.folder_->path() + "/store", options);
  }
  ATTNDB_RETURN_IF_ERROR(db.status());
  store.db_.emplace(*std::move(db));
  return store;
}

Result<ExitCode> DryRun(Environment* env, llama::LlamaEngine* engine,
                        std::span<const TokenId> tokens, const ImportTarget& target,
                        const RoomOptions& room, PrefillMeter* meter) {
  ATTNDB_ASSIGN_OR_RETURN(const StoreToLookAt store, StoreToLookAt::Open(env, target.db_options()));
  const DB& db = store.db();
  ATTNDB_ASSIGN_OR_RETURN(
      const std::optional<ContextInfo> imported,
      ImportTarget::FindImported(db, engine->spec(), tokens, /*first_position=*/0));
  if (imported && imported->name == target.name()) {
    ImportTarget::PrintNothingToDo(env, *imported);
    return ExitCode::kOk;
  }
  ATTNDB_RETURN_IF_ERROR(target.CheckNameIsFree(db, tokens));
  ATTNDB_ASSIGN_OR_RETURN(const RoomReport report, db.CheckRoom(engine->spec(), tokens, room));
  ATTNDB_ASSIGN_OR_RETURN(const PrefillCost cost, meter->CostFor(engine, tokens));
  PrintDryRun(env, target.name(), tokens.size(), report,
              cost.Seconds(report.num_reused, tokens.size()));
  return ExitCode::kOk;
}

}  // namespace attndb::cli
