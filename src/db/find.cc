// Database: passages of stored contexts that a question's heads attend to.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "db/database.h"
#include "db/find_query.h"
#include "find/find_passages.h"

namespace attndb::internal {
namespace {

// First tokens of a context that draw attention whatever is asked.
constexpr uint64_t kNumSinks = 4;

}  // namespace

// What is looked through. Runs are shared by contexts, and looked through once.
struct Database::Searched {
  // A context's use of a run.
  struct RunUse {
    size_t context = 0;        // Of those that are searched.
    uint64_t first_token = 0;  // Of the context, that is the run's first.
    uint64_t num_tokens = 0;
  };

  std::vector<db::ContextRecord> contexts;
  std::vector<std::shared_ptr<storage::Segment>> segments;
  std::vector<find::KeyRun> runs;         // One a segment,
  std::vector<std::vector<RunUse>> uses;  // ... and who uses it, in the order of contexts.
  std::map<db::SegmentId, size_t> run_of;

  // The first context that has all of these tokens of the run.
  const RunUse& Owner(size_t run, TokenRange tokens) const {
    return *std::ranges::find_if(uses[run],
                                 [&](const RunUse& use) { return use.num_tokens >= tokens.end; });
  }
};

Result<std::vector<db::ContextRecord>> Database::ContextsToSearch(
    const db::Tenant& tenant, const FindOptions& options) const {
  if (options.contexts.empty()) {
    if (tenant.id == db::TenantId::kNone) return std::vector<db::ContextRecord>();
    return catalog_->List(tenant.id);
  }
  std::map<ContextId, db::ContextRecord> records;
  for (const std::string& name : options.contexts) {
    ATTNDB_ASSIGN_OR_RETURN(const db::ContextRecord record, catalog_->FindContext(tenant.id, name));
    records.emplace(record.id, record);
  }
  std::vector<db::ContextRecord> oldest_first;
  for (const auto& [id, record] : records) oldest_first.push_back(record);
  return oldest_first;
}

Result<std::optional<std::string>> Database::ReasonToSkip(const db::ContextRecord& context,
                                                          const ModelSpec& spec) const {
  if (IsExpired(context)) return std::optional<std::string>("expired");
  if (context.damaged) return std::optional<std::string>("damaged (see describe)");
  ATTNDB_ASSIGN_OR_RETURN(const bool same_model, catalog_->SameModel(context.model, spec));
  if (!same_model) return std::optional<std::string>("of another model");
  return std::optional<std::string>();
}

Status Database::AddContext(const db::ContextRecord& context, Searched* searched) {
  // Held to the end, so that nobody removes a segment between its look-up and its opening.
  MutexLock lock(&use_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::ChainLink> links, catalog_->Chain(context.id));
  std::vector<std::shared_ptr<storage::Segment>> opened;
  for (const db::ChainLink& link : links) {
    ATTNDB_ASSIGN_OR_RETURN(const db::SegmentRecord record, catalog_->GetSegment(link.segment));
    Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(record);
    if (!segment.ok()) {
      (void)QuarantineIfDamaged(link.segment, segment.status());
      return std::move(segment).status();
    }
    opened.push_back(*std::move(segment));
  }
  uint64_t first_token = 0;
  for (size_t i = 0; i < links.size(); ++i) {
    const auto [at, is_new] = searched->run_of.emplace(links[i].segment, searched->runs.size());
    if (is_new) {
      searched->runs.push_back({opened[i], 0});
      searched->segments.push_back(std::move(opened[i]));
      searched->uses.emplace_back();
    }
    const uint64_t num_tokens = links[i].num_tokens_used;
    find::KeyRun& run = searched->runs[at->second];
    run.num_tokens = std::max(run.num_tokens, num_tokens);
    if (first_token < kNumSinks) run.num_sinks = kNumSinks - first_token;
    searched->uses[at->second].push_back({searched->contexts.size(), first_token, num_tokens});
    first_token += num_tokens;
  }
  searched->contexts.push_back(context);
  return Status::Ok();
}

Result<FindResult> Database::FindPassages(const std::string& tenant, const ModelSpec& spec,
                                          const FindQuery& query, const FindOptions& options) {
  ATTNDB_RETURN_IF_ERROR(spec.Validate());
  ATTNDB_RETURN_IF_ERROR(CheckFindOptions(options));
  const ModelSpec resolved = Resolve(spec);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<find::HeadQuestion> heads,
                          HeadQuestionsOf(resolved, query));
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant owner, TenantOf(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::ContextRecord> records,
                          ContextsToSearch(owner, options));
  FindResult result;
  Searched searched;
  for (const db::ContextRecord& record : records) {
    ATTNDB_ASSIGN_OR_RETURN(std::optional<std::string> reason, ReasonToSkip(record, resolved));
    if (!reason) {
      const Status status = AddContext(record, &searched);
      if (status.code() == StatusCode::kResourceExhausted) return status;
      if (!status.ok()) reason = status.message();
    }
    if (reason) result.skipped.push_back({record.Label(), *std::move(reason)});
  }
  result.num_contexts = searched.contexts.size();
  for (const find::KeyRun& run : searched.runs) result.num_tokens += run.num_tokens;
  ATTNDB_ASSIGN_OR_RETURN(
      find::PassageReport report,
      find::FindPassages({.spec = &resolved,
                          .runs = searched.runs,
                          .heads = heads,
                          .num_tokens = static_cast<size_t>(query.q.front().rows()),
                          .first_position = query.first_position,
                          .passage_tokens = options.passage_tokens,
                          .limit = options.limit,
                          .head_scores = options.head_scores,
                          .budget = &budget_,
                          .pool = &pool_}));
  result.num_passages = report.num_passages;
  result.key_bytes = report.key_bytes;
  for (find::FoundPassage& passage : report.passages) {
    const Searched::RunUse& use = searched.Owner(passage.run, passage.tokens);
    const db::ContextRecord& context = searched.contexts[use.context];
    result.passages.push_back(
        {context.Label(),
         context.id,
         {use.first_token + passage.tokens.begin, use.first_token + passage.tokens.end},
         passage.score,
         std::move(passage.head_scores)});
  }
  for (const find::LostRun& lost : report.lost) {
    NoteDamage(*searched.segments[lost.run], lost.status);
    for (const Searched::RunUse& use : searched.uses[lost.run]) {
      result.skipped.push_back({searched.contexts[use.context].Label(), lost.status.message()});
    }
  }
  searched = {};
  SweepUnreferenced();  // A context that was dropped meanwhile.
  return result;
}

}  // namespace attndb::internal
