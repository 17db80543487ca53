// The paths of files in a store's folder.
//
// Threads: stateless.
#ifndef ATTNDB_STORE_OBJECT_PATH_H_
#define ATTNDB_STORE_OBJECT_PATH_H_

#include <string>
#include <string_view>

#include "storage/io/file_system.h"
#include "storage/vfs/object_name.h"
#include "storage/vfs/store_files.h"

namespace attndb::store {

inline constexpr std::string_view kCatalogName = "catalog.db";
inline constexpr std::string_view kSegmentsName = "segments";
inline constexpr std::string_view kReserveName = "reserve";

// Path of the object's data file, from the store's folder on.
inline std::string ObjectPath(const storage::ObjectName& name) {
  return storage::JoinPath(std::string(kSegmentsName),
                           storage::FileNameOf(name, storage::ObjectFile::kData));
}

}  // namespace attndb::store

#endif  // ATTNDB_STORE_OBJECT_PATH_H_
