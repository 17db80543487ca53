// Lookup: the contexts that a search looks through, and their segments.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "store/lookup.h"

namespace attndb::store {

const SearchSet::RunUse& SearchSet::Run::Owner(TokenRange tokens) const {
  return *std::ranges::find_if(uses,
                               [&](const RunUse& use) { return use.num_tokens >= tokens.end; });
}

Result<SearchSet> Lookup::OpenForSearch(const std::string& tenant, const ModelSpec& spec,
                                        std::span<const std::string> names) {
  parts_.damage->Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRecord> records, ContextsToSearch(owner, names));
  SearchSet set;
  std::map<SegmentId, size_t> run_of;
  for (const ContextRecord& record : records) {
    ATTNDB_ASSIGN_OR_RETURN(std::optional<std::string> reason, ReasonToSkip(record, spec));
    if (!reason) {
      const Status status = AddContext(record, &run_of, &set);
      if (status.code() == StatusCode::kResourceExhausted) return status;
      if (!status.ok()) reason = status.message();
    }
    if (reason) set.skipped.push_back({record.Label(), *std::move(reason)});
  }
  return set;
}

Result<std::vector<ContextRecord>> Lookup::ContextsToSearch(
    const Tenant& tenant, std::span<const std::string> names) const {
  if (names.empty()) {
    if (tenant.id == TenantId::kNone) return std::vector<ContextRecord>();
    return parts_.catalog->contexts()->List(tenant.id);
  }
  std::map<ContextId, ContextRecord> records;
  for (const std::string& name : names) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                            parts_.catalog->contexts()->Find(tenant.id, name));
    records.emplace(record.id, record);
  }
  std::vector<ContextRecord> oldest_first;
  for (const auto& [id, record] : records) oldest_first.push_back(record);
  return oldest_first;
}

Result<std::optional<std::string>> Lookup::ReasonToSkip(const ContextRecord& context,
                                                        const ModelSpec& spec) const {
  if (IsExpired(context)) return std::optional<std::string>("expired");
  if (context.damaged) return std::optional<std::string>("damaged (see describe)");
  ATTNDB_ASSIGN_OR_RETURN(const bool same_model,
                          parts_.catalog->owners()->SameModel(context.tenant, context.model, spec));
  if (!same_model) return std::optional<std::string>("of another model");
  return std::optional<std::string>();
}

Status Lookup::AddContext(const ContextRecord& context, std::map<SegmentId, size_t>* run_of,
                          SearchSet* set) {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<storage::ChainEntry> entries,
                          parts_.uses->OpenContext(context.id));
  uint64_t first_token = 0;
  for (const storage::ChainEntry& entry : entries) {
    const auto [at, is_new] =
        run_of->emplace(static_cast<SegmentId>(entry.segment->id()), set->runs.size());
    if (is_new) set->runs.push_back({entry.segment, 0, first_token, {}});
    const uint64_t num_tokens = entry.num_tokens_used;
    SearchSet::Run& run = set->runs[at->second];
    run.num_tokens = std::max(run.num_tokens, num_tokens);
    run.first_token = std::min(run.first_token, first_token);
    run.uses.push_back({set->contexts.size(), first_token, num_tokens});
    first_token += num_tokens;
  }
  set->contexts.push_back(context);
  return Status::Ok();
}

}  // namespace attndb::store
