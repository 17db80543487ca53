#include "store/damage_reports.h"

#include <utility>

#include "store/lanes.h"

namespace attndb::store {

void DamageReports::Note(const storage::Segment& segment, const Status& status) {
  if (status.code() != StatusCode::kCorruption || catalog_->read_only()) return;
  {
    MutexLock lock(&mutex_);
    noted_.try_emplace(static_cast<SegmentId>(segment.id()), status.message());
  }
  background_->Add(kShortLane, {.run = [this](derived::Lanes::Control*) {
                     Quarantine();
                     return Status::Ok();
                   }});
}

void DamageReports::Quarantine() {
  MutexLock writing(&writing_);
  std::map<SegmentId, std::string> noted;
  {
    MutexLock lock(&mutex_);
    noted.swap(noted_);
  }
  for (const auto& [segment, damage] : noted) {
    (void)catalog_->segments()->Quarantine(segment, damage);
  }
}

Status DamageReports::QuarantineIfDamaged(SegmentId segment, Status status) {
  // A file that is missing while the catalog names it is damage, too.
  const bool damaged =
      status.code() == StatusCode::kCorruption || status.code() == StatusCode::kNotFound;
  if (!damaged || catalog_->read_only()) return status;
  ATTNDB_RETURN_IF_ERROR(catalog_->segments()->Quarantine(segment, status.message()).status());
  return Status::Corruption(status.message());
}

}  // namespace attndb::store
