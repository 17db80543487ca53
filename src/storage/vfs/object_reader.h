// Verified reads of a stored object.
//
// Errors:  kCorruption naming file, granule offset, expected and found CRC, or the missing file;
//          kIoError, also where no object of the folder is there; kResourceExhausted (memory, file
//          descriptors).
// Threads: thread-safe.
#ifndef ATTNDB_STORAGE_VFS_OBJECT_READER_H_
#define ATTNDB_STORAGE_VFS_OBJECT_READER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "common/sha256.h"
#include "storage/io/file_system.h"
#include "storage/vfs/manifest.h"
#include "storage/vfs/object_name.h"

namespace attndb::storage {

// Verified bytes [offset, offset + size) of an object. Bytes that are aligned to up to 64 bytes in
// the object have the same alignment in memory.
struct ObjectRange {
  AlignedBuffer buffer;              // Whole granules around the range.
  std::span<const std::byte> bytes;  // Into buffer.
};

// Granules with wrong bytes.
struct GranuleDamage {
  std::vector<uint64_t> offsets;  // Ascending.
  Status first;                   // The damage of the first one.
};

class ObjectReader {
  // Lets only the factory construct.
  struct Key {
    explicit Key() = default;
  };

 public:
  // Verifies the manifest against `root_hash`, and the length of the file against the manifest.
  // Holds the file for reading as `file_system` does, which must outlive it.
  static Result<std::unique_ptr<const ObjectReader>> Open(FileSystem* file_system,
                                                          const std::string& dir,
                                                          const ObjectName& name,
                                                          const Sha256Digest& root_hash);
  ObjectReader(Key, FileSystem* file_system, std::string dir, std::string path,
               std::unique_ptr<RandomAccessFile> file, Manifest manifest);

  uint64_t length() const { return manifest_.object_bytes; }
  uint64_t manifest_bytes() const { return ManifestBytes(manifest_.object_bytes); }
  // "segment 000000000000002a": for messages.
  const std::string& description() const { return description_; }

  // Memory that Read needs for this range: whole granules.
  uint64_t ReadBufferBytes(uint64_t offset, uint64_t size) const;

  // With `damage` given, granules that are damaged are no error: they are added to it, and read as
  // zeros. REQUIRES: offset + size <= length().
  Result<ObjectRange> Read(uint64_t offset, uint64_t size, GranuleDamage* damage = nullptr) const;

  // Reads all granules from disk, past the system's cache where it lets us, and verifies them,
  // keeping nothing. `progress` is called with the bytes done; false stops with kCancelled.
  // `damage`: as for Read.
  Status VerifyAll(const std::function<bool(uint64_t bytes_done)>& progress,
                   GranuleDamage* damage = nullptr) const;

 private:
  // Fills `out` with whole granules from `offset` on and verifies them.
  Status ReadGranules(uint64_t offset, std::span<std::byte> out, GranuleDamage* damage) const;
  Status CheckGranule(uint64_t offset, std::span<const std::byte> bytes) const;
  Status CheckLength() const;

  FileSystem* const file_system_;
  const std::string dir_;
  const std::string path_;
  const std::string description_;
  const std::unique_ptr<RandomAccessFile> file_;
  const Manifest manifest_;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_OBJECT_READER_H_
