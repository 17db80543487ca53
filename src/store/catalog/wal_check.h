// Checks SQLite's write-ahead log for damage, before SQLite reads it.
//
// SQLite ends the log at the first unsound frame, and treats the rest as a transaction that a crash
// cut short. That is right directly after a crash. It is wrong if an old frame was damaged since:
// acknowledged commits then vanish silently. But only the last transaction of a log can be
// unfinished: a commit behind an unsound frame, and a frame behind that commit, prove damage. So
// the catalog empties the log after each commit (sqlite.h, Checkpoint). If a reader prevents that,
// two more commits follow (CatalogCore::SealLog), so that no acknowledged commit is the last of a
// log.
//
// Errors:  kCorruption naming file and frame; kIoError.
// Threads: pure, except for reading the file; another process may be writing it.
// Source:  https://www.sqlite.org/fileformat2.html#walformat.
#ifndef ATTNDB_STORE_CATALOG_WAL_CHECK_H_
#define ATTNDB_STORE_CATALOG_WAL_CHECK_H_

#include <string>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::store {

// `path` is the log's path. A missing or empty log is sound.
Status CheckWriteAheadLog(const std::string& path);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_WAL_CHECK_H_
