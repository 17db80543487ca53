#include "store/damage_reports.h"

#include <utility>

#include "attndb/units.h"
#include "store/lanes.h"

namespace attndb::store {
namespace {

bool IsDamage(const Status& status) {
  // A file that is missing while the catalog names it is damage, too.
  return status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound;
}

}  // namespace

void DamageReports::Note(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption || catalog_->read_only()) return;
  {
    MutexLock lock(&mutex_);
    noted_.insert(static_cast<SegmentId>(segment.id()));
  }
  background_->Add(kShortLane, {.run = [this](derived::Lanes::Control*) {
                     Quarantine();
                     return Status::Ok();
                   }});
}

void DamageReports::Quarantine() {
  MutexLock writing(&writing_);
  std::set<SegmentId> noted;
  {
    MutexLock lock(&mutex_);
    noted.swap(noted_);
  }
  for (const SegmentId segment : noted) {
    const Result<SegmentRecord> record = catalog_->segments()->Get(segment);
    if (!record.ok()) continue;
    const storage::SegmentDamage damage = Find(*record);
    if (IsDamage(damage.status)) (void)Quarantine(segment, damage);
  }
}

storage::SegmentDamage DamageReports::Find(const SegmentRecord& record) const {
  const Result<std::shared_ptr<storage::Segment>> segment = registry_->OpenAfresh(record);
  return segment.ok() ? (*segment)->FindDamage() : storage::SegmentDamage{segment.status(), 0};
}

Result<std::vector<ContextRecord>> DamageReports::Quarantine(SegmentId segment,
                                                             const storage::SegmentDamage& damage) {
  return catalog_->segments()->Quarantine(segment, MessageOf(damage), damage.num_sound);
}

std::string DamageReports::MessageOf(const storage::SegmentDamage& damage) {
  std::string message(damage.status.message());
  if (damage.num_sound == 0) return message;
  return message + "; its sound beginning has " + Counted(damage.num_sound, "token");
}

Status DamageReports::CheckFiles(SegmentId segment, uint64_t file_bytes) {
  Status status = registry_->CheckFiles(segment, file_bytes);
  if (!IsDamage(status)) return status;
  // A segment that was sealed and is not stored yet has nothing to quarantine.
  const StatusCode known = catalog_->segments()->Get(segment).status().code();
  if (known == StatusCode::kNotFound) return status;
  return QuarantineIfDamaged(segment, std::move(status));
}

Status DamageReports::QuarantineIfDamaged(SegmentId segment, Status status) {
  if (!IsDamage(status) || catalog_->read_only()) return status;
  const Result<SegmentRecord> record = catalog_->segments()->Get(segment);
  storage::SegmentDamage damage = record.ok() ? Find(*record) : storage::SegmentDamage{status, 0};
  // Notes the damage that was seen. It harms no context if the second read found all tokens sound.
  if (damage.status.ok()) damage = {status, record->num_tokens};
  if (!IsDamage(damage.status)) damage = {status, 0};
  ATTNDB_RETURN_IF_ERROR(Quarantine(segment, damage).status());
  return Status::Corruption(status.message());
}

}  // namespace attndb::store
