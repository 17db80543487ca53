// Goal:   the wrapper binds, reads, caches and rolls back as SQLite's rules ask for, and turns its
//         errors into ours.
// Method: a scratch table.
#include "store/catalog/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "store/catalog/sqlite_test_util.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

int open_errno = 0;
int FailToOpen(const char*, int, int) {
  errno = open_errno;
  return -1;
}
int FailToCutOffAll(int file, off_t num_bytes) {
  errno = EIO;
  return num_bytes == 0 ? -1 : ftruncate(file, num_bytes);
}
int FailToCutOff(int, off_t) {
  errno = EIO;
  return -1;
}

// SQLite waits for nobody, as long as it lives; how long it would have waited is summed up.
class NoSleep {
 public:
  NoSleep() {
    slept_us = 0;
    vfs_->xSleep = Sleep;
  }
  ~NoSleep() { vfs_->xSleep = before_; }
  NoSleep(const NoSleep&) = delete;
  NoSleep& operator=(const NoSleep&) = delete;

  static int64_t slept_us;

 private:
  static int Sleep(sqlite3_vfs*, int microseconds) {
    slept_us += microseconds;
    return microseconds;
  }

  sqlite3_vfs* const vfs_ = sqlite3_vfs_find("unix");
  int (*const before_)(sqlite3_vfs*, int) = vfs_->xSleep;
};
int64_t NoSleep::slept_us = 0;

class SqliteTest : public ::testing::Test {
 protected:
  SqliteTest() {
    database_ = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kCreate).value();
    EXPECT_TRUE(database_->Execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)").ok());
    EXPECT_TRUE(database_->Execute("PRAGMA journal_mode = WAL").ok());
  }

  std::string path() const { return dir_.File("odd %41?name#.db"); }
  int64_t Count(SqliteDatabase* database) {
    Query query = database->Select("SELECT count(*) FROM t");
    EXPECT_TRUE(query.Step().value());
    return query.Int(0);
  }

  // How long the connection waits for another, in milliseconds.
  int64_t BusyTimeout() {
    Query query = database_->Select("PRAGMA busy_timeout");
    EXPECT_TRUE(query.Step().value());
    return query.Int(0);
  }

  test::TempDir dir_;
  std::unique_ptr<SqliteDatabase> database_;
};

TEST_F(SqliteTest, ValuesComeBackAsTheyWereBound) {
  const std::vector<std::byte> blob = {std::byte{0}, std::byte{255}};
  const std::string_view text("a\0b", 3);
  ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, ?), (2, ?), (3, ?), (4, ?), (5, ?)",
                                  int64_t{-7}, text, std::span<const std::byte>(blob),
                                  std::optional<int64_t>(), std::span<const std::byte>()));
  Query query = database_->Select("SELECT v FROM t ORDER BY id");
  ASSERT_TRUE(query.Step().value());
  EXPECT_EQ(query.OptionalInt(0), -7);
  ASSERT_TRUE(query.Step().value());
  EXPECT_EQ(query.Text(0), text);
  ASSERT_TRUE(query.Step().value());
  EXPECT_TRUE(std::ranges::equal(query.Blob(0), blob));
  ASSERT_TRUE(query.Step().value());
  EXPECT_TRUE(query.IsNull(0));
  EXPECT_EQ(query.OptionalInt(0), std::nullopt);
  EXPECT_TRUE(query.Text(0).empty());
  ASSERT_TRUE(query.Step().value());
  EXPECT_FALSE(query.IsNull(0));
  EXPECT_TRUE(query.Blob(0).empty());
  EXPECT_FALSE(query.Step().value());
}

TEST_F(SqliteTest, OneStatementMayRunInsideItself) {
  ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2), (2, 3)"));
  const auto select = [&](int64_t id) {
    return database_->Select("SELECT v FROM t WHERE id = ?", id);
  };
  Query outer = select(1);
  ASSERT_TRUE(outer.Step().value());
  Query inner = select(outer.Int(0));
  ASSERT_TRUE(inner.Step().value());
  EXPECT_EQ(inner.Int(0), 3);
  EXPECT_EQ(outer.Int(0), 2);
}

TEST_F(SqliteTest, AStatementIsFreshEachTime) {
  ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2)"));
  for (int i = 0; i < 3; ++i) {
    Query query = database_->Select("SELECT v FROM t WHERE id = ?", i);
    EXPECT_EQ(query.Step().value(), i == 1);
  }
}

TEST_F(SqliteTest, AStatementIsKeptForItsNextUseWithoutItsValues) {
  const char* const sql = "SELECT ?1";
  {
    Query query = database_->Select(sql, 7);
    ASSERT_TRUE(query.Step().value());
    EXPECT_EQ(query.Int(0), 7);
  }
  sqlite3_stmt* const kept = sqlite3_next_stmt(database_->handle(), nullptr);
  ASSERT_NE(kept, nullptr);
  Query again = database_->Select(sql);
  ASSERT_TRUE(again.Step().value());
  EXPECT_TRUE(again.IsNull(0));
  EXPECT_EQ(sqlite3_next_stmt(database_->handle(), nullptr), kept);
  EXPECT_EQ(sqlite3_next_stmt(database_->handle(), kept), nullptr);
}

TEST_F(SqliteTest, AValueTooManyIsAnError) {
  EXPECT_THAT(database_->Select("SELECT 1", 5).Step(),
              FailsWith(StatusCode::kInternal, HasSubstr("(SQLite 25)")));
}

// A catalog of somebody else's making runs no code of his choice.
TEST_F(SqliteTest, AConnectionTrustsNothingInTheFile) {
  constexpr std::pair<int, int> kExpected[] = {
      {SQLITE_DBCONFIG_DEFENSIVE, 1},      {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
      {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}, {SQLITE_DBCONFIG_ENABLE_VIEW, 0},
      {SQLITE_DBCONFIG_DQS_DDL, 0},        {SQLITE_DBCONFIG_DQS_DML, 0},
      {SQLITE_DBCONFIG_ENABLE_FKEY, 1}};
  for (const auto& [option, expected] : kExpected) {
    int found = -1;
    ASSERT_EQ(sqlite3_db_config(database_->handle(), option, /*onoff=*/-1, &found), SQLITE_OK);
    EXPECT_EQ(found, expected) << option;
  }
}

TEST_F(SqliteTest, ATransactionThatIsNotCommittedChangesNothing) {
  {
    const Transaction transaction =
        Transaction::Begin(database_.get(), Transaction::Kind::kWrite).value();
    ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2)"));
  }
  EXPECT_EQ(Count(database_.get()), 0);
}

TEST_F(SqliteTest, ACommitIsSeenByOthersAndLeavesAnEmptyLog) {
  const auto reader = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly).value();
  {
    Transaction transaction =
        Transaction::Begin(database_.get(), Transaction::Kind::kWrite).value();
    ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2)"));
    EXPECT_EQ(Count(reader.get()), 0);
    ATTNDB_ASSERT_OK(transaction.Commit());
  }
  EXPECT_EQ(Count(reader.get()), 1);
  EXPECT_EQ(std::filesystem::file_size(path() + "-wal"), 0u);
}

TEST_F(SqliteTest, AReadTransactionIsOneSnapshot) {
  const auto reader = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly).value();
  {
    const Transaction snapshot = Transaction::Begin(reader.get(), Transaction::Kind::kRead).value();
    EXPECT_EQ(Count(reader.get()), 0);
    Transaction transaction =
        Transaction::Begin(database_.get(), Transaction::Kind::kWrite).value();
    ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2)"));
    ATTNDB_ASSERT_OK(transaction.Commit());
    EXPECT_EQ(Count(reader.get()), 0);
  }
  EXPECT_EQ(Count(reader.get()), 1);
}

TEST_F(SqliteTest, ACheckpointTellsWhatIsLeftInTheLog) {
  using LogState = SqliteDatabase::LogState;
  const auto insert = [&] { ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t(v) VALUES(1)")); };
  insert();
  EXPECT_EQ(database_->Checkpoint(), LogState::kEmpty);
  insert();
  {
    const SystemCall fails("ftruncate", FailToCutOffAll);
    EXPECT_EQ(database_->Checkpoint(), LogState::kCopied);
  }
  EXPECT_EQ(database_->Checkpoint(), LogState::kEmpty);
  insert();
  {
    const SystemCall fails("ftruncate", FailToCutOff);
    EXPECT_EQ(database_->Checkpoint(), LogState::kHolds) << "the file's length is cut as well";
  }
  EXPECT_EQ(database_->Checkpoint(), LogState::kEmpty);
  EXPECT_EQ(Count(database_.get()), 3);
}

// A commit is durable by then: it is not held up for long.
TEST_F(SqliteTest, ACheckpointWaitsATenthOfASecondForAReader) {
  EXPECT_EQ(BusyTimeout(), 5000);
  const NoSleep no_sleep;
  for (const bool reads_the_log : {false, true}) {
    SCOPED_TRACE(reads_the_log);
    const auto reader = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly).value();
    const auto insert = [&] { ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t(v) VALUES(1)")); };
    if (reads_the_log) insert();
    const Transaction snapshot = Transaction::Begin(reader.get(), Transaction::Kind::kRead).value();
    EXPECT_EQ(Count(reader.get()), reads_the_log ? 2 : 0);
    if (!reads_the_log) insert();
    NoSleep::slept_us = 0;
    EXPECT_EQ(database_->Checkpoint(), SqliteDatabase::LogState::kHolds);
    EXPECT_GT(NoSleep::slept_us, 0);
    EXPECT_LE(NoSleep::slept_us, 100'000);
    EXPECT_EQ(BusyTimeout(), 5000);
  }
}

TEST_F(SqliteTest, AnImmutableFileIsReadAloneAndNotWritten) {
  ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2)"));
  database_.reset();
  const auto reader = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kImmutable).value();
  EXPECT_EQ(Count(reader.get()), 1);
  EXPECT_EQ(reader->Run("INSERT INTO t VALUES(3, 2)").code(), StatusCode::kReadOnly);
  EXPECT_FALSE(std::filesystem::exists(path() + "-wal"));
  EXPECT_FALSE(std::filesystem::exists(path() + "-shm"));
}

TEST_F(SqliteTest, AShortageOfTheSystemIsToldFromAFailure) {
  constexpr std::pair<int, StatusCode> kExpected[] = {
      {ENOSPC, StatusCode::kResourceExhausted}, {EDQUOT, StatusCode::kResourceExhausted},
      {EMFILE, StatusCode::kResourceExhausted}, {ENFILE, StatusCode::kResourceExhausted},
      {EACCES, StatusCode::kIoError},           {EIO, StatusCode::kIoError}};
  for (const auto& [error, code] : kExpected) {
    open_errno = error;
    const SystemCall fails("open", FailToOpen);
    EXPECT_EQ(
        SqliteDatabase::Open(dir_.File("other"), SqliteDatabase::Mode::kReadOnly).status().code(),
        code)
        << error;
  }
}

TEST_F(SqliteTest, ErrorsNameTheFileAndAreOurs) {
  EXPECT_THAT(database_->Select("SELECT nonsense FROM t").Step(),
              FailsWith(StatusCode::kInternal, HasSubstr("odd %41?name#.db: no such column")));
  ATTNDB_ASSERT_OK(database_->Run("INSERT INTO t VALUES(1, 2)"));
  EXPECT_THAT(database_->Run("INSERT INTO t VALUES(1, 2)"),
              FailsWith(StatusCode::kInternal, HasSubstr("UNIQUE")));
  const auto reader = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly).value();
  EXPECT_EQ(reader->Run("INSERT INTO t VALUES(3, 2)").code(), StatusCode::kReadOnly);
  const auto missing = SqliteDatabase::Open(dir_.File("none.db"), SqliteDatabase::Mode::kReadOnly);
  EXPECT_EQ(missing.status().code(), StatusCode::kIoError);
}

TEST_F(SqliteTest, ASecondWriterIsBusy) {
  const auto other = SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadWrite).value();
  sqlite3_busy_timeout(other->handle(), 10);
  const Transaction transaction =
      Transaction::Begin(database_.get(), Transaction::Kind::kWrite).value();
  EXPECT_EQ(Transaction::Begin(other.get(), Transaction::Kind::kWrite).status().code(),
            StatusCode::kBusy);
}

}  // namespace
}  // namespace attndb::store
