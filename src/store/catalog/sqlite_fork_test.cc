// Goal:   a fork can use SQLite at once, whatever other threads did with it meanwhile.
// Method: forks one after the other beside threads that never leave SQLite alone; a time limit ends
//         those that hang.
#include "store/catalog/sqlite_fork.h"

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "store/catalog/sqlite.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

// Memory, random numbers, files and pages of a database of its own.
bool UseSqlite() {
  sqlite3* database = nullptr;
  const bool is_open = sqlite3_open(":memory:", &database) == SQLITE_OK;
  const bool is_done =
      is_open && sqlite3_exec(database, "CREATE TABLE t (a); INSERT INTO t VALUES (random())",
                              nullptr, nullptr, nullptr) == SQLITE_OK;
  return sqlite3_close(database) == SQLITE_OK && is_done;
}

TEST(SqliteForkTest, AForkUsesSqliteWhateverOthersDid) {
  constexpr int kForks = 200;
  constexpr unsigned kSecondsMax = 120;
  LetForksWaitForSqlite();
  std::atomic<bool> ends = false;
  const auto work = [&ends] {
    while (!ends) UseSqlite();
  };
  std::jthread first(work);
  std::jthread second(work);
  for (int i = 0; i < kForks && !HasFailure(); ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(kSecondsMax);
      _exit(UseSqlite() ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "fork " << i;
  }
  ends = true;
}

// A fork that waits takes SQLite's first lock, and stops at the one that another thread holds until
// then; one that doesn't wait finds that held for ever.
TEST(SqliteForkTest, AForkWaitsOnceADatabaseWasOpened) {
  const test::TempDir dir;
  ATTNDB_ASSERT_OK(SqliteDatabase::Open(dir.File("a.db"), SqliteDatabase::Mode::kCreate));
  sqlite3_mutex* const first = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_OPEN);
  sqlite3_mutex* const later = sqlite3_mutex_alloc(SQLITE_MUTEX_STATIC_VFS1);
  std::atomic<bool> is_held = false;
  std::atomic<bool> is_forked = false;
  std::jthread holder([&] {
    sqlite3_mutex_enter(later);
    is_held = true;
    while (!is_forked && sqlite3_mutex_try(first) == SQLITE_OK) {
      sqlite3_mutex_leave(first);
      std::this_thread::yield();
    }
    sqlite3_mutex_leave(later);
  });
  while (!is_held) std::this_thread::yield();
  const pid_t pid = fork();
  if (pid == 0) _exit(sqlite3_mutex_try(later) == SQLITE_OK ? 0 : 1);
  is_forked = true;
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace attndb::store
