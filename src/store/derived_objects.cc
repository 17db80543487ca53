#include "store/derived_objects.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "store/segment_facts.h"

namespace attndb::store {
namespace {

uint64_t BytesOf(std::span<const CompanionRecord> companions) {
  uint64_t num_bytes = 0;
  for (const CompanionRecord& companion : companions) num_bytes += companion.file_bytes;
  return num_bytes;
}

}  // namespace

// --- When they are built ---

Status DerivedObjects::ForgetFormerKinds() {
  for (const auto& kind : parts_.kinds->all()) {
    for (const std::string& former : kind->traits().former) {
      const Status status = parts_.catalog->companions()->DropKind(former);
      // On a full disk they stay, and a Store gives them up.
      if (!status.ok() && status.code() != StatusCode::kResourceExhausted) return status;
    }
  }
  return Status::Ok();
}

Result<std::set<SegmentId>> DerivedObjects::SegmentsToBuild(TenantId tenant) const {
  CatalogCompanions* const companions = parts_.catalog->companions();
  std::set<SegmentId> all;
  for (const auto& kind : parts_.kinds->all()) {
    if (!parts_.builder->IsForAll(*kind)) continue;
    ATTNDB_ASSIGN_OR_RETURN(
        const std::vector<SegmentId> segments,
        companions->SegmentsWithout(tenant, {kind->traits().object, kind->traits().min_tokens}));
    all.insert(segments.begin(), segments.end());
  }
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<store::Wish> wishes, companions->Wishes(tenant));
  for (const store::Wish& wish : wishes) {
    if (parts_.kinds->FindObject(wish.kind) != nullptr) all.insert(wish.segment);
  }
  return all;
}

Status DerivedObjects::ScheduleMissing(TenantId tenant) {
  if (!parts_.settings->writes_objects()) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const std::set<SegmentId> segments, SegmentsToBuild(tenant));
  for (const SegmentId segment : segments) Schedule(segment);
  return Status::Ok();
}

Result<uint64_t> DerivedObjects::CountPending(TenantId tenant) const {
  if (tenant == TenantId::kNone) return uint64_t{0};  // It has no segments.
  ATTNDB_ASSIGN_OR_RETURN(const std::set<SegmentId> segments, SegmentsToBuild(tenant));
  return segments.size();
}

void DerivedObjects::Schedule(SegmentId segment) {
  if (!parts_.settings->writes_objects()) return;
  const Result<SegmentRecord> record = parts_.catalog->segments()->Get(segment);
  if (!record.ok()) return;
  const Result<std::vector<store::Wish>> wishes = parts_.catalog->companions()->WishesOf(segment);
  if (!wishes.ok()) return;
  derived::SegmentFacts facts = FactsOf(*record);
  for (const store::Wish& wish : *wishes) facts.wishes.push_back(wish.kind);
  parts_.builder->Schedule(facts);
}

void DerivedObjects::ScheduleFrom(std::span<const storage::ChainEntry> chain,
                                  uint64_t first_token) {
  uint64_t end = 0;
  for (const storage::ChainEntry& entry : chain) {
    end += entry.num_tokens_used;
    if (end > first_token) Schedule(static_cast<SegmentId>(entry.segment->id()));
  }
}

bool DerivedObjects::HasThoseOfRun(const MergedRun& merged) const {
  return std::ranges::all_of(parts_.kinds->all(), [&](const auto& kind) {
    return parts_.cache->IsOnDisk(merged.merged->id(), *kind) ||
           std::ranges::none_of(merged.run, [&](const ChainLink& link) {
             return parts_.cache->IsOnDisk(static_cast<derived::SegmentId>(link.segment), *kind);
           });
  });
}

// --- When they are given up ---

void DerivedObjects::Forget(std::span<const storage::ObjectName> names) {
  for (const storage::ObjectName& name : names) {
    parts_.cache->Forget(name);
    parts_.files->Remove(name);
  }
}

bool DerivedObjects::DropAll(TenantId tenant) {
  const Result<std::vector<storage::ObjectName>> dropped =
      parts_.catalog->companions()->DropAll(tenant);
  if (!dropped.ok()) return false;
  Forget(*dropped);
  return true;
}

void DerivedObjects::GiveUp() {
  parts_.builder->CancelAll();
  MutexLock lock(parts_.commits->mutex());
  if (DropAll(TenantId::kNone)) return;
  // There is not even room for that commit: files first. Who finds a row without them drops it.
  const Result<std::vector<storage::ObjectName>> names =
      parts_.catalog->companions()->Droppable(TenantId::kNone);
  if (!names.ok()) return;
  Forget(*names);
  (void)DropAll(TenantId::kNone);
}

void DerivedObjects::EndDroppedBuilds() {
  for (const SegmentId id : parts_.uses->Unreferenced()) {  // Cancelled when dropped.
    parts_.background->Await(static_cast<derived::SegmentId>(id));
  }
  parts_.uses->AwaitRemovals();
}

// --- What they need of the store ---

Result<derived::OpenedSegment> DerivedObjects::OpenSegment(derived::SegmentId id) {
  ATTNDB_ASSIGN_OR_RETURN(Uses::OpenedSegment opened,
                          parts_.uses->OpenSegment(static_cast<SegmentId>(id)));
  ATTNDB_ASSIGN_OR_RETURN(ModelSpec spec, parts_.catalog->owners()->GetModel(opened.record.model));
  return derived::OpenedSegment{FactsOf(opened.record), std::move(spec), std::move(opened.segment)};
}

Result<SegmentRecord> DerivedObjects::SegmentToBuild(derived::SegmentId id) const {
  Result<SegmentRecord> record = parts_.catalog->segments()->Get(static_cast<SegmentId>(id));
  if (record.status().code() != StatusCode::kNotFound) return record;
  return Status::FailedPrecondition(record.status().message());
}

void DerivedObjects::SegmentReleased() {
  parts_.uses->Sweep();
  parts_.merged_runs->Announce();  // A merged segment may have all that its run had.
}

std::vector<CompanionRecord> DerivedObjects::ReplacedBy(const SegmentRecord& record,
                                                        std::string_view kind) const {
  const derived::Kind* const known = parts_.kinds->FindObject(kind);
  const std::string begun = known == nullptr ? std::string() : known->traits().begun;
  std::vector<CompanionRecord> replaced;
  for (const CompanionRecord& companion : record.companions) {
    if (companion.kind == kind || companion.kind == begun) replaced.push_back(companion);
  }
  return replaced;
}

Status DerivedObjects::Admit(derived::SegmentId id, std::string_view kind, uint64_t bytes) {
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, SegmentToBuild(id));
  const std::vector<CompanionRecord> replaced = ReplacedBy(record, kind);
  const uint64_t freed_bytes = BytesOf(replaced);
  ATTNDB_RETURN_IF_ERROR(parts_.space->CheckQuota(record.tenant, bytes, freed_bytes));
  const Status room = parts_.space->CheckDisk(bytes);
  // Files of both would be there until the object is published.
  if (room.ok() || !parts_.space->CheckDisk(bytes, freed_bytes).ok()) return room;
  for (const CompanionRecord& old : replaced) DropObject({id, old.kind, old.generation});
  return parts_.space->CheckDisk(bytes);
}

Result<uint64_t> DerivedObjects::ReserveGeneration() {
  return parts_.catalog->companions()->ReserveGeneration();
}

Status DerivedObjects::Wish(derived::SegmentId id, std::string_view kind) {
  return parts_.catalog->companions()->AddWish(static_cast<SegmentId>(id), kind);
}

Status DerivedObjects::PublishObject(derived::SegmentId id, const derived::ObjectRecord& object) {
  MutexLock lock(parts_.commits->mutex());  // No Store counts bytes meanwhile.
  ATTNDB_ASSIGN_OR_RETURN(const SegmentRecord record, SegmentToBuild(id));
  ATTNDB_RETURN_IF_ERROR(parts_.space->CheckQuota(record.tenant, object.file_bytes,
                                                  BytesOf(ReplacedBy(record, object.kind))));
  CompanionRecord companion;
  companion.kind = object.kind;
  companion.generation = object.generation;
  companion.file_bytes = object.file_bytes;
  companion.root_hash = object.root_hash;
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<CompanionRecord> replaced,
                          parts_.catalog->companions()->Publish(record.id, companion));
  for (const CompanionRecord& old : replaced) {
    parts_.files->Remove({id, old.kind, old.generation});
  }
  const Result<Tenant> owner = parts_.catalog->owners()->GetTenant(record.tenant);
  // A build that was cut short is counted once the next one has made the rest.
  const bool is_begun = std::ranges::any_of(
      parts_.kinds->all(), [&](const auto& kind) { return kind->traits().begun == object.kind; });
  if (owner.ok() && !is_begun) parts_.counts->Of(owner->name)->num_companions_built.Add(1);
  return Status::Ok();
}

void DerivedObjects::DropObject(const storage::ObjectName& name) {
  const Result<bool> dropped = parts_.catalog->companions()->Drop(
      static_cast<SegmentId>(name.segment_id), name.kind, name.generation);
  // If that fails it is dropped with its segment, or with the next object of its kind.
  if (dropped.ok() && *dropped) Forget(std::span(&name, 1));
}

void DerivedObjects::ReportLoss(const storage::ObjectName& name, const Status& status) {
  if (status.code() != StatusCode::kCorruption || parts_.catalog->read_only()) return;
  const auto segment = static_cast<SegmentId>(name.segment_id);
  const Result<bool> dropped =
      parts_.catalog->companions()->Drop(segment, name.kind, name.generation);
  // One that is gone already was dropped by another reader, or with its segment.
  if (!dropped.ok() || !*dropped) return;
  Forget(std::span(&name, 1));
  Schedule(segment);
}

void DerivedObjects::ReportDamage(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption) return;
  // If the catalog can't be written either, the caller still gets its error; Verify finds both.
  (void)parts_.damage->QuarantineIfDamaged(static_cast<SegmentId>(segment.id()), status);
}

}  // namespace attndb::store
