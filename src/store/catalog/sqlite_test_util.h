// A system call of SQLite's that fails when a test wants it to.
//
// Threads: of the whole process: no other thread may use SQLite meanwhile.
#ifndef ATTNDB_STORE_CATALOG_SQLITE_TEST_UTIL_H_
#define ATTNDB_STORE_CATALOG_SQLITE_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <sqlite3.h>

namespace attndb::store {

// Stands in for a call of SQLite's VFS "unix", by its name there and of its type, as long as it
// lives.
class SystemCall {
 public:
  template <typename Call>
  SystemCall(const char* name, Call* call) : name_(name) {
    EXPECT_EQ(vfs_->xSetSystemCall(vfs_, name, reinterpret_cast<sqlite3_syscall_ptr>(call)),
              SQLITE_OK);
  }
  ~SystemCall() { vfs_->xSetSystemCall(vfs_, name_, nullptr); }
  SystemCall(const SystemCall&) = delete;
  SystemCall& operator=(const SystemCall&) = delete;

 private:
  sqlite3_vfs* const vfs_ = sqlite3_vfs_find("unix");
  const char* const name_;
};

}  // namespace attndb::store

#endif  // ATTNDB_STORE_CATALOG_SQLITE_TEST_UTIL_H_
