#include "cli/common/import_target.h"

#include <algorithm>
#include <vector>

#include "attndb/context_name.h"
#include "cli/common/context_text.h"
#include "cli/common/interrupt.h"
#include "cli/common/progress.h"
#include "cli/common/units.h"

namespace attndb::cli {

void ImportTarget::AddTo(Flags* flags) {
  flags->Add({"-n,--name", "NAME", "Name of the context (default: the file's)"}, &options_.name);
  flags->Add({"--replace", "", "Take the name from the context that has it"}, &options_.replace);
  flags->Add({"--ttl", "TIME", "Expire this long after the last use: 90s, 1h30m, 7d, never"},
             &ttl_);
  flags->Add({"--pin", "", "Never evict, never expire"}, &options_.pin);
  flags->Add({"--no-planes", "", "Leave key planes to be made when a plan asks for them"},
             &no_planes_);
  flags->Add({"--index", "INDEX",
              "Built while the rest is read, as in plans: pq or pq,m=4,b=8, graph, ..."},
             &index_);
  flags->Add({"--iterations", "N", "Of k-means, for --index pq (default: 8)"}, &iterations_, 1u,
             DBOptions::kMaxKmeansIterations);
  flags->Add({"--segment-tokens", "N",
              "Merge its pieces into segments of at most N tokens in the end (default: 65536)"},
             &segment_tokens_, uint64_t{1}, CompactOptions::kMaxSegmentTokens);
  flags->Add({"--query-sample", "RATE",
              "Rows of q kept per key and kv head to train indexes (default: 0.1)"},
             &query_sample_, 0.0, 16.0);
  graphs_.AddTo(flags);
}

DBOptions ImportTarget::db_options() const {
  DBOptions options = {.query_sample = query_sample_,
                       .background_builds = !no_planes_,
                       .index = index_,
                       .kmeans_iterations = iterations_,
                       .import_segment_tokens = segment_tokens_};
  graphs_.Apply(&options);
  return options;
}

Status ImportTarget::Resolve(const std::string& default_name) {
  if (options_.name.empty()) options_.name = default_name;
  if (options_.name.empty()) {
    return Status::InvalidArgument("text from stdin has no name: give it one with --name");
  }
  ATTNDB_RETURN_IF_ERROR(CheckContextName(options_.name).WithContext("--name"));
  ATTNDB_ASSIGN_OR_RETURN(options_.ttl, ParseTtl(ttl_));
  return Status();
}

Result<ImportTarget> ImportTarget::Named(const std::string& name) const {
  ATTNDB_RETURN_IF_ERROR(CheckContextName(name));
  ImportTarget target = *this;
  target.options_.name = name;
  return target;
}

Result<std::optional<ContextInfo>> ImportTarget::FindImported(const DB& db, const ModelSpec& spec,
                                                              std::span<const TokenId> tokens,
                                                              int64_t first_position,
                                                              std::span<const Cut> cuts) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextInfo> contexts, db.List());
  std::optional<ContextInfo> unnamed;
  for (const ContextInfo& context : contexts) {
    if (context.num_tokens != tokens.size() || context.damaged ||
        context.first_position != first_position || context.kv_dtype != spec.kv_dtype ||
        context.unrotated_keys != spec.unrotated_keys || context.fingerprint != spec.fingerprint) {
      continue;
    }
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, db.Tokens(NameOf(context)));
    if (!std::equal(ids.begin(), ids.end(), tokens.begin(), tokens.end())) continue;
    ATTNDB_ASSIGN_OR_RETURN(const ContextInfo info, db.Describe(NameOf(context)));
    if (!std::equal(info.cuts.begin(), info.cuts.end(), cuts.begin(), cuts.end())) continue;
    if (!context.name.empty()) return std::optional(context);
    unnamed = context;
  }
  return unnamed;
}

Status ImportTarget::CheckNameIsFree(const DB& db, std::span<const TokenId> tokens) const {
  if (options_.replace) return Status();
  const Result<ContextInfo> holder = db.Describe(name());
  if (holder.ok()) {
    if (holder->damaged) {
      ATTNDB_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, db.Tokens(name()));
      if (std::ranges::equal(ids, tokens)) return Status();
    }
    return Status::AlreadyExists("the name '" + name() + "' belongs to another context of " +
                                 Counted(holder->num_tokens, "token"));
  }
  return holder.status().code() == StatusCode::kNotFound ? Status() : holder.status();
}

void ImportTarget::MergePieces(Environment* env, const DB& db) const {
  ProgressLine progress({.label = "merge", .unit = "bytes", .enabled = env->show_progress()});
  CompactOptions options;
  options.context = name();
  options.segment_tokens = segment_tokens_;
  options.progress = ShowUntilInterrupted(&progress);
  const Status status = db.Compact(options);
  progress.Clear();
  if (!status.ok()) env->Warn("the context is stored, in short segments: " + status.message());
}

void ImportTarget::FinishPlanes(Environment* env, const DB& db) const {
  ProgressLine progress({.label = "planes", .unit = "bytes", .enabled = env->show_progress()});
  WaitOptions options;
  options.progress = ShowUntilInterrupted(&progress);
  const Status status = db.WaitForBackground(options);
  progress.Clear();
  if (!status.ok()) env->Warn("the context is stored, its key planes are not: " + status.message());
}

Result<ExitCode> ImportTarget::ReportNothingToDo(Environment* env, const DB& db,
                                                 const ContextInfo& info) const {
  if (options_.pin && !info.pinned) ATTNDB_RETURN_IF_ERROR(db.Pin(info.name));
  if (options_.ttl) ATTNDB_RETURN_IF_ERROR(db.SetTtl(info.name, options_.ttl));
  PrintNothingToDo(env, info);
  return ExitCode::kOk;
}

void ImportTarget::PrintNothingToDo(Environment* env, const ContextInfo& info) {
  Json json = Summary(info);
  json["already_imported"] = true;
  env->PrintJson(json);
  env->Print("already imported as '" + info.name + "': " + Counted(info.num_tokens, "token") +
             "\n");
}

void ImportTarget::PrintImported(Environment* env, const ContextInfo& info, uint64_t num_reused,
                                 uint64_t num_run, double seconds,
                                 const std::vector<std::string>& evicted) {
  const double rate = seconds > 0 ? static_cast<double>(num_run) / seconds : 0;
  Json json = Summary(info);
  json["already_imported"] = false;
  json["reused_tokens"] = num_reused;
  json["new_tokens"] = num_run;
  json["seconds"] = seconds;
  json["tokens_per_second"] = rate;
  json["evicted"] = evicted;
  env->PrintJson(json);
  env->Print("imported '" + info.name + "': " + Counted(info.num_tokens, "token") + ", " +
             FormatBytes(info.file_bytes) + " on disk; ran " + FormatCount(num_run) + " in " +
             FormatSeconds(seconds) + " (" + FormatFixed(rate, 0) + " tokens/s)\n");
}

Json ImportTarget::Summary(const ContextInfo& info) {
  return JsonObject({{"context", info.name},
                     {"id", static_cast<int64_t>(info.id)},
                     {"num_tokens", info.num_tokens},
                     {"file_bytes", info.file_bytes},
                     {"companion_bytes", info.companion_bytes}});
}

}  // namespace attndb::cli
