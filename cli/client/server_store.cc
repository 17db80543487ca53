#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "cli/client/context_json.h"
#include "cli/client/server_client.h"
#include "cli/client/server_commands.h"
#include "cli/common/progress.h"
#include "cli/common/upkeep_report.h"
#include "server/json.h"

namespace attndb::cli {
namespace {

std::string TextFromJson(const Json& json, const char* name) {
  const Json* const text = server::FindMember(json, name);
  return text != nullptr && text->is_string() ? Printable(text->get_ref<const std::string&>()) : "";
}

Result<Damage> DamageFromJson(const Json& json) {
  if (!json.is_object()) return Status::IoError("the server sent a damage that is no object");
  Damage damage;
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t segment_id, CountFromJson(json, "segment_id"));
  damage.segment_id = static_cast<int64_t>(segment_id);
  damage.file = TextFromJson(json, "file");
  damage.message = TextFromJson(json, "message");
  damage.contexts = TextsFromJson(json, "contexts");
  return damage;
}

Result<VerifyReport> ReportFromJson(const Json& json) {
  VerifyReport report;
  ATTNDB_ASSIGN_OR_RETURN(report.num_segments, CountFromJson(json, "num_segments"));
  ATTNDB_ASSIGN_OR_RETURN(report.num_bytes, CountFromJson(json, "num_bytes"));
  const Json* const damages = server::FindMember(json, "damages");
  if (damages == nullptr || !damages->is_array()) {
    return Status::IoError("the server's answer has no 'damages': is it attndb's?");
  }
  for (const Json& one : *damages) {
    ATTNDB_ASSIGN_OR_RETURN(Damage damage, DamageFromJson(one));
    report.damages.push_back(std::move(damage));
  }
  return report;
}

// A server's answer to a long operation, with progress shown as `label`.
Result<Json> AnswerOf(Environment* env, std::string_view path, const std::string& label,
                      const Json& body, double* seconds) {
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  ProgressLine progress({.label = label, .unit = "bytes", .enabled = env->show_progress()});
  Result<Json> answer = client.StreamProgress(std::string(path), body, &progress);
  *seconds = progress.elapsed_seconds();
  return answer;
}

}  // namespace

Result<ExitCode> CatThroughServer(Environment* env, const std::string& context, bool special) {
  constexpr std::array<std::string_view, 2> kFlags = {"context", "--special"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  ATTNDB_ASSIGN_OR_RETURN(
      const Json json,
      client.Ask("POST", std::string(kTextPath), {{"context", context}, {"special", special}}));
  const Json* const text = json.is_object() ? server::FindMember(json, "text") : nullptr;
  if (text == nullptr || !text->is_string()) {
    return Status::IoError("the server's answer has no 'text': is it attndb's?");
  }
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t num_tokens, CountFromJson(json, "num_tokens"));
  env->PrintJson({{"context", context}, {"num_tokens", num_tokens}, {"text", *text}});
  env->Print(text->get_ref<const std::string&>());
  return ExitCode::kOk;
}

Result<ExitCode> VerifyThroughServer(Environment* env, const std::string& context) {
  constexpr std::array<std::string_view, 1> kFlags = {"context"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  double seconds = 0;
  ATTNDB_ASSIGN_OR_RETURN(
      const Json json,
      AnswerOf(env, kVerifyPath, "verify", {{"context", context}, {"stream", true}}, &seconds));
  ATTNDB_ASSIGN_OR_RETURN(const VerifyReport report, ReportFromJson(json));
  return ReportVerified(env, report, seconds);
}

Result<ExitCode> CompactThroughServer(Environment* env, const std::string& context,
                                      uint64_t segment_tokens) {
  constexpr std::array<std::string_view, 2> kFlags = {"context", "--segment-tokens"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  Json body = {{"context", context}, {"stream", true}};
  if (segment_tokens > 0) body["segment_tokens"] = segment_tokens;
  double seconds = 0;
  const Result<Json> json = AnswerOf(env, kCompactPath, "compact", body, &seconds);
  if (json.status().code() == StatusCode::kCancelled) {
    return env->WithAdvice(json.status(),
                           "what was merged stays merged; run it again for the rest");
  }
  ATTNDB_RETURN_IF_ERROR(json.status());
  StoreSize before;
  StoreSize after;
  ATTNDB_ASSIGN_OR_RETURN(before.num_contexts, CountFromJson(*json, "num_contexts_before"));
  ATTNDB_ASSIGN_OR_RETURN(before.num_segments, CountFromJson(*json, "num_segments_before"));
  ATTNDB_ASSIGN_OR_RETURN(before.file_bytes, CountFromJson(*json, "file_bytes_before"));
  ATTNDB_ASSIGN_OR_RETURN(after.num_contexts, CountFromJson(*json, "num_contexts"));
  ATTNDB_ASSIGN_OR_RETURN(after.num_segments, CountFromJson(*json, "num_segments"));
  ATTNDB_ASSIGN_OR_RETURN(after.file_bytes, CountFromJson(*json, "file_bytes"));
  return ReportCompacted(env, before, after, seconds);
}

Result<ExitCode> BuildThroughServer(Environment* env, const std::string& context,
                                    const std::string& index) {
  constexpr std::array<std::string_view, 4> kFlags = {"context", "--index", "--m", "--b"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  double seconds = 0;
  const Json body = {{"context", context}, {"index", index}, {"stream", true}};
  const Result<Json> json = AnswerOf(env, kBuildPath, "build", body, &seconds);
  if (json.status().code() == StatusCode::kCancelled) {
    return env->WithAdvice(json.status(), "what is built stays; run it again for the rest");
  }
  ATTNDB_RETURN_IF_ERROR(json.status());
  BuildReport report;
  report.kind = TextFromJson(*json, "kind");
  report.seconds = seconds;
  ATTNDB_ASSIGN_OR_RETURN(report.num_built, CountFromJson(*json, "num_built"));
  ATTNDB_ASSIGN_OR_RETURN(report.num_present, CountFromJson(*json, "num_present"));
  ATTNDB_ASSIGN_OR_RETURN(report.num_too_short, CountFromJson(*json, "num_too_short"));
  ATTNDB_ASSIGN_OR_RETURN(report.num_missing, CountFromJson(*json, "num_missing"));
  ATTNDB_ASSIGN_OR_RETURN(report.file_bytes, CountFromJson(*json, "file_bytes"));
  return ReportBuilt(env, report);
}

Result<ExitCode> SetQuotaThroughServer(Environment* env, uint64_t bytes) {
  constexpr std::array<std::string_view, 1> kFlags = {"size"};
  ATTNDB_RETURN_IF_ERROR(env->CheckForServer(kFlags));
  ATTNDB_ASSIGN_OR_RETURN(const ServerClient client, ServerClient::Connect(env));
  const Json wanted = bytes == 0 ? Json() : Json(bytes);
  ATTNDB_ASSIGN_OR_RETURN(const Json json,
                          client.Ask("POST", std::string(kQuotaPath), {{"quota_bytes", wanted}}));
  if (!json.is_object()) return Status::IoError("the server's answer is no object");
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t quota_bytes, CountFromJson(json, "quota_bytes"));
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t file_bytes, CountFromJson(json, "file_bytes"));
  return ReportNewQuota(env, quota_bytes, file_bytes);
}

}  // namespace attndb::cli
