// The write side of a companion object: for each layer and kv head its parts, one section each,
// streamed.
//
// A part is data that readers may want alone, for instance a plane that few plans scan.
//
// Errors:  kCancelled; kResourceExhausted, kIoError, kReadOnly, kAlreadyExists. After an error the
//          writer is unusable. No file is left unless Finish succeeded.
// Threads: thread-compatible; any thread may set `cancel`.
#ifndef ATTNDB_STORAGE_KV_COMPANION_WRITER_H_
#define ATTNDB_STORAGE_KV_COMPANION_WRITER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "storage/io/file_system.h"
#include "storage/kv/companion_header.h"
#include "storage/kv/kv_rows.h"
#include "storage/vfs/object_writer.h"
#include "storage/vfs/section_table.h"

namespace attndb::storage {

// The sections of a companion.
struct CompanionShape {
  KvShape segment;  // Layers and kv heads of the segment.
  // The parts of each head; names like those of kinds (IsKindName), at least one.
  std::vector<std::string> parts;
};

// The sections in order: layer by layer, in each its kv heads, for each head its parts. Their
// places are not known yet.
std::vector<SectionEntry> SectionsOf(const CompanionShape& shape);

struct CompanionWriteOptions {
  FileSystem* file_system = nullptr;  // Not owned; outlives the writer.
  std::string dir;
  CompanionIdentity identity;
  CompanionShape shape;
  const std::atomic<bool>* cancel = nullptr;  // True stops with kCancelled; may be null.
  // Only callers check `cancel`, between two heads: the added heads can still be kept.
  bool keeps_begun = false;
};

class CompanionWriter {
  // Lets only the factory construct.
  struct Key {
    explicit Key() = default;
  };

 public:
  static Result<std::unique_ptr<CompanionWriter>> Create(const CompanionWriteOptions& options);
  CompanionWriter(Key, const CompanionWriteOptions& options, std::vector<SectionEntry> sections,
                  std::unique_ptr<ObjectWriter> object);

  // Appends the next part, in the order of SectionsOf. A head that has nothing in this companion
  // gives no bytes. REQUIRES: not all parts were added.
  Status AddPart(std::span<const std::byte> bytes, uint64_t num_rows);

  const ObjectName& name() const { return identity_.name; }
  // The flag that stops the writer, for callers that take long over a part; may be null.
  const std::atomic<bool>* cancel() const { return cancel_; }

  // Parts that were added and have rows.
  size_t num_filled() const { return num_filled_; }

  // Returns when the object is durable. REQUIRES: all parts were added.
  Result<WrittenObject> Finish();
  // The same for an object of another kind that ends here: parts that were not added are empty.
  Result<WrittenObject> FinishBegun(const std::string& kind);

 private:
  CompanionIdentity identity_;
  const std::atomic<bool>* const cancel_;
  std::vector<SectionEntry> sections_;
  size_t num_added_ = 0;
  size_t num_filled_ = 0;
  const std::unique_ptr<ObjectWriter> object_;
};

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_COMPANION_WRITER_H_
