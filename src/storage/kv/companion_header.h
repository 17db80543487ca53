// The identity of a companion object, and the header page that stores it.
//
// A companion (planes, an index) is made from one segment and is useless for another. It names the
// store, the segment and the root hash of the bytes that it was made from.
//
// Errors:  kCorruption, or kUnsupported for another version, naming field, expected and found.
// Threads: values and pure functions.
#ifndef ATTNDB_STORAGE_KV_COMPANION_HEADER_H_
#define ATTNDB_STORAGE_KV_COMPANION_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "common/sha256.h"
#include "storage/kv/segment_header.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_name.h"

namespace attndb::storage {

struct CompanionIdentity {
  StoreUuid store_uuid{};
  ObjectName name;
  Sha256Digest segment_root_hash{};  // Root hash of the segment that it was made from.
  uint64_t num_tokens = 0;           // Number of tokens of that segment.

  friend bool operator==(const CompanionIdentity&, const CompanionIdentity&) = default;
};

struct CompanionHeader {
  uint32_t version = kCompanionVersion;  // Or kPackedVersion.
  CompanionIdentity identity;
  uint64_t num_sections = 0;
  uint64_t object_bytes = 0;
};

// One page of kCompanionHeaderBytes. REQUIRES: IsKindName(header.identity.name.kind).
std::vector<std::byte> EncodeCompanionHeader(const CompanionHeader& header);

// `object` names the file in errors.
Result<CompanionHeader> DecodeCompanionHeader(std::span<const std::byte> page,
                                              std::string_view object);

// Ok if the header matches the catalog's record.
Status CheckIdentity(const CompanionIdentity& found, const CompanionIdentity& expected,
                     std::string_view object);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_KV_COMPANION_HEADER_H_
