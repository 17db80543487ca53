#include "store/catalog/sqlite_fork.h"

#include <pthread.h>
#include <sqlite3.h>

#include <array>
#include <cstddef>

namespace attndb::store {
namespace {

// In the order in which SQLite takes several of them: its own in sqlite3BtreeOpen,
// sqlite3_randomness, sqlite3_vfs_find, the unix VFS, pages and memory.
constexpr std::array kLocks = {
    SQLITE_MUTEX_STATIC_OPEN, SQLITE_MUTEX_STATIC_PRNG, SQLITE_MUTEX_STATIC_MAIN,
    SQLITE_MUTEX_STATIC_VFS1, SQLITE_MUTEX_STATIC_VFS2, SQLITE_MUTEX_STATIC_VFS3,
    SQLITE_MUTEX_STATIC_LRU,  SQLITE_MUTEX_STATIC_PMEM, SQLITE_MUTEX_STATIC_MEM};

void LockAll() {
  for (const int lock : kLocks) sqlite3_mutex_enter(sqlite3_mutex_alloc(lock));
}

void UnlockAll() {
  for (size_t i = kLocks.size(); i-- > 0;) sqlite3_mutex_leave(sqlite3_mutex_alloc(kLocks[i]));
}

}  // namespace

void LetForksWaitForSqlite() {
  // If the registration fails for lack of memory, forks behave as without it.
  [[maybe_unused]] static const int kRegistered = pthread_atfork(LockAll, UnlockAll, UnlockAll);
}

}  // namespace attndb::store
