// DerivedObjects: builds that a caller requests and waits for.
#include <algorithm>

#include "common/clock.h"
#include "store/derived_objects.h"
#include "store/segment_facts.h"

namespace attndb::store {

Result<BuildReport> DerivedObjects::Build(const std::string& tenant, std::string_view context,
                                          const derived::Kind& kind, const BuildOptions& options) {
  const Stopwatch watch;
  ATTNDB_RETURN_IF_ERROR(parts_.settings->CheckWritable());
  if (!parts_.settings->options.background_builds) {
    return Status::FailedPrecondition(
        "store '" + parts_.settings->path +
        "' was opened without background_builds, which build indexes");
  }
  const std::string& object = kind.traits().object;
  ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                          parts_.catalog->contexts()->Find(tenant, context));
  ATTNDB_ASSIGN_OR_RETURN(const ContextDetail before,
                          parts_.catalog->contexts()->Describe(record.tenant, record.id));
  BuildReport report;
  report.kind = object;
  std::vector<derived::Lanes::AddedPtr> jobs;
  for (const ChainSegment& link : before.chain) {
    const derived::SegmentFacts segment = FactsOf(link.segment);
    if (segment.Find(object) != nullptr) {
      ++report.num_present;
    } else if (!kind.MayHave(segment.num_tokens)) {
      ++report.num_too_short;
    } else {
      // If the caller stops to wait, the build still happens, perhaps in another process.
      ATTNDB_RETURN_IF_ERROR(parts_.catalog->companions()->AddWish(link.segment.id, object));
      const derived::Lanes::AddedPtr job = parts_.builder->Order(segment, kind);
      if (job != nullptr) jobs.push_back(job);  // Null if the segment is damaged.
    }
  }
  ATTNDB_RETURN_IF_ERROR(parts_.background->WaitFor(jobs, options.progress));
  ATTNDB_ASSIGN_OR_RETURN(const ContextDetail after,
                          parts_.catalog->contexts()->Describe(record.tenant, record.id));
  uint64_t num_there = 0;
  for (const ChainSegment& link : after.chain) {
    const derived::SegmentFacts segment = FactsOf(link.segment);
    const derived::ObjectRecord* const made = segment.Find(object);
    if (made == nullptr) continue;
    ++num_there;
    report.file_bytes += made->file_bytes;
  }
  report.num_built = num_there - std::min(num_there, report.num_present);
  const uint64_t num_known = num_there + report.num_too_short;
  report.num_missing = after.chain.size() - std::min<uint64_t>(after.chain.size(), num_known);
  report.seconds = watch.ElapsedSeconds();
  return report;
}

}  // namespace attndb::store
