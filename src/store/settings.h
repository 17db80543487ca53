// The settings of an open store, which all its parts know: its path and its options.
//
// Threads: constant.
#ifndef ATTNDB_STORE_SETTINGS_H_
#define ATTNDB_STORE_SETTINGS_H_

#include <string>

#include "attndb/options.h"
#include "attndb/status.h"
#include "storage/io/file_system.h"
#include "store/object_path.h"

namespace attndb::store {

struct Settings {
  const std::string path;
  const DBOptions options;
  storage::FileSystem* const file_system;  // Outlives the store.
  const std::string segments_dir = storage::JoinPath(path, std::string(kSegmentsName));

  // Whether derived objects are written, and segments merged, in the background.
  bool writes_objects() const { return options.background_builds && !options.read_only; }
  // Errors: kReadOnly.
  Status CheckWritable() const {
    if (!options.read_only) return Status::Ok();
    return Status::ReadOnly("store '" + path + "' was opened for reading only");
  }
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_SETTINGS_H_
