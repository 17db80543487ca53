#include "store/verifier.h"

#include <optional>
#include <utility>

#include "attndb/units.h"
#include "store/object_path.h"
#include "store/orphans.h"

namespace attndb::store {
namespace {

constexpr const char* kHarmsNone = "; no context is harmed: Compact writes anew what is used of it";

}  // namespace

Result<VerifyReport> Verifier::Verify(const std::string& tenant, Scope scope,
                                      const VerifyOptions& options) {
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
  uint64_t bytes_total = 0;
  for (const SegmentRecord& segment : segments) bytes_total += segment.total_bytes();
  VerifyReport report;
  const auto go_on = [&]() -> Status {
    if (!options.progress || options.progress(report.num_bytes, bytes_total)) return Status::Ok();
    return Status::Cancelled("verify: cancelled after " + FormatBytes(report.num_bytes) + " of " +
                             FormatBytes(bytes_total));
  };
  ATTNDB_RETURN_IF_ERROR(go_on());
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> findings, parts_.catalog->Verify(go_on));
  ReportCatalog(findings, scope, &report);
  if (scope == Scope::kStore) ATTNDB_RETURN_IF_ERROR(ReportAside(&report));
  for (const SegmentRecord& record : segments) {
    ATTNDB_RETURN_IF_ERROR(VerifySegment(record, &report));
    for (const CompanionRecord& companion : record.companions) {
      ATTNDB_RETURN_IF_ERROR(VerifyObject(record, companion, &report));
    }
    ++report.num_segments;
    report.num_bytes += record.total_bytes();
    ATTNDB_RETURN_IF_ERROR(go_on());
  }
  return report;
}

// Its rows are of all tenants: one of them is told no more than that they do not hold.
void Verifier::ReportCatalog(const std::vector<std::string>& findings, Scope scope,
                             VerifyReport* report) {
  const std::string file(kCatalogName);
  if (scope == Scope::kStore) {
    for (const std::string& finding : findings) report->damages.push_back({0, file, finding, {}});
  } else if (!findings.empty()) {
    report->damages.push_back({0, file, file + ": is damaged: the owner's Verify says where", {}});
  }
}

// Reports files that a lost catalog knew, of all tenants.
Status Verifier::ReportAside(VerifyReport* report) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesAside(*parts_.settings));
  for (const std::string& name : names) {
    const std::optional<storage::ParsedFileName> file = storage::ParseFileName(name);
    if (!file || file->file != storage::ObjectFile::kData) continue;
    report->damages.push_back({0,
                               storage::JoinPath(std::string(kAsideName), name),
                               "a newer " + std::string(kCatalogName) +
                                   " than this one knew it: put that back, or delete the file",
                               {}});
  }
  return Status::Ok();
}

Status Verifier::VerifySegment(const SegmentRecord& record, VerifyReport* report) {
  const storage::SegmentDamage found = parts_.damage->Find(record);
  const Status& status = found.status;
  switch (status.code()) {
    case StatusCode::kOk:
      // Every byte is right, whatever was seen before: a disk has come back.
      if (record.damage.empty()) return Status::Ok();
      if (!parts_.catalog->read_only()) return parts_.catalog->segments()->Lift(record.id);
      break;
    case StatusCode::kCorruption:
    case StatusCode::kNotFound:
    case StatusCode::kUnsupported:
    case StatusCode::kIoError:
      break;
    default:
      return status;
  }
  // A segment that was dropped while we looked is no damage. Neither is one that sessions alone
  // hold: it goes with them.
  ATTNDB_ASSIGN_OR_RETURN(const bool is_used, parts_.catalog->segments()->IsUsed(record.id));
  if (!is_used) return Status::Ok();
  Damage damage;
  damage.segment_id = static_cast<int64_t>(record.number);
  damage.file = ObjectPath({.segment_id = static_cast<uint64_t>(record.id)});
  damage.message = status.ok() ? record.damage : DamageReports::MessageOf(found);
  if (!parts_.catalog->read_only() && status.code() != StatusCode::kIoError) {
    ATTNDB_ASSIGN_OR_RETURN(const std::vector<ContextRecord> contexts,
                            parts_.damage->Quarantine(record.id, found));
    for (const ContextRecord& context : contexts) damage.contexts.push_back(context.Label());
    if (contexts.empty()) damage.message += kHarmsNone;
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
      {static_cast<int64_t>(segment.number),
       ObjectPath(name),
       status.message() + "; no context is harmed: it is made from keys and values",
       {}});
  return Status::Ok();
}

}  // namespace attndb::store
