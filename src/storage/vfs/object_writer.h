// Writes a new object: streaming, in bounded memory, visible only when it is complete and durable.
//
// Protocol: data and manifest are written to temporary names, both fsynced, both renamed, and the
//           directory fsynced. A crash at any moment leaves files that no catalog entry names
//           (store_files.h collects them), never a named half object.
// Errors:   kAlreadyExists (a file of this object); kCancelled; kResourceExhausted, kIoError,
//           kReadOnly. After an error the writer is unusable; its destructor removes its files.
// Threads:  thread-compatible; any thread may set `cancel`.
#ifndef ATTNDB_STORAGE_VFS_OBJECT_WRITER_H_
#define ATTNDB_STORAGE_VFS_OBJECT_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "common/aligned_buffer.h"
#include "common/sha256.h"
#include "storage/io/file_system.h"
#include "storage/vfs/object_name.h"

namespace attndb::storage {

struct WrittenObject {
  uint64_t object_bytes = 0;
  uint64_t manifest_bytes = 0;
  Sha256Digest root_hash{};  // SHA-256 of the manifest: for the catalog.
};

class ObjectWriter {
  // Lets only the factory construct.
  struct Key {
    explicit Key() = default;
  };

 public:
  struct Options {
    FileSystem* file_system = nullptr;  // Not owned; outlives the writer.
    std::string dir;
    ObjectName name;
    uint64_t head_bytes = 0;  // Bytes kept free in front for Finish; a multiple of kGranuleBytes.
    const std::atomic<bool>* cancel = nullptr;  // Not owned; may be null.
  };

  static Result<std::unique_ptr<ObjectWriter>> Create(const Options& options);
  ObjectWriter(Key, const Options& options);
  // Removes the files unless Finish succeeded.
  ~ObjectWriter();
  ObjectWriter(const ObjectWriter&) = delete;
  ObjectWriter& operator=(const ObjectWriter&) = delete;

  // Bytes of the object so far, head included: the offset at which the next Append writes.
  uint64_t position() const { return flushed_bytes_ + num_buffered_; }

  Status Append(std::span<const std::byte> data);
  // Appends zeros up to the next multiple of `alignment`, a power of two.
  Status Align(uint64_t alignment);

  // Gives the object another kind. REQUIRES: Finish was not called.
  void NameAs(const std::string& kind) { name_.kind = kind; }

  // Writes the head and publishes the object. REQUIRES: head.size() == head_bytes; no error before.
  Result<WrittenObject> Finish(std::span<const std::byte> head);

 private:
  Status Start();
  Status Flush();
  Status WriteManifest(std::span<const std::byte> manifest);
  Status Publish();
  Status CheckCancelled() const;
  std::string TemporaryPath(ObjectFile file) const;
  std::string FinalPath(ObjectFile file) const;

  const Options options_;
  ObjectName name_;  // The object's final name. The temporary files are named by options_.
  AlignedBuffer buffer_;
  uint64_t num_buffered_ = 0;
  uint64_t flushed_bytes_ = 0;
  std::vector<uint32_t> granule_crcs_;
  std::unique_ptr<WritableFile> data_file_;
  std::vector<std::string> paths_;  // Paths of the files that it made, as they are named now.
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_OBJECT_WRITER_H_
