// Whether a path can be that of a store: looked at before anything is made there.
//
// Errors:  kInvalidArgument: the path is empty or too long; a file, or a link that leads nowhere,
//          stands where a folder is expected.
// Threads: stateless.
#ifndef ATTNDB_STORE_STORE_PATH_H_
#define ATTNDB_STORE_STORE_PATH_H_

#include <string>

#include "attndb/status.h"

namespace attndb::store {

// The path from the root, with links followed, has at most DB::kMaxPathBytes bytes: SQLite looks at
// it so, and takes no longer ones.
Status CheckStorePath(const std::string& path);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_STORE_PATH_H_
