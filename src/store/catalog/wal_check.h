// Looks through SQLite's write-ahead log for damage, before SQLite does.
//
// SQLite ends the log at the first frame that is not sound, and takes what comes after for the rest
// of a transaction that a crash cut short: right after a crash, wrong where an old frame was
// damaged since, because acknowledged commits then vanish without a word. But only the last
// transaction of a log can be unfinished: a commit behind an unsound frame, and a frame behind that
// commit, prove damage. So the catalog empties the log after each commit (sqlite.h, Checkpoint),
// and where a reader keeps it from that, lets two more commits follow (CatalogCore::SealLog): no
// acknowledged commit is the last of a log.
//
// Errors:  kCorruption naming file and frame; kIoError.
// Threads: pure but for reading the file; another process may be writing it.
// Source:  https://www.sqlite.org/fileformat2.html#walformat.
#ifndef ATTNDB_STORE_CATALOG_WAL_CHECK_H_
#define ATTNDB_STORE_CATALOG_WAL_CHECK_H_

#include <string>

#include "attndb/result.h"
#include "attndb/status.h"

namespace attndb::store {

// `path` is that of the log. A log that is missing or empty is sound.
Status CheckWriteAheadLog(const std::string& path);

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_WAL_CHECK_H_
