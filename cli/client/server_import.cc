#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/context_json.h"
#include "cli/client/server_client.h"
#include "cli/client/server_commands.h"
#include "cli/common/dry_run.h"
#include "cli/common/evicted.h"
#include "cli/common/import_target.h"
#include "cli/common/progress.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

// The server's report of an import, checked.
struct Imported {
  ContextInfo info;
  bool was_there = false;
  uint64_t num_reused = 0;
  uint64_t num_run = 0;
  double seconds = 0;
  std::vector<std::string> evicted;
};

Result<double> NumberFromJson(const Json& json, const char* name) {
  const Json* const number = server::FindMember(json, name);
  if (number == nullptr) return 0.0;
  if (number->is_number()) return number->get<double>();
  return Status::IoError("the server's answer has a '" + std::string(name) + "' that is no number");
}

Result<Imported> ImportedFromJson(const Json& json, const ServerImport& asked) {
  Imported imported;
  ATTNDB_ASSIGN_OR_RETURN(imported.info, ContextFromJson(json));
  const Json* const name = server::FindMember(json, "context");  // An append may be asked by id.
  const bool is_named = name != nullptr && name->is_string();
  imported.info.name = is_named ? Printable(name->get<std::string>()) : asked.name;
  ATTNDB_ASSIGN_OR_RETURN(imported.num_reused, CountFromJson(json, "reused_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(imported.num_run, CountFromJson(json, "new_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(imported.seconds, NumberFromJson(json, "seconds"));
  const Json* const was_there = server::FindMember(json, "already_imported");
  imported.was_there = was_there != nullptr && *was_there == true;
  imported.evicted = TextsFromJson(json, "evicted");
  return imported;
}

void Report(Environment* env, const Imported& imported) {
  if (imported.was_there) return ImportTarget::PrintNothingToDo(env, imported.info);
  if (!imported.evicted.empty()) env->Note(EvictedText(imported.evicted));
  ImportTarget::PrintImported(env, imported.info, imported.num_reused, imported.num_run,
                              imported.seconds, imported.evicted);
}

Result<ExitCode> ReportDryRun(Environment* env, const std::string& name, const Json& json) {
  RoomReport report;
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens, CountFromJson(json, "num_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(report.num_reused, CountFromJson(json, "reused_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(report.new_bytes, CountFromJson(json, "new_bytes"));
  report.evicted = TextsFromJson(json, "evicted");
  if (report.num_reused > num_tokens) {
    return Status::IoError("the server's answer has more reused tokens than tokens");
  }
  PrintDryRun(env, name, num_tokens, report, /*seconds=*/std::nullopt);
  return ExitCode::kOk;
}

Json RequestFor(const ServerImport& asked) {
  Json body = {{"name", asked.name}, {"text", asked.text}, {"stream", true}};
  if (asked.dry_run) body["dry_run"] = true;
  if (asked.append) {
    body["append"] = true;
    return body;
  }
  body.update({{"system", asked.system},
               {"raw", asked.raw},
               {"replace", asked.replace},
               {"pinned", asked.pin}});
  if (asked.ttl) body["ttl_seconds"] = asked.ttl->count();
  return body;
}

}  // namespace

Result<ExitCode> ImportThroughServer(Environment* env, const ServerImport& asked) {
  constexpr std::array<std::string_view, 10> kFlags = {
      "files",    "--name", "--replace", "--ttl",   "--pin",
      "--system", "--raw",  "--dry-run", "context", "file"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  ProgressLine progress({.label = "prefill", .unit = "tokens", .enabled = env->show_progress()});
  Result<Json> answer =
      client.StreamProgress(std::string(kContextsPath), RequestFor(asked), &progress);
  if (answer.status().code() == StatusCode::kCancelled) {
    return env->WithAdvice(answer.status(), "nothing is stored");
  }
  ATTNDB_RETURN_IF_ERROR(answer.status());
  if (asked.dry_run && server::FindMember(*answer, "already_imported") == nullptr) {
    return ReportDryRun(env, asked.name, *answer);
  }
  ATTNDB_ASSIGN_OR_RETURN(const Imported imported, ImportedFromJson(*answer, asked));
  Report(env, imported);
  return ExitCode::kOk;
}

}  // namespace attndb::cli
