#include "store/space.h"

#include <algorithm>
#include <string>
#include <utility>

#include "attndb/units.h"

namespace attndb::store {
namespace {

constexpr uint64_t kCommitBytes = uint64_t{1} << 20;

}  // namespace

Result<Space::Victims> Space::ChooseVictims(const Tenant& tenant, uint64_t new_bytes,
                                            std::span<const SegmentId> kept,
                                            ContextId in_use) const {
  if (tenant.quota_bytes == 0) return Victims();
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, catalog_->Stats(tenant.id));
  if (stats.file_bytes + new_bytes <= tenant.quota_bytes) return Victims();
  const uint64_t missing_bytes = stats.file_bytes + new_bytes - tenant.quota_bytes;
  ATTNDB_ASSIGN_OR_RETURN(Victims victims,
                          Evictable({tenant.id, {}, missing_bytes, true, kept}, in_use));
  if (victims.freed_bytes >= missing_bytes) return victims;
  // Derived objects alone are no reason to refuse: they can be made again.
  const uint64_t missing_without = missing_bytes - std::min(missing_bytes, stats.companion_bytes);
  ATTNDB_ASSIGN_OR_RETURN(victims,
                          Evictable({tenant.id, {}, missing_without, false, kept}, in_use));
  victims.objects = true;
  if (victims.freed_bytes >= missing_without) return victims;
  return Status::ResourceExhausted(
      "tenant '" + tenant.name + "': quota of " + FormatBytes(tenant.quota_bytes) + "; " +
      FormatBytes(stats.file_bytes) + " are used, " + FormatBytes(new_bytes) +
      " more are needed, and contexts that are neither pinned nor in use hold " +
      FormatBytes(victims.freed_bytes));
}

Result<Space::Victims> Space::Evictable(EvictionRequest request, ContextId in_use) const {
  std::vector<ContextId> used = uses_->ContextsInUse();
  if (in_use != ContextId::kNone) used.insert(std::ranges::lower_bound(used, in_use), in_use);
  request.in_use = used;
  ATTNDB_ASSIGN_OR_RETURN(Evictions evictions, catalog_->contexts()->ChooseEvictions(request));
  return Victims{std::move(evictions.contexts), evictions.freed_bytes};
}

Status Space::CheckQuota(TenantId id, uint64_t new_bytes, uint64_t freed_bytes) const {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant, catalog_->owners()->GetTenant(id));
  if (tenant.quota_bytes == 0) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, catalog_->Stats(id));
  const uint64_t kept_bytes = stats.file_bytes - std::min(stats.file_bytes, freed_bytes);
  if (kept_bytes + new_bytes <= tenant.quota_bytes) return Status::Ok();
  return Status::FailedPrecondition("tenant '" + tenant.name + "': no room in the quota of " +
                                    FormatBytes(tenant.quota_bytes));
}

Status Space::CheckDisk(uint64_t new_bytes, uint64_t freed_bytes) const {
  constexpr uint64_t kShare = 2;  // An object takes at most half of the free bytes.
  const Result<uint64_t> free_bytes = settings_->file_system->FreeBytes(settings_->segments_dir);
  if (!free_bytes.ok() || new_bytes <= (*free_bytes + freed_bytes) / kShare) return Status::Ok();
  return Status::FailedPrecondition(settings_->segments_dir + ": " + FormatBytes(*free_bytes) +
                                    " are free, too few for an object of " +
                                    FormatBytes(new_bytes));
}

Status Space::CheckDiskForStore(uint64_t kv_bytes) const {
  const Result<uint64_t> free_bytes = settings_->file_system->FreeBytes(settings_->segments_dir);
  const uint64_t needed_bytes = kv_bytes + kCommitBytes;
  if (!free_bytes.ok() || needed_bytes <= *free_bytes) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t droppable_bytes, DroppableBytes());
  if (needed_bytes - *free_bytes <= droppable_bytes) return Status::Ok();
  return Status::ResourceExhausted(settings_->segments_dir + ": the disk has " +
                                   FormatBytes(*free_bytes) + " free, " +
                                   FormatBytes(needed_bytes) + " are needed");
}

Result<uint64_t> Space::DroppableBytes() const {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<storage::ObjectName> names,
                          catalog_->companions()->Droppable(TenantId::kNone));
  uint64_t num_bytes = 0;
  for (const storage::ObjectName& name : names) {
    const Result<SegmentRecord> segment =
        catalog_->segments()->Get(static_cast<SegmentId>(name.segment_id));
    if (segment.status().code() == StatusCode::kNotFound) continue;  // It went meanwhile.
    ATTNDB_RETURN_IF_ERROR(segment.status());
    for (const CompanionRecord& object : segment->companions) {
      const bool is_it = object.kind == name.kind && object.generation == name.generation;
      num_bytes += is_it ? object.file_bytes : 0;
    }
  }
  return num_bytes;
}

bool Space::IsDiskFull(uint64_t kv_bytes) const {
  const Result<uint64_t> free_bytes = settings_->file_system->FreeBytes(settings_->segments_dir);
  return free_bytes.ok() && *free_bytes < 2 * kv_bytes + kCommitBytes;
}

}  // namespace attndb::store
