#include "db/damage_reports.h"

#include <utility>

namespace attndb::internal {

void DamageReports::Note(db::SegmentId segment, const std::string& damage) {
  MutexLock lock(&mutex_);
  noted_.try_emplace(segment, damage);
}

void DamageReports::Quarantine() {
  MutexLock writing(&writing_);
  std::map<db::SegmentId, std::string> noted;
  {
    MutexLock lock(&mutex_);
    noted.swap(noted_);
  }
  for (const auto& [segment, damage] : noted) (void)catalog_->Quarantine(segment, damage);
}

}  // namespace attndb::internal
