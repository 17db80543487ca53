// The write side of a sealed segment: streams a source into a new segment in bounded memory.
//
// Errors:  kInvalidArgument (shape, token or query out of range, runs that do not add up);
//          kCancelled; kResourceExhausted, kIoError, kReadOnly, kAlreadyExists; whatever the source
//          returns. On any error no file of the segment is left and nothing was published.
// Threads: one thread a call; calls for different segment ids may run at the same time.
#ifndef ATTNDB_STORAGE_KV_SEGMENT_WRITER_H_
#define ATTNDB_STORAGE_KV_SEGMENT_WRITER_H_

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "attndb/types.h"
#include "common/sha256.h"
#include "storage/io/file_system.h"
#include "storage/kv/kv_rows.h"
#include "storage/kv/query_rows.h"
#include "storage/kv/segment_header.h"

namespace attndb::storage {

// The contents of a new segment. The writer asks for tokens() first, then for each layer in order:
// LoadLayer once, then rows and queries of each head.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // One id for each token of the segment, >= 0. Valid during WriteSegment.
  virtual std::span<const TokenId> tokens() const = 0;

  // Makes the layer readable until the next call, for instance by pinning older segments.
  virtual Status LoadLayer(LayerId layer) = 0;

  // K and V of a head of the loaded layer: runs in token order that together hold all tokens. Valid
  // until the next call of rows or LoadLayer.
  virtual std::span<const KvRows> rows(uint32_t kv_head) = 0;

  // Sampled queries of that head, in any number of pieces that ascend as one; token indices count
  // from the start of the new segment. Valid until the next call of queries or LoadLayer.
  virtual std::span<const QueryRows> queries(uint32_t kv_head) = 0;
};

struct SegmentWriteOptions {
  FileSystem* file_system = nullptr;  // Not owned.
  std::string dir;
  SegmentIdentity identity;
  const std::atomic<bool>* cancel = nullptr;  // True stops with kCancelled; may be null.
};

struct WrittenSegment {
  Sha256Digest root_hash{};
  uint64_t file_bytes = 0;   // Bytes of both files together.
  uint64_t query_bytes = 0;  // Bytes of sampled queries and their indices, a part of file_bytes.
  std::vector<std::vector<bool>> non_finite;  // [layer][kv_head], exact.
};

// Writes segment `identity.segment_id`; returns when its files are durable. The catalog's
// transaction that names the segment comes after.
Result<WrittenSegment> WriteSegment(const SegmentWriteOptions& options, SegmentSource* source);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_SEGMENT_WRITER_H_
