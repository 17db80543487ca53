#include "store/tenant_counts.h"

namespace attndb::store {

void EvictedContexts::Add(std::span<const std::string> labels) {
  MutexLock lock(&mutex_);
  number_ += labels.size();
  labels_.insert(labels_.end(), labels.begin(), labels.end());
  while (labels_.size() > kMaxLabels) labels_.pop_front();
}

uint64_t EvictedContexts::number() const {
  MutexLock lock(&mutex_);
  return number_;
}

std::vector<std::string> EvictedContexts::labels() const {
  MutexLock lock(&mutex_);
  return {labels_.begin(), labels_.end()};
}

void CountsOfTenant::AddTo(DBStats* stats) const {
  stats->num_sessions += num_sessions.value();
  stats->num_lookups += num_lookups.value();
  stats->num_prompt_tokens += num_prompt_tokens.value();
  stats->num_reused_tokens += num_reused_tokens.value();
  stats->num_stores += num_stores.value();
  stats->num_evictions += evictions.number();
  stats->bytes_written += bytes_written.value();
  stats->bytes_merged += bytes_merged.value();
  stats->num_companions_built += num_companions_built.value();
}

CountsOfTenant* TenantCounts::Of(std::string_view tenant) {
  MutexLock lock(&mutex_);
  const auto found = counts_.find(tenant);
  return found != counts_.end() ? &found->second : &counts_[std::string(tenant)];
}

void TenantCounts::AddAllTo(DBStats* stats) const {
  MutexLock lock(&mutex_);
  for (const auto& [tenant, counts] : counts_) counts.AddTo(stats);
}

}  // namespace attndb::store
