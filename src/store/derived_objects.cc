// ContextStore: what derived objects need of the store (derived/store.h); when they are built, and
//               when
// they are given up.
#include <algorithm>
#include <set>

#include "storage/vfs/store_files.h"
#include "store/context_store.h"

namespace attndb::store {

derived::SegmentFacts ContextStore::FactsOf(const SegmentRecord& record) {
  derived::SegmentFacts facts = {.id = static_cast<derived::SegmentId>(record.id),
                                 .num_tokens = record.num_tokens,
                                 .kv_bytes = record.kv_bytes,
                                 .damaged = !record.damage.empty(),
                                 .objects = {}};
  for (const CompanionRecord& object : record.companions) {
    facts.objects.push_back({object.kind, object.generation, object.file_bytes, object.root_hash});
  }
  return facts;
}

Result<derived::SegmentFacts> ContextStore::FactsAndWishes(const SegmentRecord& record) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<store::Wish> wishes,
                          catalog_->companions()->WishesOf(record.id));
  derived::SegmentFacts facts = FactsOf(record);
  for (const store::Wish& wish : wishes) facts.wishes.push_back(wish.kind);
  return facts;
}

// --- When they are built ---

Status ContextStore::ForgetFormerKinds() {
  for (const auto& kind : kinds_.all()) {
    for (const std::string& former : kind->traits().former) {
      const Status status = catalog_->companions()->DropKind(former);
      // On a full disk they stay, and a Store gives them up.
      if (!status.ok() && status.code() != StatusCode::kResourceExhausted) return status;
    }
  }
  return Status::Ok();
}

Result<std::set<SegmentId>> ContextStore::SegmentsToBuild(TenantId tenant) const {
  std::set<SegmentId> all;
  for (const auto& kind : kinds_.all()) {
    if (!builder_.IsForAll(*kind)) continue;
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<SegmentId> segments,
                            catalog_->companions()->SegmentsWithout(
                                tenant, {kind->traits().object, kind->traits().min_tokens}));
    all.insert(segments.begin(), segments.end());
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<store::Wish> wishes,
                          catalog_->companions()->Wishes(tenant));
  for (const store::Wish& wish : wishes) {
    if (kinds_.FindObject(wish.kind) != nullptr) all.insert(wish.segment);
  }
  return all;
}

Status ContextStore::ScheduleMissing(TenantId tenant) {
  if (!writes_objects()) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const std::set<SegmentId> segments, SegmentsToBuild(tenant));
  for (const SegmentId segment : segments) ScheduleObjects(segment);
  return Status::Ok();
}

Result<uint64_t> ContextStore::CountPending(TenantId tenant) const {
  if (tenant == TenantId::kNone) return uint64_t{0};  // It has no segments.
  ATTNDB_ASSIGN_OR_RETURN(const std::set<SegmentId> segments, SegmentsToBuild(tenant));
  return segments.size();
}

void ContextStore::ScheduleObjects(SegmentId segment) {
  if (!writes_objects()) return;
  const Result<SegmentRecord> record = catalog_->segments()->Get(segment);
  if (!record.ok()) return;
  const Result<derived::SegmentFacts> facts = FactsAndWishes(*record);
  if (facts.ok()) builder_.Schedule(*facts);
}

void ContextStore::ScheduleFrom(std::span<const storage::ChainEntry> chain, uint64_t first_token) {
  uint64_t end = 0;
  for (const storage::ChainEntry& entry : chain) {
    end += entry.num_tokens_used;
    if (end > first_token) ScheduleObjects(static_cast<SegmentId>(entry.segment->id()));
  }
}

void ContextStore::NoteGrowth(std::span<const ChainSegment> run, const SegmentRecord& merged) {
  const ChainSegment& first = run.front();
  if (!options_.grow_graphs || first.num_tokens_used != first.segment.num_tokens) return;
  // Opened here, where its files are still there.
  const Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(first.segment);
  if (segment.ok()) builder_.GrowFrom(**segment, FactsOf(first.segment), FactsOf(merged));
}

// --- When they are given up ---

void ContextStore::ForgetObjects(std::span<const storage::ObjectName> names) {
  for (const storage::ObjectName& name : names) {
    objects_.Forget(name);
    object_files_.Remove(name);
  }
}

bool ContextStore::DropObjects(TenantId tenant) {
  const Result<std::vector<storage::ObjectName>> dropped = catalog_->companions()->DropAll(tenant);
  if (!dropped.ok()) return false;
  ForgetObjects(*dropped);
  return true;
}

void ContextStore::GiveUpObjects() {
  builder_.CancelAll();
  MutexLock lock(&store_mutex_);
  if (DropObjects(TenantId::kNone)) return;
  // There is not even room for that commit: files first. Who finds a row without them drops it.
  const Result<std::vector<storage::ObjectName>> names =
      catalog_->companions()->Droppable(TenantId::kNone);
  if (!names.ok()) return;
  ForgetObjects(*names);
  (void)DropObjects(TenantId::kNone);
}

void ContextStore::EndDroppedBuilds() {
  for (const SegmentId id : Unreferenced()) {  // Cancelled when dropped.
    background_.Await(static_cast<derived::SegmentId>(id));
  }
}

// --- What they need of the store ---

Result<derived::OpenedSegment> ContextStore::OpenSegment(derived::SegmentId id) {
  // Held to the end, so that nobody removes the segment between its look-up and its opening.
  MutexLock lock(&use_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, SegmentToBuild(id));
  derived::OpenedSegment opened;
  ATTNDB_ASSIGN_OR_RETURN(opened.segment, registry_.Get(record));
  ATTNDB_ASSIGN_OR_RETURN(opened.spec, catalog_->owners()->GetModel(record.model));
  opened.facts = FactsOf(record);
  return opened;
}

Result<SegmentRecord> ContextStore::SegmentToBuild(derived::SegmentId id) const {
  Result<SegmentRecord> record = catalog_->segments()->Get(static_cast<SegmentId>(id));
  if (record.status().code() != StatusCode::kNotFound) return record;
  return Status::FailedPrecondition(record.status().message());
}

void ContextStore::SegmentReleased() {
  Sweep();
  if (merged_ && num_merged() > 0) merged_();  // A merged segment may have all that its run had.
}

Status ContextStore::Admit(derived::SegmentId id, uint64_t bytes) {
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, SegmentToBuild(id));
  ATTNDB_RETURN_IF_ERROR(CheckDisk(bytes));
  return CheckRoom(record.tenant, bytes);
}

Result<uint64_t> ContextStore::ReserveGeneration() {
  return catalog_->companions()->ReserveGeneration();
}

Status ContextStore::Wish(derived::SegmentId id, std::string_view kind) {
  return catalog_->companions()->AddWish(static_cast<SegmentId>(id), kind);
}

Status ContextStore::PublishObject(derived::SegmentId id, const derived::ObjectRecord& object) {
  MutexLock lock(&store_mutex_);  // No Store counts bytes meanwhile.
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, SegmentToBuild(id));
  ATTNDB_RETURN_IF_ERROR(CheckRoom(record.tenant, object.file_bytes));
  CompanionRecord companion;
  companion.kind = object.kind;
  companion.generation = object.generation;
  companion.file_bytes = object.file_bytes;
  companion.root_hash = object.root_hash;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<CompanionRecord> replaced,
                          catalog_->companions()->Publish(record.id, companion));
  for (const CompanionRecord& old : replaced) {
    object_files_.Remove({id, old.kind, old.generation});
  }
  return Status::Ok();
}

void ContextStore::ReportLoss(const storage::ObjectName& name, const Status& status) {
  if (status.code() != StatusCode::kCorruption || options_.read_only) return;
  const auto segment = static_cast<SegmentId>(name.segment_id);
  const Result<bool> dropped = catalog_->companions()->Drop(segment, name.kind, name.generation);
  // One that is gone already was dropped by another reader, or with its segment.
  if (!dropped.ok() || !*dropped) return;
  ForgetObjects(std::span(&name, 1));
  ScheduleObjects(segment);
}

void ContextStore::ReportDamage(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption || options_.read_only) return;
  // If the catalog can't be written either, the caller still gets its error; Verify finds both.
  (void)catalog_->segments()->Quarantine(static_cast<SegmentId>(segment.id()), status.message());
}

Status ContextStore::CheckDisk(uint64_t new_bytes) const {
  constexpr uint64_t kShare = 2;  // An object takes at most half of what is free.
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(segments_dir_);
  if (!free_bytes.ok() || new_bytes <= *free_bytes / kShare) return Status::Ok();
  return Status::FailedPrecondition(segments_dir_ + ": " + std::to_string(*free_bytes) +
                                    " bytes are free, too few for an object of " +
                                    std::to_string(new_bytes));
}

Status ContextStore::CheckRoom(TenantId id, uint64_t new_bytes) const {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant tenant, catalog_->owners()->GetTenant(id));
  if (tenant.quota_bytes == 0) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const CatalogStats stats, catalog_->Stats(id));
  if (stats.file_bytes + new_bytes <= tenant.quota_bytes) return Status::Ok();
  return Status::FailedPrecondition("tenant '" + tenant.name + "': no room in the quota of " +
                                    std::to_string(tenant.quota_bytes) + " bytes");
}

}  // namespace attndb::store
