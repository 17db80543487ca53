#include "db/companion_files.h"

#include <utility>

#include "storage/vfs/object_reader.h"
#include "storage/vfs/store_files.h"

namespace attndb::internal {

CompanionFiles::CompanionFiles(storage::FileSystem* file_system, std::string dir,
                               db::Catalog* catalog, bool read_only,
                               std::function<void(db::SegmentId)> on_lost)
    : file_system_(file_system),
      dir_(std::move(dir)),
      catalog_(catalog),
      read_only_(read_only),
      on_lost_(std::move(on_lost)) {}

storage::CompanionExpectation CompanionFiles::Expect(const storage::Segment& segment,
                                                     const CompanionKind& kind,
                                                     uint64_t generation) const {
  storage::CompanionExpectation expected;
  expected.identity.store_uuid = catalog_->store_uuid();
  expected.identity.name = {segment.id(), kind.name, generation};
  expected.identity.segment_root_hash = segment.root_hash();
  expected.identity.num_tokens = segment.num_tokens();
  expected.shape = {segment.shape(), kind.parts};
  return expected;
}

std::shared_ptr<const storage::Companion> CompanionFiles::Open(const storage::Segment& segment,
                                                               const CompanionKind& kind) {
  const Result<db::SegmentRecord> record =
      catalog_->GetSegment(static_cast<db::SegmentId>(segment.id()));
  if (!record.ok()) return nullptr;
  const db::CompanionRecord* const found = record->FindCompanion(kind.name);
  if (found == nullptr) return nullptr;
  storage::CompanionExpectation expected = Expect(segment, kind, found->generation);
  expected.root_hash = found->root_hash;
  Result<std::shared_ptr<const storage::Companion>> companion =
      storage::Companion::Open(file_system_, dir_, expected);
  if (companion.ok()) return *std::move(companion);
  ReportDamage(expected.identity.name, companion.status());
  return nullptr;
}

Result<std::unique_ptr<storage::CompanionWriter>> CompanionFiles::Create(
    const storage::Segment& segment, const CompanionKind& kind, const std::atomic<bool>* cancel) {
  ATTNDB_ASSIGN_OR_RETURN(const uint64_t generation, catalog_->ReserveGeneration());
  storage::CompanionExpectation expected = Expect(segment, kind, generation);
  storage::CompanionWriteOptions options;
  options.file_system = file_system_;
  options.dir = dir_;
  options.identity = std::move(expected.identity);
  options.shape = std::move(expected.shape);
  options.cancel = cancel;
  return storage::CompanionWriter::Create(options);
}

Status CompanionFiles::Verify(const storage::ObjectName& name,
                              const Sha256Digest& root_hash) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<const storage::ObjectReader> object,
                          storage::ObjectReader::Open(file_system_, dir_, name, root_hash));
  return object->VerifyAll(nullptr);
}

void CompanionFiles::ReportDamage(const storage::ObjectName& name, const Status& status) {
  if (status.code() != StatusCode::kCorruption || read_only_) return;
  const auto segment = static_cast<db::SegmentId>(name.segment_id);
  const Result<bool> dropped = catalog_->DropCompanion(segment, name.kind, name.generation);
  // One that is gone already was dropped by another reader, or with its segment.
  if (!dropped.ok() || !*dropped) return;
  RemoveFiles(name);
  on_lost_(segment);
}

void CompanionFiles::RemoveFiles(const storage::ObjectName& name) {
  (void)storage::RemoveObject(file_system_, dir_, name);
}

}  // namespace attndb::internal
