// ContextStore: the contexts that a search looks through, and their segments.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "store/context_store.h"

namespace attndb::store {

const SearchSet::RunUse& SearchSet::Run::Owner(TokenRange tokens) const {
  return *std::ranges::find_if(uses,
                               [&](const RunUse& use) { return use.num_tokens >= tokens.end; });
}

Result<SearchSet> ContextStore::OpenForSearch(const std::string& tenant, const ModelSpec& spec,
                                              std::span<const std::string> names) {
  damage_reports_.Quarantine();
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, catalog_->owners()->FindTenant(tenant));
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

Result<std::vector<ContextRecord>> ContextStore::ContextsToSearch(
    const Tenant& tenant, std::span<const std::string> names) const {
  if (names.empty()) {
    if (tenant.id == TenantId::kNone) return std::vector<ContextRecord>();
    return catalog_->contexts()->List(tenant.id);
  }
  std::map<ContextId, ContextRecord> records;
  for (const std::string& name : names) {
    ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                            catalog_->contexts()->Find(tenant.id, name));
    records.emplace(record.id, record);
  }
  std::vector<ContextRecord> oldest_first;
  for (const auto& [id, record] : records) oldest_first.push_back(record);
  return oldest_first;
}

Result<std::optional<std::string>> ContextStore::ReasonToSkip(const ContextRecord& context,
                                                              const ModelSpec& spec) const {
  if (IsExpired(context)) return std::optional<std::string>("expired");
  if (context.damaged) return std::optional<std::string>("damaged (see describe)");
  ATTNDB_ASSIGN_OR_RETURN(const bool same_model,
                          catalog_->owners()->SameModel(context.model, spec));
  if (!same_model) return std::optional<std::string>("of another model");
  return std::optional<std::string>();
}

Status ContextStore::AddContext(const ContextRecord& context, std::map<SegmentId, size_t>* run_of,
                                SearchSet* set) {
  // Held to the end, so that nobody removes a segment between its look-up and its opening.
  MutexLock lock(&use_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<ChainLink> links,
                          catalog_->contexts()->Chain(context.id));
  std::vector<std::shared_ptr<storage::Segment>> opened;
  for (const ChainLink& link : links) {
    ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, catalog_->segments()->Get(link.segment));
    Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(record);
    if (!segment.ok()) {
      (void)QuarantineIfDamaged(link.segment, segment.status());
      return std::move(segment).status();
    }
    opened.push_back(*std::move(segment));
  }
  uint64_t first_token = 0;
  for (size_t i = 0; i < links.size(); ++i) {
    const auto [at, is_new] = run_of->emplace(links[i].segment, set->runs.size());
    if (is_new) set->runs.push_back({std::move(opened[i]), 0, first_token, {}});
    const uint64_t num_tokens = links[i].num_tokens_used;
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
