// Forks find SQLite at rest. Its locks for memory, pages and files are of the whole process: one
// that another thread holds at a fork would be held in the fork for ever, where a store that is
// opened waits for it.
//
// Threads: thread-safe.
#ifndef ATTNDB_STORE_CATALOG_SQLITE_FORK_H_
#define ATTNDB_STORE_CATALOG_SQLITE_FORK_H_

namespace attndb::store {

// From the first call on, each fork of the process waits, for microseconds, until no other thread
// holds one of these locks. REQUIRES: the caller holds none.
void LetForksWaitForSqlite();

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SQLITE_FORK_H_
