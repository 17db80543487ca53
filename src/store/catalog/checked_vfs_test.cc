// Goal:   each page of a database file is bound to its content and its place.
// Method: pages sealed and changed by hand; files as a plain SQLite sees them.
#include "store/catalog/checked_vfs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <fstream>

#include "store/catalog/sqlite.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

TEST(CheckedVfs, ASealedPageIsGoodInItsPlaceOnly) {
  std::array<std::byte, kPageBytes> page{};
  page[7] = std::byte{1};
  SealPage(3, page);
  EXPECT_EQ(PageDamage(3, page), "");
  EXPECT_EQ(PageDamage(4, page), "holds page 3");
}

TEST(CheckedVfs, EveryBitOfAPageCounts) {
  std::array<std::byte, kPageBytes> page{};
  SealPage(3, page);
  for (size_t bit = 0; bit < kPageBytes * 8; ++bit) {
    page[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    EXPECT_THAT(PageDamage(3, page), HasSubstr("checksum"));
    page[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  }
}

class CheckedVfsFile : public ::testing::Test {
 protected:
  std::unique_ptr<SqliteDatabase> Open(SqliteDatabase::Mode mode) {
    return SqliteDatabase::Open(path(), mode).value();
  }
  void Fill() {
    const auto database = Open(SqliteDatabase::Mode::kCreate);
    ATTNDB_ASSERT_OK(database->Execute(
        "CREATE TABLE t(x); WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n "
        "WHERE i < 5000) INSERT INTO t SELECT hex(randomblob(20)) FROM n"));
  }
  std::string path() const { return dir_.File("test.db"); }

  test::TempDir dir_;
};

TEST_F(CheckedVfsFile, EveryPageOnDiskIsSealed) {
  Fill();
  std::ifstream file(path(), std::ios::binary);
  std::array<char, kPageBytes> page;
  uint32_t num_pages = 0;
  while (file.read(page.data(), page.size())) {
    EXPECT_EQ(PageDamage(++num_pages, std::as_bytes(std::span(page))), "");
  }
  EXPECT_EQ(file.gcount(), 0);
  EXPECT_GT(num_pages, 50u);
}

TEST_F(CheckedVfsFile, APlainSqliteCanReadIt) {
  Fill();
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open_v2(path().c_str(), &handle, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  ASSERT_EQ(sqlite3_prepare_v2(handle, "PRAGMA integrity_check", -1, &statement, nullptr),
            SQLITE_OK);
  EXPECT_EQ(sqlite3_step(statement), SQLITE_ROW);
  EXPECT_STREQ(reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)), "ok");
  sqlite3_finalize(statement);
  sqlite3_close(handle);
}

TEST_F(CheckedVfsFile, ADamagedPageFailsTheQueryThatNeedsIt) {
  Fill();
  {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 * 20 + 99);
    file.put('!');
  }
  const auto database = Open(SqliteDatabase::Mode::kReadOnly);
  Query query = database->Select("SELECT count(DISTINCT x) FROM t");
  EXPECT_THAT(query.Step(), FailsWith(StatusCode::kCorruption, HasSubstr("page 21 is damaged")));
  Query other = database->Select("SELECT x FROM t LIMIT 1");
  ATTNDB_EXPECT_OK(other.Step());
}

// What a plain SQLite writes has no seals: not trusted, and said so.
TEST_F(CheckedVfsFile, AFileWrittenWithoutChecksIsRefused) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "CREATE TABLE t(x)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  const Result<std::unique_ptr<SqliteDatabase>> database =
      SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly);
  if (!database.ok()) {
    EXPECT_EQ(database.status().code(), StatusCode::kCorruption);
    return;
  }
  Query query = (*database)->Select("SELECT * FROM t");
  EXPECT_EQ(query.Step().status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace attndb::store
