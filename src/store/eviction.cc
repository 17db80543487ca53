// ContextStore: which contexts and files go: expired, evicted for a quota, dropped, let go of.
#include <algorithm>

#include "storage/vfs/store_files.h"
#include "store/context_store.h"

namespace attndb::store {

Status ContextStore::ExpireContexts() {
  ATTNDB_ASSIGN_OR_RETURN(const bool any, catalog_->contexts()->AnyExpired());
  if (!any) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const DropOutcome outcome, catalog_->contexts()->Expire(ContextsInUse()));
  RemoveUnreferenced(outcome.unreferenced);
  return Status::Ok();
}

Result<ContextStore::Victims> ContextStore::ChooseVictims(const Tenant& tenant,
                                                          uint64_t new_bytes) const {
  if (tenant.quota_bytes == 0) return Victims();
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, catalog_->Stats(tenant.id));
  if (stats.file_bytes + new_bytes <= tenant.quota_bytes) return Victims();
  const uint64_t missing_bytes = stats.file_bytes + new_bytes - tenant.quota_bytes;
  ATTNDB_ASSIGN_OR_RETURN(Victims victims, Evictable(tenant, missing_bytes, true));
  if (victims.freed_bytes >= missing_bytes) return victims;
  // Derived objects alone are no reason to refuse: they can be made again.
  const uint64_t missing_without = missing_bytes - std::min(missing_bytes, stats.companion_bytes);
  ATTNDB_ASSIGN_OR_RETURN(victims, Evictable(tenant, missing_without, false));
  victims.objects = true;
  if (victims.freed_bytes >= missing_without) return victims;
  return Status::ResourceExhausted(
      "tenant '" + tenant.name + "': quota of " + std::to_string(tenant.quota_bytes) + " bytes; " +
      std::to_string(stats.file_bytes) + " are used, " + std::to_string(new_bytes) +
      " more are needed, and contexts that are neither pinned nor in use hold " +
      std::to_string(victims.freed_bytes));
}

Result<ContextStore::Victims> ContextStore::Evictable(const Tenant& tenant, uint64_t missing_bytes,
                                                      bool with_objects) const {
  const std::vector<ContextId> in_use = ContextsInUse();
  ATTNDB_ASSIGN_OR_RETURN(
      Evictions evictions,
      catalog_->contexts()->ChooseEvictions({tenant.id, in_use, missing_bytes, with_objects}));
  return Victims{std::move(evictions.contexts), evictions.freed_bytes};
}

Status ContextStore::Drop(const std::string& tenant, std::string_view context) {
  ATTNDB_RETURN_IF_ERROR(CheckWritable());
  Status status = TryDrop(tenant, context);
  if (status.code() == StatusCode::kResourceExhausted) {
    AwaitMerge();
    reserve_.Release();
    status = TryDrop(tenant, context);
  }
  reserve_.Take();
  return status;
}

Status ContextStore::TryDrop(const std::string& tenant, std::string_view context) {
  MutexLock lock(&store_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record, catalog_->contexts()->Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const DropOutcome outcome,
                          catalog_->contexts()->Drop(record.tenant, record.id));
  RemoveUnreferenced(outcome.unreferenced);
  return Status::Ok();
}

void ContextStore::DiscardSegment(SegmentId id) {
  registry_.Forget(id);
  // If the removal fails the file is an orphan, which the next open removes.
  (void)storage::RemoveSegment(file_system_, segments_dir_, static_cast<uint64_t>(id));
}

void ContextStore::DiscardUnpublished(SegmentId id, const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kNotFound:
    case StatusCode::kAlreadyExists:
    case StatusCode::kFailedPrecondition:
    case StatusCode::kReadOnly:
      return DiscardSegment(id);  // Refused before the commit.
    default:
      // Once the log is empty no opener can find the commit in it: a full disk gets its room back.
      if (catalog_->EmptyLog()) return DiscardSegment(id);
      registry_.Forget(id);
      doubtful_.insert(id);
  }
}

void ContextStore::DiscardDoubtful() {
  for (const SegmentId id : doubtful_) {
    if (catalog_->segments()->Get(id).status().code() == StatusCode::kNotFound) DiscardSegment(id);
  }
  doubtful_.clear();
}

std::vector<SegmentId> ContextStore::Unreferenced() const {
  MutexLock lock(&use_mutex_);
  return {unreferenced_.begin(), unreferenced_.end()};
}

void ContextStore::Sweep() {
  // What nobody holds any more needs no other in its place. The merged segment of a run that is
  // forgotten may have been the last that held a segment of a later run.
  const auto is_unused = [this](const MergedRun& merged) {
    return std::ranges::none_of(
        merged.run, [this](const ChainLink& link) { return registry_.InUse(link.segment); });
  };
  while (merged_runs_.Forget(is_unused) > 0) {
  }
  RemoveUnreferenced(Unreferenced());
}

void ContextStore::RemoveUnreferenced(std::span<const SegmentId> segments) {
  if (segments.empty() || options_.read_only) return;
  MutexLock lock(&use_mutex_);
  std::vector<SegmentId> removable;
  for (const SegmentId id : segments) {
    // A job that is at it lets go soon, and sweeps.
    builder_.Cancel(static_cast<derived::SegmentId>(id));
    if (registry_.InUse(id)) {
      unreferenced_.insert(id);
    } else {
      unreferenced_.erase(id);
      removable.push_back(id);
    }
  }
  if (removable.empty()) return;
  const Result<std::vector<SegmentRecord>> removed = catalog_->segments()->Remove(removable);
  if (!removed.ok()) return;  // The next open forgets them.
  for (const SegmentRecord& segment : *removed) {
    DiscardSegment(segment.id);
    for (const CompanionRecord& companion : segment.companions) {
      object_files_.Remove(
          {static_cast<uint64_t>(segment.id), companion.kind, companion.generation});
    }
  }
}

}  // namespace attndb::store
