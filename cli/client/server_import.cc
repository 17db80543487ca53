#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/context_json.h"
#include "cli/client/server_client.h"
#include "cli/client/server_commands.h"
#include "cli/common/evicted.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

// What the server said of an import, checked.
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

Result<Imported> ImportedFromJson(const Json& json, const std::string& name) {
  Imported imported;
  ATTNDB_ASSIGN_OR_RETURN(imported.info, ContextFromJson(json));
  imported.info.name = name;
  ATTNDB_ASSIGN_OR_RETURN(imported.num_reused, CountFromJson(json, "reused_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(imported.num_run, CountFromJson(json, "new_tokens"));
  ATTNDB_ASSIGN_OR_RETURN(imported.seconds, NumberFromJson(json, "seconds"));
  const Json* const was_there = server::FindMember(json, "already_imported");
  imported.was_there = was_there != nullptr && *was_there == true;
  const Json* const evicted = server::FindMember(json, "evicted");
  if (evicted == nullptr || !evicted->is_array()) return imported;
  for (const Json& label : *evicted) {
    if (label.is_string()) imported.evicted.push_back(Printable(label.get<std::string>()));
  }
  return imported;
}

void Report(Environment* env, const Imported& imported) {
  if (imported.was_there) return ImportTarget::PrintNothingToDo(env, imported.info);
  if (!imported.evicted.empty()) env->Note(EvictedText(imported.evicted));
  ImportTarget::PrintImported(env, imported.info, imported.num_reused, imported.num_run,
                              imported.seconds, imported.evicted);
}

}  // namespace

Result<ExitCode> ImportThroughServer(Environment* env, const ImportTarget& target,
                                     const std::string& text, const std::string& system, bool raw) {
  constexpr std::array<std::string_view, 7> kFlags = {"files", "--name",   "--replace", "--ttl",
                                                      "--pin", "--system", "--raw"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  const StoreOptions& options = target.options();
  Json body = {
      {"name", options.name},       {"text", text},          {"system", system}, {"raw", raw},
      {"replace", options.replace}, {"pinned", options.pin}, {"stream", true}};
  if (options.ttl) body["ttl_seconds"] = options.ttl->count();
  ProgressLine progress({.label = "prefill", .unit = "tokens", .enabled = env->show_progress()});
  Json answer;
  const auto on_event = [&](const Json& event) -> Status {
    if (server::FindMember(event, "done") == nullptr) {
      answer = event;
      return Status::Ok();
    }
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_done, CountFromJson(event, "done"));
    ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens, CountFromJson(event, "total"));
    progress.Update(num_done, num_tokens);
    return Status::Ok();
  };
  const auto headers = client.Stream(std::string(kContextsPath), body, on_event);
  progress.Clear();
  if (headers.status().code() == StatusCode::kCancelled) {
    return env->WithAdvice(headers.status(), "nothing is stored");
  }
  ATTNDB_RETURN_IF_ERROR(headers.status());
  ATTNDB_ASSIGN_OR_RETURN(const Imported imported, ImportedFromJson(answer, options.name));
  Report(env, imported);
  return ExitCode::kOk;
}

}  // namespace attndb::cli
