// Identity of a segment and its form on disk, the header page.
//
// Errors:  kCorruption, or kUnsupported for another version, naming field, expected and found.
// Threads: values and pure functions.
#ifndef ATTNDB_STORAGE_KV_SEGMENT_HEADER_H_
#define ATTNDB_STORAGE_KV_SEGMENT_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "common/sha256.h"
#include "storage/kv/kv_rows.h"
#include "storage/vfs/format.h"

namespace attndb::storage {

using StoreUuid = std::array<std::byte, 16>;

// The identity of a segment. It is written into the segment's header and kept by the catalog; a
// file of another store, segment or model differs in at least one field.
struct SegmentIdentity {
  StoreUuid store_uuid{};
  uint64_t segment_id = 0;
  Sha256Digest model_identity{};  // SHA-256 of ModelSpec and fingerprint; the same for all tenants.
  int64_t first_position = 0;     // RoPE position of the segment's first token.
  uint64_t num_tokens = 0;        // >= 1.
  KvShape shape;

  friend bool operator==(const SegmentIdentity&, const SegmentIdentity&) = default;
};

struct SegmentHeader {
  uint32_t version = kSegmentVersion;  // Or kPackedVersion.
  SegmentIdentity identity;
  uint64_t num_sections = 0;
  uint64_t object_bytes = 0;
};

// One page of kSegmentHeaderBytes. REQUIRES: the shape is valid (ValidateShape).
std::vector<std::byte> EncodeSegmentHeader(const SegmentHeader& header);

// `object` names the file in errors.
Result<SegmentHeader> DecodeSegmentHeader(std::span<const std::byte> page, std::string_view object);

// Ok if the header matches the catalog's record.
Status CheckIdentity(const SegmentIdentity& found, const SegmentIdentity& expected,
                     std::string_view object);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_SEGMENT_HEADER_H_
