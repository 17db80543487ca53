// Database: companions, built in the background and dropped when something is wrong with them.
#include <algorithm>
#include <set>

#include "db/database.h"
#include "storage/vfs/store_files.h"

namespace attndb::internal {

namespace {

db::MissingCompanions MissingOf(const CompanionForm& form) {
  return {form.kind().name, form.kind().min_tokens};
}

}  // namespace

std::vector<const CompanionForm*> Database::WantedForms(const db::SegmentRecord& segment) const {
  std::vector<const CompanionForm*> forms;
  const auto add = [&](const CompanionForm& form) {
    const CompanionKind& kind = form.kind();
    if (segment.num_tokens >= kind.min_tokens && segment.FindCompanion(kind.name) == nullptr) {
      forms.push_back(&form);
    }
  };
  if (!segment.damage.empty()) return forms;
  add(key_planes_);
  MutexLock lock(&wanted_mutex_);
  const auto wanted = wanted_.find(segment.id);
  if (wanted == wanted_.end()) return forms;
  for (const CompanionForm* const form : wanted->second) add(*form);
  return forms;
}

void Database::Want(const storage::Segment& segment, const CompanionForm* form) {
  if (!builds_companions()) return;
  const auto id = static_cast<db::SegmentId>(segment.id());
  {
    MutexLock lock(&wanted_mutex_);
    if (!wanted_[id].insert(form).second) return;  // A layer before this one has said so.
  }
  ScheduleCompanion(id);
}

Status Database::ForgetFormerKinds() {
  std::vector<std::string> kinds;
  const auto add = [&kinds](const CompanionForm& form) {
    const std::vector<std::string>& former = form.kind().former;
    kinds.insert(kinds.end(), former.begin(), former.end());
  };
  add(key_planes_);
  add(value_planes_);
  add(value_means_);
  for (const auto& [name, indexes] : indexes_) add(*indexes.form);
  for (const std::string& kind : kinds) {
    const Status status = catalog_->DropKind(kind);
    // On a full disk they stay, and a Store gives them up.
    if (!status.ok() && status.code() != StatusCode::kResourceExhausted) return status;
  }
  return Status::Ok();
}

Status Database::ScheduleMissing(db::TenantId tenant) {
  if (!builds_companions()) return Status::Ok();
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::SegmentId> segments,
                          catalog_->SegmentsWithout(tenant, MissingOf(key_planes_)));
  for (const db::SegmentId segment : segments) ScheduleCompanion(segment);
  return Status::Ok();
}

Result<uint64_t> Database::CountPending(db::TenantId tenant) const {
  if (tenant == db::TenantId::kNone) return uint64_t{0};  // It has no segments.
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::SegmentId> segments,
                          catalog_->SegmentsWithout(tenant, MissingOf(key_planes_)));
  return segments.size();
}

void Database::ScheduleCompanion(db::SegmentId segment) {
  if (!builds_companions()) return;
  const Result<db::SegmentRecord> record = catalog_->GetSegment(segment);
  if (record.ok() && WantsCompanion(*record)) worker_.Add(segment, record->kv_bytes);
}

void Database::InheritWanted(std::span<const db::ChainSegment> run,
                             const db::SegmentRecord& merged) {
  if (!builds_companions()) return;
  MutexLock lock(&wanted_mutex_);
  std::set<const CompanionForm*> inherited;
  for (const db::ChainSegment& link : run) {
    const auto add_written = [&](const CompanionForm& form) {
      if (link.segment.FindCompanion(form.kind().name) != nullptr) inherited.insert(&form);
    };
    add_written(value_planes_);
    add_written(value_means_);
    for (const auto& [name, indexes] : indexes_) add_written(*indexes.form);
    const auto waiting = wanted_.extract(link.segment.id);
    if (!waiting.empty()) inherited.insert(waiting.mapped().begin(), waiting.mapped().end());
  }
  // Too short for all of them, it would never be taken off the list.
  std::erase_if(inherited, [&](const CompanionForm* form) {
    return merged.num_tokens < form->kind().min_tokens;
  });
  if (!inherited.empty()) wanted_[merged.id] = std::move(inherited);
}

void Database::ForgetWanted(db::SegmentId segment) {
  MutexLock lock(&wanted_mutex_);
  wanted_.erase(segment);
}

void Database::ScheduleFrom(const SessionImpl& session, uint64_t first_token) {
  uint64_t end = 0;
  for (const ChainEntry& entry : session.chain()) {
    end += entry.num_tokens_used;
    if (end > first_token) ScheduleCompanion(static_cast<db::SegmentId>(entry.segment->id()));
  }
}

bool Database::DropCompanions(db::TenantId tenant) {
  const Result<std::vector<storage::ObjectName>> dropped = catalog_->DropCompanions(tenant);
  if (!dropped.ok()) return false;
  for (const storage::ObjectName& name : *dropped) companions_.RemoveFiles(name);
  return true;
}

void Database::GiveUpCompanions() {
  worker_.CancelAll();
  MutexLock lock(&store_mutex_);
  if (DropCompanions(db::TenantId::kNone)) return;
  // There is not even room for that commit: files first. Who finds a row without them drops it.
  const Result<std::vector<storage::ObjectName>> names =
      catalog_->DroppableCompanions(db::TenantId::kNone);
  if (!names.ok()) return;
  for (const storage::ObjectName& name : *names) companions_.RemoveFiles(name);
  (void)DropCompanions(db::TenantId::kNone);
}

void Database::EndDroppedBuilds() {
  for (const db::SegmentId id : Unreferenced()) worker_.Await(id);  // Cancelled when dropped.
}

Status Database::BuildCompanion(db::SegmentId id, BackgroundWorker::Control* control) {
  std::shared_ptr<storage::Segment> segment;
  db::SegmentRecord record;
  std::vector<const CompanionForm*> forms;
  {
    // Held to the end, so that nobody removes the segment between its look-up and its opening.
    MutexLock lock(&use_mutex_);
    Result<db::SegmentRecord> found = catalog_->GetSegment(id);
    const bool gone = found.status().code() == StatusCode::kNotFound;
    if (found.ok()) forms = WantedForms(*found);
    ForgetWanted(id);
    if (gone || (found.ok() && forms.empty())) {
      return Status::FailedPrecondition("segment " + std::to_string(id) + " wants none any more");
    }
    if (!found.ok()) return std::move(found).status();
    record = *std::move(found);
    ATTNDB_ASSIGN_OR_RETURN(segment, registry_.Get(record));
  }
  Status status;
  for (const CompanionForm* const form : forms) {
    if (status.ok()) status = WriteCompanion(record, *segment, *form, control);
  }
  segment.reset();
  SweepUnreferenced();  // It may have been dropped, and kept for us.
  return status;
}

Status Database::WriteCompanion(const db::SegmentRecord& record, const storage::Segment& segment,
                                const CompanionForm& form, BackgroundWorker::Control* control) {
  ATTNDB_RETURN_IF_ERROR(CheckDisk(form.ObjectBytes(segment)));
  ATTNDB_RETURN_IF_ERROR(CheckRoom(record.tenant, form.ObjectBytes(segment)));
  ATTNDB_ASSIGN_OR_RETURN(const ModelSpec spec, catalog_->GetModel(record.model));
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<storage::CompanionWriter> writer,
                          companions_.Create(segment, form.kind(), control->cancel()));
  const Status parts = form.Write(segment, spec, control->pool(), writer.get(), [&](LayerId layer) {
    control->Report(record.kv_bytes / spec.num_layers() * (layer + 1));
  });
  ReportDamage(segment, parts);  // Of its rows.
  ATTNDB_RETURN_IF_ERROR(parts);
  ATTNDB_ASSIGN_OR_RETURN(const storage::WrittenObject written, writer->Finish());
  db::CompanionRecord companion;
  companion.kind = writer->name().kind;
  companion.generation = writer->name().generation;
  companion.file_bytes = written.object_bytes + written.manifest_bytes;
  companion.root_hash = written.root_hash;
  Status status = PublishCompanion(record, companion);
  // If the commit got through although it failed, readers find no files, and drop it.
  if (!status.ok()) companions_.RemoveFiles(writer->name());
  return status;
}

Status Database::PublishCompanion(const db::SegmentRecord& segment,
                                  const db::CompanionRecord& companion) {
  MutexLock lock(&store_mutex_);  // No Store counts bytes meanwhile.
  ATTNDB_RETURN_IF_ERROR(CheckRoom(segment.tenant, companion.file_bytes));
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<db::CompanionRecord> replaced,
                          catalog_->PublishCompanion(segment.id, companion));
  for (const db::CompanionRecord& old : replaced) {
    companions_.RemoveFiles({static_cast<uint64_t>(segment.id), old.kind, old.generation});
  }
  companions_.NotePublished();
  return Status::Ok();
}

Status Database::CheckDisk(uint64_t new_bytes) const {
  constexpr uint64_t kShare = 2;  // A companion takes at most one part in it of what is free.
  const Result<uint64_t> free_bytes = file_system_->FreeBytes(segments_dir_);
  if (!free_bytes.ok() || new_bytes <= *free_bytes / kShare) return Status::Ok();
  return Status::FailedPrecondition(segments_dir_ + ": " + std::to_string(*free_bytes) +
                                    " bytes are free, too few for a companion of " +
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

Status Database::VerifyCompanion(const db::SegmentRecord& segment,
                                 const db::CompanionRecord& companion, VerifyReport* report) {
  const storage::ObjectName name = {static_cast<uint64_t>(segment.id), companion.kind,
                                    companion.generation};
  const Status status = companions_.Verify(name, companion.root_hash);
  if (status.ok()) return Status::Ok();
  if (status.code() != StatusCode::kCorruption && status.code() != StatusCode::kIoError) {
    return status;
  }
  // One that was dropped or replaced while we looked is no damage.
  const Result<db::SegmentRecord> again = catalog_->GetSegment(segment.id);
  if (again.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!again.ok()) return again.status();
  const db::CompanionRecord* const found = again->FindCompanion(companion.kind);
  if (found == nullptr || found->generation != companion.generation) return Status::Ok();
  companions_.ReportDamage(name, status);
  report->damages.push_back(
      {segment.id,
       PathInStore(name),
       status.message() + "; no context is harmed: it is made from keys and values",
       {}});
  return Status::Ok();
}

Status Database::WaitForBackground(const BackgroundWorker::Progress& progress) {
  return worker_.Wait(progress);
}

}  // namespace attndb::internal
