// The store that an object's data file belongs to, by its header alone: for files that no catalog
// knows.
//
// Threads: stateless.
#ifndef ATTNDB_STORAGE_VFS_OBJECT_OWNER_H_
#define ATTNDB_STORAGE_VFS_OBJECT_OWNER_H_

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "attndb/result.h"
#include "storage/io/file_system.h"

namespace attndb::storage {

// Returns the uuid in the header of a segment or companion; nullopt if the file has no such header.
// The uuid is not verified: no checksum was compared.
// Errors: as FileSystem, except for a file that is too short.
Result<std::optional<std::array<std::byte, 16>>> OwnerOf(FileSystem* file_system,
                                                         const std::string& path);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_OBJECT_OWNER_H_
