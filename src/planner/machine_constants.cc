#include "planner/machine_constants.h"

namespace attndb::planner {

double AtGroup(const GroupNanos& nanos, double num_q_rows) {
  size_t i = 1;
  while (i + 1 < kBaseGroups.size() && num_q_rows > kBaseGroups[i]) ++i;
  const double low = kBaseGroups[i - 1];
  const double high = kBaseGroups[i];
  const double slope = (nanos[i] - nanos[i - 1]) / (high - low);
  // More rows never cost less: two measurements may be the wrong way round by chance.
  return nanos[i] + (slope > 0 ? slope : 0.0) * (num_q_rows - high);
}

const GroupNanos& MachineConstants::Scan(uint32_t bits) const {
  const ScanNanos* found = nullptr;
  for (const ScanNanos& scan : scans) {
    if (scan.bits >= bits && (found == nullptr || scan.bits < found->bits)) found = &scan;
  }
  return found == nullptr ? score : found->per_key;
}

}  // namespace attndb::planner
