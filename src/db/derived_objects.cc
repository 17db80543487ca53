// Database: what derived objects need of the store (derived/store.h); when they are built, and when
// they are given up.
#include <algorithm>
#include <set>

#include "db/database.h"
#include "storage/vfs/store_files.h"

namespace attndb::internal {

derived::SegmentFacts Database::FactsOf(const db::SegmentRecord& record) {
  derived::SegmentFacts facts = {.id = static_cast<derived::SegmentId>(record.id),
                                 .num_tokens = record.num_tokens,
                                 .kv_bytes = record.kv_bytes,
                                 .damaged = !record.damage.empty(),
                                 .objects = {}};
  for (const db::CompanionRecord& object : record.companions) {
    facts.objects.push_back({object.kind, object.generation, object.file_bytes, object.root_hash});
  }
  return facts;
}

Result<derived::SegmentFacts> Database::FactsAndWishes(const db::SegmentRecord& record) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::Wish> wishes, catalog_->WishesOf(record.id));
  derived::SegmentFacts facts = FactsOf(record);
  for (const db::Wish& wish : wishes) facts.wishes.push_back(wish.kind);
  return facts;
}

// --- When they are built ---

Status Database::ForgetFormerKinds() {
  for (const auto& kind : kinds_.all()) {
    for (const std::string& former : kind->traits().former) {
      const Status status = catalog_->DropKind(former);
      // On a full disk they stay, and a Store gives them up.
      if (!status.ok() && status.code() != StatusCode::kResourceExhausted) return status;
    }
  }
  return Status::Ok();
}

Result<std::set<db::SegmentId>> Database::SegmentsToBuild(db::TenantId tenant) const {
  std::set<db::SegmentId> all;
  for (const auto& kind : kinds_.all()) {
    if (!builder_.IsForAll(*kind)) continue;
    ATTNDB_ASSIGN_OR_RETURN(
        const std::vector<db::SegmentId> segments,
        catalog_->SegmentsWithout(tenant, {kind->traits().object, kind->traits().min_tokens}));
    all.insert(segments.begin(), segments.end());
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::Wish> wishes, catalog_->Wishes(tenant));
  for (const db::Wish& wish : wishes) {
    if (kinds_.FindObject(wish.kind) != nullptr) all.insert(wish.segment);
  }
  return all;
}

Status Database::ScheduleMissing(db::TenantId tenant) {
  if (!writes_objects()) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const std::set<db::SegmentId> segments, SegmentsToBuild(tenant));
  for (const db::SegmentId segment : segments) ScheduleObjects(segment);
  return Status::Ok();
}

Result<uint64_t> Database::CountPending(db::TenantId tenant) const {
  if (tenant == db::TenantId::kNone) return uint64_t{0};  // It has no segments.
  ATTNDB_ASSIGN_OR_RETURN(const std::set<db::SegmentId> segments, SegmentsToBuild(tenant));
  return segments.size();
}

void Database::ScheduleObjects(db::SegmentId segment) {
  if (!writes_objects()) return;
  const Result<db::SegmentRecord> record = catalog_->GetSegment(segment);
  if (!record.ok()) return;
  const Result<derived::SegmentFacts> facts = FactsAndWishes(*record);
  if (facts.ok()) builder_.Schedule(*facts);
}

void Database::ScheduleFrom(const SessionImpl& session, uint64_t first_token) {
  uint64_t end = 0;
  for (const ChainEntry& entry : session.chain()) {
    end += entry.num_tokens_used;
    if (end > first_token) ScheduleObjects(static_cast<db::SegmentId>(entry.segment->id()));
  }
}

void Database::NoteGrowth(std::span<const db::ChainSegment> run, const db::SegmentRecord& merged) {
  const db::ChainSegment& first = run.front();
  if (!options_.grow_graphs || first.num_tokens_used != first.segment.num_tokens) return;
  // Opened here, where its files are still there.
  const Result<std::shared_ptr<storage::Segment>> segment = registry_.Get(first.segment);
  if (segment.ok()) builder_.GrowFrom(**segment, FactsOf(first.segment), FactsOf(merged));
}

// --- When they are given up ---

void Database::ForgetObjects(std::span<const storage::ObjectName> names) {
  for (const storage::ObjectName& name : names) {
    objects_.Forget(name);
    object_files_.Remove(name);
  }
}

bool Database::DropObjects(db::TenantId tenant) {
  const Result<std::vector<storage::ObjectName>> dropped = catalog_->DropCompanions(tenant);
  if (!dropped.ok()) return false;
  ForgetObjects(*dropped);
  return true;
}

void Database::GiveUpObjects() {
  builder_.CancelAll();
  MutexLock lock(&store_mutex_);
  if (DropObjects(db::TenantId::kNone)) return;
  // There is not even room for that commit: files first. Who finds a row without them drops it.
  const Result<std::vector<storage::ObjectName>> names =
      catalog_->DroppableCompanions(db::TenantId::kNone);
  if (!names.ok()) return;
  ForgetObjects(*names);
  (void)DropObjects(db::TenantId::kNone);
}

void Database::EndDroppedBuilds() {
  for (const db::SegmentId id : Unreferenced()) {  // Cancelled when dropped.
    background_.Await(static_cast<derived::SegmentId>(id));
  }
}

Status Database::VerifyObject(const db::SegmentRecord& segment, const db::CompanionRecord& object,
                              VerifyReport* report) {
  const storage::ObjectName name = {static_cast<uint64_t>(segment.id), object.kind,
                                    object.generation};
  const Status status = object_files_.Verify(name, object.root_hash);
  if (status.ok()) return Status::Ok();
  if (status.code() != StatusCode::kCorruption && status.code() != StatusCode::kIoError) {
    return status;
  }
  // One that was dropped or replaced while we looked is no damage.
  const Result<db::SegmentRecord> again = catalog_->GetSegment(segment.id);
  if (again.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!again.ok()) return again.status();
  const db::CompanionRecord* const found = again->FindCompanion(object.kind);
  if (found == nullptr || found->generation != object.generation) return Status::Ok();
  ReportLoss(name, status);
  report->damages.push_back(
      {segment.id,
       PathInStore(name),
       status.message() + "; no context is harmed: it is made from keys and values",
       {}});
  return Status::Ok();
}

// --- What they need of the store ---

Result<derived::OpenedSegment> Database::OpenSegment(derived::SegmentId id) {
  // Held to the end, so that nobody removes the segment between its look-up and its opening.
  MutexLock lock(&use_mutex_);
  ATTNDB_ASSIGN_OR_RETURN(const db::SegmentRecord record, SegmentToBuild(id));
  derived::OpenedSegment opened;
  ATTNDB_ASSIGN_OR_RETURN(opened.segment, registry_.Get(record));
  ATTNDB_ASSIGN_OR_RETURN(opened.spec, catalog_->GetModel(record.model));
  opened.facts = FactsOf(record);
  return opened;
}

Result<db::SegmentRecord> Database::SegmentToBuild(derived::SegmentId id) const {
  Result<db::SegmentRecord> record = catalog_->GetSegment(static_cast<db::SegmentId>(id));
  if (record.status().code() != StatusCode::kNotFound) return record;
  return Status::FailedPrecondition(record.status().message());
}

void Database::SegmentReleased() { SweepUnreferenced(); }

Status Database::Admit(derived::SegmentId id, uint64_t bytes) {
  ATTNDB_ASSIGN_OR_RETURN(const db::SegmentRecord record, SegmentToBuild(id));
  ATTNDB_RETURN_IF_ERROR(CheckDisk(bytes));
  return CheckRoom(record.tenant, bytes);
}

Result<uint64_t> Database::ReserveGeneration() { return catalog_->ReserveGeneration(); }

Status Database::Wish(derived::SegmentId id, std::string_view kind) {
  return catalog_->AddWish(static_cast<db::SegmentId>(id), kind);
}

Status Database::PublishObject(derived::SegmentId id, const derived::ObjectRecord& object) {
  MutexLock lock(&store_mutex_);  // No Store counts bytes meanwhile.
  ATTNDB_ASSIGN_OR_RETURN(const db::SegmentRecord record, SegmentToBuild(id));
  ATTNDB_RETURN_IF_ERROR(CheckRoom(record.tenant, object.file_bytes));
  db::CompanionRecord companion;
  companion.kind = object.kind;
  companion.generation = object.generation;
  companion.file_bytes = object.file_bytes;
  companion.root_hash = object.root_hash;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::CompanionRecord> replaced,
                          catalog_->PublishCompanion(record.id, companion));
  for (const db::CompanionRecord& old : replaced) {
    object_files_.Remove({id, old.kind, old.generation});
  }
  return Status::Ok();
}

void Database::ReportLoss(const storage::ObjectName& name, const Status& status) {
  if (status.code() != StatusCode::kCorruption || options_.read_only) return;
  const auto segment = static_cast<db::SegmentId>(name.segment_id);
  const Result<bool> dropped = catalog_->DropCompanion(segment, name.kind, name.generation);
  // One that is gone already was dropped by another reader, or with its segment.
  if (!dropped.ok() || !*dropped) return;
  ForgetObjects(std::span(&name, 1));
  ScheduleObjects(segment);
}

Status Database::CheckDisk(uint64_t new_bytes) const {
  constexpr uint64_t kShare = 2;  // An object takes at most one part in it of what is free.
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(segments_dir_);
  if (!free_bytes.ok() || new_bytes <= *free_bytes / kShare) return Status::Ok();
  return Status::FailedPrecondition(segments_dir_ + ": " + std::to_string(*free_bytes) +
                                    " bytes are free, too few for a derived object of " +
                                    std::to_string(new_bytes));
}

Status Database::CheckRoom(db::TenantId id, uint64_t new_bytes) const {
  ATTNDB_ASSIGN_OR_RETURN(const db::Tenant tenant, catalog_->GetTenant(id));
  if (tenant.quota_bytes == 0) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t used_bytes, catalog_->UsageBytes(id));
  if (used_bytes + new_bytes <= tenant.quota_bytes) return Status::Ok();
  return Status::FailedPrecondition("tenant '" + tenant.name + "': no room in the quota of " +
                                    std::to_string(tenant.quota_bytes) + " bytes");
}

}  // namespace attndb::internal
