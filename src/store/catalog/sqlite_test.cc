// Goal:   the wrapper binds, reads, caches and rolls back as SQLite's rules ask for, and turns its
//         errors into ours.
// Method: a scratch table.
#include "store/catalog/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

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
