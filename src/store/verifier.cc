#include "store/verifier.h"

#include <utility>

#include "store/object_path.h"

namespace attndb::store {

Result<VerifyReport> Verifier::Verify(const std::string& tenant, const VerifyOptions& options) {
  ATTNDB_ASSIGN_OR_RETURN(const Tenant owner, parts_.catalog->owners()->FindTenant(tenant));
  std::vector<SegmentRecord> segments;
  if (options.context.empty()) {
    ATTNDB_ASSIGN_OR_RETURN(segments, parts_.catalog->segments()->List(owner.id));
  } else {
    ATTNDB_ASSIGN_OR_RETURN(const ContextRecord record,
                            parts_.catalog->contexts()->Find(tenant, options.context));
    ATTNDB_ASSIGN_OR_RETURN(ContextDetail detail,
                            parts_.catalog->contexts()->Describe(owner.id, record.id));
    for (ChainSegment& link : detail.chain) segments.push_back(std::move(link.segment));
  }
  VerifyReport report;
  uint64_t bytes_total = 0;
  for (const SegmentRecord& segment : segments) bytes_total += segment.total_bytes();
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> findings, parts_.catalog->Verify());
  for (const std::string& finding : findings) {
    report.damages.push_back({0, std::string(kCatalogName), finding, {}});
  }
  for (const SegmentRecord& record : segments) {
    ATTNDB_RETURN_IF_ERROR(VerifySegment(record, &report));
    for (const CompanionRecord& companion : record.companions) {
      ATTNDB_RETURN_IF_ERROR(VerifyObject(record, companion, &report));
    }
    ++report.num_segments;
    report.num_bytes += record.total_bytes();
    if (options.progress && !options.progress(report.num_bytes, bytes_total)) {
      return Status::Cancelled("verify: cancelled after " + std::to_string(report.num_bytes) +
                               " of " + std::to_string(bytes_total) + " bytes");
    }
  }
  return report;
}

Status Verifier::VerifySegment(const SegmentRecord& record, VerifyReport* report) {
  Result<std::shared_ptr<storage::Segment>> segment = parts_.registry->OpenAfresh(record);
  const Status status = segment.ok() ? (*segment)->VerifyAll() : segment.status();
  switch (status.code()) {
    case StatusCode::kOk:
      // What was damaged and is well again (a disk that came back) stays out of service: nobody
      // knows what else happened to it.
      if (record.damage.empty()) return Status::Ok();
      break;
    case StatusCode::kCorruption:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kIoError:
      break;
    default:
      return status;
  }
  // A segment that was dropped while we looked is no damage.
  Result<SegmentRecord> again = parts_.catalog->segments()->Get(record.id);
  if (again.status().code() == StatusCode::kNotFound) return Status::Ok();
  Damage damage;
  damage.segment_id = record.id;
  damage.file = ObjectPath({.segment_id = static_cast<uint64_t>(record.id)});
  damage.message = status.ok() ? record.damage : status.message();
  if (!parts_.catalog->read_only() && status.code() != StatusCode::kIoError) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRecord> contexts,
                            parts_.catalog->segments()->Quarantine(record.id, damage.message));
    for (const ContextRecord& context : contexts) damage.contexts.push_back(context.Label());
  }
  report->damages.push_back(std::move(damage));
  return Status::Ok();
}

Status Verifier::VerifyObject(const SegmentRecord& segment, const CompanionRecord& object,
                              VerifyReport* report) {
  const storage::ObjectName name = {static_cast<uint64_t>(segment.id), object.kind,
                                    object.generation};
  const Status status = parts_.object_files->Verify(name, object.root_hash);
  if (status.ok()) return Status::Ok();
  if (status.code() != StatusCode::kCorruption && status.code() != StatusCode::kIoError) {
    return status;
  }
  // One that was dropped or replaced while we looked is no damage.
  const Result<SegmentRecord> again = parts_.catalog->segments()->Get(segment.id);
  if (again.status().code() == StatusCode::kNotFound) return Status::Ok();
  if (!again.ok()) return again.status();
  const CompanionRecord* const found = again->FindCompanion(object.kind);
  if (found == nullptr || found->generation != object.generation) return Status::Ok();
  parts_.objects->ReportLoss(name, status);
  report->damages.push_back(
      {segment.id,
       ObjectPath(name),
       status.message() + "; no context is harmed: it is made from keys and values",
       {}});
  return Status::Ok();
}

}  // namespace attndb::store
