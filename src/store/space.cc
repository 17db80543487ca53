#include "store/space.h"

#include <algorithm>
#include <string>
#include <utility>

namespace attndb::store {

Result<Space::Victims> Space::ChooseVictims(const Tenant& tenant, uint64_t new_bytes) const {
  if (tenant.quota_bytes == 0) return Victims();
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, catalog_->Stats(tenant.id));
  if (stats.file_bytes + new_bytes <= tenant.quota_bytes) return Victims();
  const uint64_t missing_bytes = stats.file_bytes + new_bytes - tenant.quota_bytes;
  ATTNDB_ASSIGN_OR_RETURN(Victims victims, Evictable(tenant.id, missing_bytes, true));
  if (victims.freed_bytes >= missing_bytes) return victims;
  // Derived objects alone are no reason to refuse: they can be made again.
  const uint64_t missing_without = missing_bytes - std::min(missing_bytes, stats.companion_bytes);
  ATTNDB_ASSIGN_OR_RETURN(victims, Evictable(tenant.id, missing_without, false));
  victims.objects = true;
  if (victims.freed_bytes >= missing_without) return victims;
  return Status::ResourceExhausted(
      "tenant '" + tenant.name + "': quota of " + std::to_string(tenant.quota_bytes) + " bytes; " +
      std::to_string(stats.file_bytes) + " are used, " + std::to_string(new_bytes) +
      " more are needed, and contexts that are neither pinned nor in use hold " +
      std::to_string(victims.freed_bytes));
}

Result<Space::Victims> Space::Evictable(TenantId tenant, uint64_t missing_bytes,
                                        bool with_objects) const {
  const std::vector<ContextId> in_use = uses_->ContextsInUse();
  ATTNDB_ASSIGN_OR_RETURN(Evictions evictions, catalog_->contexts()->ChooseEvictions(
                                                   {tenant, in_use, missing_bytes, with_objects}));
  return Victims{std::move(evictions.contexts), evictions.freed_bytes};
}

Status Space::CheckQuota(TenantId id, uint64_t new_bytes) const {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant, catalog_->owners()->GetTenant(id));
  if (tenant.quota_bytes == 0) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, catalog_->Stats(id));
  if (stats.file_bytes + new_bytes <= tenant.quota_bytes) return Status::Ok();
  return Status::FailedPrecondition("tenant '" + tenant.name + "': no room in the quota of " +
                                    std::to_string(tenant.quota_bytes) + " bytes");
}

Status Space::CheckDisk(uint64_t new_bytes) const {
  constexpr uint64_t kShare = 2;  // An object takes at most half of what is free.
  const Result<uint64_t> free_bytes = settings_->file_system->FreeBytes(settings_->segments_dir);
  if (!free_bytes.ok() || new_bytes <= *free_bytes / kShare) return Status::Ok();
  return Status::FailedPrecondition(settings_->segments_dir + ": " + std::to_string(*free_bytes) +
                                    " bytes are free, too few for an object of " +
                                    std::to_string(new_bytes));
}

bool Space::IsDiskFull(uint64_t kv_bytes) const {
  constexpr uint64_t kCommitBytes = uint64_t{1} << 20;
  const Result<uint64_t> free_bytes = settings_->file_system->FreeBytes(settings_->segments_dir);
  return free_bytes.ok() && *free_bytes < 2 * kv_bytes + kCommitBytes;
}

}  // namespace attndb::store
