#include "store/damage_reports.h"

#include <utility>

namespace attndb::store {

void DamageReports::Note(SegmentId segment, const std::string& damage) {
  MutexLock lock(&mutex_);
  noted_.try_emplace(segment, damage);
}

void DamageReports::Quarantine() {
  MutexLock writing(&writing_);
  std::map<SegmentId, std::string> noted;
  {
    MutexLock lock(&mutex_);
    noted.swap(noted_);
  }
  for (const auto& [segment, damage] : noted)
    (void)catalog_->segments()->Quarantine(segment, damage);
}

}  // namespace attndb::store
