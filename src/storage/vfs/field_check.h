// Internal to storage: comparisons and common fields of on-disk structures.
//
// Errors:  kCorruption "<object>: <field>: expected <e>, found <f>"; kUnsupported for a version.
// Threads: pure functions.
#ifndef ATTNDB_STORAGE_VFS_FIELD_CHECK_H_
#define ATTNDB_STORAGE_VFS_FIELD_CHECK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "attndb/result.h"
#include "common/coding.h"

namespace attndb::storage {

Status Mismatch(std::string_view object, std::string_view field, std::string_view expected,
                std::string_view found);

Status ExpectEqual(std::string_view object, std::string_view field, uint64_t found,
                   uint64_t expected);
Status ExpectAtMost(std::string_view object, std::string_view field, uint64_t found,
                    uint64_t limit);

// Reads 8 bytes of magic and a u32 version.
Status CheckMagicAndVersion(ByteReader* in, std::string_view object, std::string_view magic,
                            uint32_t version);

// The versions of a format that can be read.
struct VersionRange {
  uint32_t oldest = 0;
  uint32_t newest = 0;
};

// Does the same, and returns the version in the header.
Result<uint32_t> ReadMagicAndVersion(ByteReader* in, std::string_view object,
                                     std::string_view magic, const VersionRange& versions);

// A kind name in kKindNameBytes, NUL padded. Write REQUIRES: IsKindName(kind).
void WriteKindName(std::string_view kind, ByteWriter* out);
Result<std::string> ReadKindName(ByteReader* in, std::string_view object);

// Reads reserved bytes up to position `end`; they must be zero, so that a later version may give
// them a meaning that no reader of this version overlooks.
Status ReadZeros(ByteReader* in, std::string_view object, uint64_t end);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_FIELD_CHECK_H_
