// The read side of a companion object: data derived from a segment, by layer, kv head and part.
//
// A byte is returned only after its verification, like a segment's. A companion is opened only
// after its manifest matched the root hash in the catalog, and its header matched its segment. Only
// the granules of the requested part are read.
//
// Errors:  kCorruption names file, place, expected and found; kUnsupported: a newer version;
//          kIoError; kResourceExhausted. A companion can always be made again: its loss only costs
//          time.
// Threads: thread-safe.
#ifndef ATTNDB_STORAGE_KV_COMPANION_H_
#define ATTNDB_STORAGE_KV_COMPANION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/sha256.h"
#include "storage/io/file_system.h"
#include "storage/kv/companion_header.h"
#include "storage/kv/companion_writer.h"
#include "storage/vfs/object_reader.h"
#include "storage/vfs/section_table.h"

namespace attndb::storage {

// The catalog's record of a companion. Open compares all of it with the files.
struct CompanionExpectation {
  CompanionIdentity identity;
  CompanionShape shape;
  Sha256Digest root_hash{};  // SHA-256 of the manifest.
};

// The place of a part in a companion.
struct PartPlace {
  LayerId layer = 0;
  uint32_t kv_head = 0;
  uint32_t part = 0;
};

class Companion {
  // Lets only the factory construct.
  struct Key {
    explicit Key() = default;
  };

 public:
  // Reads and verifies manifest, header and section table. Holds the file for reading as
  // `file_system` does, which must outlive it.
  static Result<std::shared_ptr<const Companion>> Open(FileSystem* file_system,
                                                       const std::string& dir,
                                                       const CompanionExpectation& expected);
  Companion(Key, const CompanionExpectation& expected, std::unique_ptr<const ObjectReader> object,
            std::vector<SectionEntry> sections);

  const ObjectName& name() const { return name_; }
  uint64_t file_bytes() const { return object_->length() + object_->manifest_bytes(); }

  // REQUIRES, here and below: the place exists.
  uint64_t num_rows(const PartPlace& place) const { return At(place).num_rows; }
  // Memory in bytes that ReadPart takes; 0 if the part is empty.
  uint64_t PartBytes(const PartPlace& place) const;
  // Reads and verifies a part; the bytes are 64-byte aligned.
  Result<ObjectRange> ReadPart(const PartPlace& place) const;

 private:
  const SectionEntry& At(const PartPlace& place) const;

  const ObjectName name_;
  const CompanionShape shape_;
  const std::unique_ptr<const ObjectReader> object_;
  const std::vector<SectionEntry> sections_;
  std::vector<size_t> first_heads_;  // Heads of the layers before each layer. Constant.
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_COMPANION_H_
