// Handles files in segments/ that the catalog does not know. Files that no catalog can need are
// removed; files that a newer catalog may know are put aside.
//
// A file that marks a segment as "loose" (storage/vfs/object_name.h) stands beside a segment that
// no commit names yet, or names no longer. Such segments are removed. So are temporary files and
// objects that are derived from known segments. All other files were once in a newer catalog, which
// was lost or replaced by this older one. They go to the folder aside/ of the store, and come back
// when a catalog knows them. Their numbers are not handed out meanwhile, so that no new file takes
// their names. A store with files of another store is not opened.
//
// If this catalog never handed out the id of a marked segment, the mark comes from a newer catalog
// and is ignored. If none of the store's files exists, the store is not opened for writing: its
// disk is absent, and new contexts would lie beneath the mount point.
//
// Errors:  kCorruption (files of another store: its catalog was exchanged); kIoError (no file that
//          the catalog knows is there).
// Threads: stateless; no other process or thread may write to the store.
#ifndef ATTNDB_STORE_ORPHANS_H_
#define ATTNDB_STORE_ORPHANS_H_

#include <string>
#include <string_view>
#include <vector>

#include "attndb/result.h"
#include "attndb/status.h"
#include "storage/vfs/object_name.h"
#include "store/catalog/catalog.h"
#include "store/settings.h"

namespace attndb::store {

inline constexpr std::string_view kAsideName = "aside";

// Refuses a folder with files of another store. Changes nothing.
Status CheckOwner(const Settings& settings, Catalog* catalog);
// Brings known files back from aside/, and clears away unknown files. Refuses a folder that lacks
// all files that the catalog knows.
Status ClearOrphans(const Settings& settings, Catalog* catalog);
// Names of the files in aside/; empty if there is no such folder.
Result<std::vector<std::string>> FilesAside(const Settings& settings);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_ORPHANS_H_
