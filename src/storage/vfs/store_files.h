// Housekeeping of the directory that holds all objects of a store.
//
// Errors:  as FileSystem.
// Threads: thread-safe, except for two calls that remove the same object.
#ifndef ATTNDB_STORAGE_VFS_STORE_FILES_H_
#define ATTNDB_STORAGE_VFS_STORE_FILES_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "attndb/result.h"
#include "storage/io/file_system.h"
#include "storage/vfs/object_name.h"

namespace attndb::storage {

// Lists the files in `dir` that a crash or a removal left behind: temporary files, and files of
// objects for which `is_known` returns false. Files with foreign names are not listed. REQUIRES: no
// thread is writing an object in `dir`.
Result<std::vector<std::string>> ListOrphans(
    FileSystem* file_system, const std::string& dir,
    const std::function<bool(const ObjectName&)>& is_known);

// Looks whether both files of an object are there, with `file_bytes` bytes together. Reads none of
// them. Errors: kCorruption (a file is missing, with all others of the folder perhaps, or has
// another length); kIoError.
Status CheckObjectFiles(FileSystem* file_system, const std::string& dir, const ObjectName& name,
                        uint64_t file_bytes);

// Removes both files of an object; ok if they are gone already. Open readers can go on.
Status RemoveObject(FileSystem* file_system, const std::string& dir, const ObjectName& name);

// Removes a segment's own two files. Companions are objects: remove each by RemoveObject.
Status RemoveSegment(FileSystem* file_system, const std::string& dir, uint64_t segment_id);

}  // namespace attndb::storage

#endif  // ATTNDB_STORAGE_VFS_STORE_FILES_H_
