// Goal:   each page of a database file is bound to its content and its place.
// Method: pages sealed and changed by hand; files as a plain SQLite sees them.
#include "store/catalog/checked_vfs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <utility>

#include "store/catalog/raw_file.h"
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
  Status CountRows() {
    ATTNDB_ASSIGN_OR_RETURN(const auto database,
                            SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly));
    return database->Select("SELECT count(*) FROM t").Step().status();
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
  // An error that has nothing to do with the page is not put down to it.
  EXPECT_THAT(database->Select("SELECT nonsense FROM t").Step(),
              FailsWith(StatusCode::kInternal, HasSubstr("no such column")));
}

// SQLite would take page size, reserved bytes and auto-vacuum from there.
TEST_F(CheckedVfsFile, AHeaderThatIsNotOursIsRefusedThoughItsPageIsSealed) {
  Fill();
  std::array<std::byte, kPageBytes> good;
  ATTNDB_ASSERT_OK(RawFile::Open(path())->Read(0, good));
  const std::pair<size_t, std::byte> values[] = {{16, std::byte{0x20}},
                                                 {17, std::byte{1}},
                                                 {20, std::byte{0}},
                                                 {55, std::byte{1}},
                                                 {67, std::byte{1}}};
  for (const auto& [offset, value] : values) {
    SCOPED_TRACE(offset);
    std::array<std::byte, kPageBytes> page = good;
    page[offset] = value;
    SealPage(1, page);
    {
      std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
      file.write(reinterpret_cast<const char*>(page.data()), kPageBytes);
    }
    EXPECT_THAT(CountRows(), FailsWith(StatusCode::kCorruption, HasSubstr("test.db: ")));
  }
  {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.write(reinterpret_cast<const char*>(good.data()), kPageBytes);
  }
  ATTNDB_EXPECT_OK(CountRows());
}

TEST_F(CheckedVfsFile, BesidesWholePagesTheHeaderAloneIsRead) {
  Fill();
  const auto database = Open(SqliteDatabase::Mode::kReadOnly);
  sqlite3_file* file = nullptr;
  ASSERT_EQ(sqlite3_file_control(database->handle(), "main", SQLITE_FCNTL_FILE_POINTER, &file),
            SQLITE_OK);
  std::array<char, 2 * kPageBytes> bytes;
  const auto read = [&](int num_bytes, sqlite3_int64 offset) {
    bytes.fill('\xff');
    return file->pMethods->xRead(file, bytes.data(), num_bytes, offset);
  };
  EXPECT_EQ(read(4096, 0), SQLITE_OK);
  EXPECT_EQ(read(4096, 4096), SQLITE_OK);
  EXPECT_EQ(read(100, 0), SQLITE_OK);
  EXPECT_EQ(read(50, 0), SQLITE_OK);
  EXPECT_EQ(read(76, 24), SQLITE_OK);
  EXPECT_EQ(read(77, 24), SQLITE_IOERR_DATA);
  EXPECT_EQ(read(101, 0), SQLITE_IOERR_DATA);
  EXPECT_EQ(read(100, 4096), SQLITE_IOERR_DATA);
  EXPECT_EQ(read(4096, 100), SQLITE_IOERR_DATA);
  EXPECT_EQ(read(8192, 0), SQLITE_IOERR_DATA);
  EXPECT_EQ(file->pMethods->xWrite(file, bytes.data(), 100, 0), SQLITE_IOERR_WRITE);
}

TEST_F(CheckedVfsFile, AFileThatEndsWithinAPageIsDamagedWhenItIsOpened) {
  ATTNDB_ASSERT_OK(Open(SqliteDatabase::Mode::kCreate)->Execute("PRAGMA user_version = 5"));
  ASSERT_EQ(std::filesystem::file_size(path()), kPageBytes);
  ATTNDB_EXPECT_OK(SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly));
  std::filesystem::resize_file(path(), kPageBytes - 1);
  EXPECT_THAT(SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly),
              FailsWith(StatusCode::kCorruption, HasSubstr("page 1 is damaged")));
}

// A plain SQLite writes no seals: the file is not trusted, and the error says so.
TEST_F(CheckedVfsFile, AFileWrittenWithoutChecksIsRefused) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path().c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "CREATE TABLE t(x)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_EQ(SqliteDatabase::Open(path(), SqliteDatabase::Mode::kReadOnly).status().code(),
            StatusCode::kCorruption);
}

}  // namespace
}  // namespace attndb::store
