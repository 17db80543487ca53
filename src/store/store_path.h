// Checks that a path can be that of a store, before anything is made there.
//
// Errors:  kInvalidArgument: the path is empty or too long; a file, or a link that leads nowhere,
//          stands in place of a folder.
// Threads: stateless.
#ifndef ATTNDB_STORE_STORE_PATH_H_
#define ATTNDB_STORE_STORE_PATH_H_

#include <string>

#include "attndb/status.h"

namespace attndb::store {

// The path from the root, with links followed, has at most DB::kMaxPathBytes bytes: SQLite resolves
// the path in this way and takes no longer ones.
Status CheckStorePath(const std::string& path);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_STORE_PATH_H_
