// The files of derived objects in a store's folder: writes, opens, verifies and removes them.
//
// Errors:  those of storage/kv/companion.h and companion_writer.h.
// Threads: constant; thread-safe.
#ifndef ATTNDB_DERIVED_OBJECT_FILES_H_
#define ATTNDB_DERIVED_OBJECT_FILES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "attndb/result.h"
#include "derived/kind.h"
#include "derived/store.h"
#include "storage/io/file_system.h"
#include "storage/kv/companion.h"
#include "storage/kv/companion_writer.h"
#include "storage/kv/segment.h"

namespace attndb::derived {

class ObjectFiles {
 public:
  // `file_system` must outlive it.
  ObjectFiles(storage::FileSystem* file_system, std::string dir,
              const storage::StoreUuid& store_uuid)
      : file_system_(file_system), dir_(std::move(dir)), store_uuid_(store_uuid) {}

  Result<std::shared_ptr<const storage::Companion>> Open(const storage::Segment& segment,
                                                         const Kind& kind,
                                                         const ObjectRecord& record) const;
  Result<std::unique_ptr<storage::CompanionWriter>> Create(const storage::Segment& segment,
                                                           const Kind& kind, uint64_t generation,
                                                           const std::atomic<bool>* cancel) const;
  // Reads every byte and compares it with its checksum.
  Status Verify(const storage::ObjectName& name, const Sha256Digest& root_hash) const;
  // Removes the files of an object that the catalog does not name. If that fails they are orphans,
  // which the next open removes.
  void Remove(const storage::ObjectName& name) const;

 private:
  storage::CompanionExpectation Expect(const storage::Segment& segment, const Kind& kind,
                                       uint64_t generation) const;

  storage::FileSystem* const file_system_;
  const std::string dir_;
  const storage::StoreUuid store_uuid_;
};

}  // namespace attndb::derived

#endif  // ATTNDB_DERIVED_OBJECT_FILES_H_
