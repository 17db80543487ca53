// Files in segments/ that the catalog does not know: removed where nobody can miss them, put aside
// where a newer catalog may know them.
//
// A file that names a segment "loose" (storage/vfs/object_name.h) stands beside one that no commit
// names yet, or any more: such are removed, as are temporary files and what is derived from known
// segments. All others were once in a catalog: in a newer one than this, which was lost or
// exchanged for an older one. They go to the folder aside/ of the store, and come back when a
// catalog knows them. Their numbers are not handed out meanwhile, so that nothing else has their
// names then. A store with files of another store is not opened.
//
// A mark of a segment whose id this catalog never handed out is a newer one's, and speaks of
// nothing. A store none of whose files are there is not opened to be written: its disk is absent,
// and what is stored meanwhile would lie beneath it.
//
// Errors:  kCorruption (files of another store: its catalog was exchanged); kIoError (no file that
//          the catalog knows is there).
// Threads: stateless; nobody else may write to the store.
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

// Refuses a folder whose files are of another store. Changes nothing.
Status CheckOwner(const Settings& settings, Catalog* catalog);
// Brings back what was put aside and is known, and clears away what is not known. Refuses a folder
// that has none of those that the catalog knows.
Status ClearOrphans(const Settings& settings, Catalog* catalog);
// Names of files that are put aside; of none if there is no such folder.
Result<std::vector<std::string>> FilesAside(const Settings& settings);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_ORPHANS_H_
