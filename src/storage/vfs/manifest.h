// The manifest of an object: its length and the CRC-32C of each of its granules.
//
// The manifest is a separate file: a checksum beside its data can't detect a lost, stale or
// misdirected write. The catalog keeps the manifest's SHA-256, the root hash.
//
// Errors:  kCorruption, or kUnsupported for another version, naming field, expected and found.
// Threads: values and pure functions.
#ifndef ATTNDB_STORAGE_VFS_MANIFEST_H_
#define ATTNDB_STORAGE_VFS_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "attndb/result.h"
#include "storage/vfs/object_name.h"

namespace attndb::storage {

struct Manifest {
  ObjectName name;
  uint64_t object_bytes = 0;
  std::vector<uint32_t> granule_crcs;  // The last granule may be short.
};

// Number of granules of an object of `object_bytes`.
uint64_t NumGranules(uint64_t object_bytes);

// Length of the manifest of an object of `object_bytes` <= kMaxObjectBytes.
uint64_t ManifestBytes(uint64_t object_bytes);

std::vector<std::byte> EncodeManifest(const Manifest& manifest);

// `expected` is the object that the file's name says it is.
Result<Manifest> DecodeManifest(std::span<const std::byte> bytes, const ObjectName& expected);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_MANIFEST_H_
