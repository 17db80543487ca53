#include "derived/object_files.h"

#include "storage/vfs/object_reader.h"
#include "storage/vfs/store_files.h"

namespace attndb::derived {

storage::CompanionExpectation ObjectFiles::Expect(const storage::Segment& segment, const Kind& kind,
                                                  uint64_t generation) const {
  storage::CompanionExpectation expected;
  expected.identity.store_uuid = store_uuid_;
  expected.identity.name = {segment.id(), kind.traits().object, generation};
  expected.identity.segment_root_hash = segment.root_hash();
  expected.identity.num_tokens = segment.num_tokens();
  expected.shape = {segment.shape(), kind.traits().parts};
  return expected;
}

Result<std::shared_ptr<const storage::Companion>> ObjectFiles::Open(
    const storage::Segment& segment, const Kind& kind, const ObjectRecord& record) const {
  storage::CompanionExpectation expected = Expect(segment, kind, record.generation);
  // The kind's own object, or the remains of an interrupted build.
  expected.identity.name.kind = record.kind;
  expected.root_hash = record.root_hash;
  return storage::Companion::Open(file_system_, dir_, expected);
}

Result<std::unique_ptr<storage::CompanionWriter>> ObjectFiles::Create(
    const storage::Segment& segment, const Kind& kind, uint64_t generation,
    const std::atomic<bool>* cancel) const {
  storage::CompanionExpectation expected = Expect(segment, kind, generation);
  storage::CompanionWriteOptions options;
  options.file_system = file_system_;
  options.dir = dir_;
  options.identity = std::move(expected.identity);
  options.shape = std::move(expected.shape);
  options.cancel = cancel;
  options.keeps_begun = !kind.traits().begun.empty();
  return storage::CompanionWriter::Create(options);
}

Status ObjectFiles::Verify(const storage::ObjectName& name, const Sha256Digest& root_hash) const {
  ATTNDB_ASSIGN_OR_RETURN(const std::unique_ptr<const storage::ObjectReader> object,
                          storage::ObjectReader::Open(file_system_, dir_, name, root_hash));
  return object->VerifyAll(nullptr);
}

void ObjectFiles::Remove(const storage::ObjectName& name) const {
  (void)storage::RemoveObject(file_system_, dir_, name);
}

}  // namespace attndb::derived
