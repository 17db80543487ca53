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
  constexpr unsigned kSecondsMax = 20;
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

}  // namespace
}  // namespace attndb::store
