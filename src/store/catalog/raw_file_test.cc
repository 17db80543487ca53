// Goal:   a database file is read as it lies, and SQLite's locks on it stay.
// Method: files of known bytes; a lock of a connection, asked for by a process beside.
#include "store/catalog/raw_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "store/catalog/sqlite.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;

TEST(RawFileTest, GivesTheBytesAndSaysWhereTheyEnd) {
  const test::TempDir dir;
  const std::string path = dir.File("a");
  std::ofstream(path, std::ios::binary) << "0123456789";
  const Result<RawFile> file = RawFile::Open(path);
  ATTNDB_ASSERT_OK(file);
  EXPECT_EQ(file->NumBytes().value(), 10u);
  std::array<std::byte, 4> bytes{};
  ATTNDB_ASSERT_OK(file->Read(6, bytes));
  EXPECT_EQ(bytes[3], std::byte{'9'});
  EXPECT_THAT(file->Read(7, bytes), FailsWith(StatusCode::kCorruption, path + ": it is cut short"));
}

TEST(RawFileTest, SymbolicLinksAreFollowed) {
  namespace fs = std::filesystem;
  const test::TempDir dir;
  fs::create_directory(dir.File("folder"));
  std::ofstream(dir.File("folder/a"), std::ios::binary) << "0123456789";
  fs::create_directory_symlink("folder", dir.File("linked"));
  fs::create_symlink("folder/a", dir.File("b"));
  fs::create_symlink(dir.File("b"), dir.File("linked/c"));
  for (const char* const path : {"linked/a", "b", "linked/c"}) {
    const Result<RawFile> file = RawFile::Open(dir.File(path));
    ATTNDB_ASSERT_OK(file) << path;
    EXPECT_EQ(file->NumBytes().value(), 10u) << path;
  }
  fs::create_symlink("nothing", dir.File("dangling"));
  EXPECT_THAT(RawFile::Open(dir.File("dangling")).status(),
              FailsWith(StatusCode::kIoError, ::testing::HasSubstr("dangling")));
}

TEST(RawFileTest, AnAbsentFileIsNamed) {
  const test::TempDir dir;
  const std::string path = dir.File("a");
  EXPECT_THAT(RawFile::Open(path).status(),
              FailsWith(StatusCode::kIoError, ::testing::HasSubstr(path)));
}

TEST(RawFileTest, ClosingItGivesItsMemoryBack) {
  const test::TempDir dir;
  const std::string path = dir.File("a");
  std::ofstream(path, std::ios::binary) << "0123456789";
  ATTNDB_EXPECT_OK(RawFile::Open(path));
  const sqlite3_int64 before = sqlite3_memory_used();
  ATTNDB_EXPECT_OK(RawFile::Open(path));
  EXPECT_EQ(sqlite3_memory_used(), before);
}

// Whether another process may take a lock on all of the file.
bool CanBeLockedByAnother(const std::string& path) {
  const pid_t child = fork();
  if (child == 0) {
    const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    _exit(file >= 0 && fcntl(file, F_SETLK, &lock) == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status == 0;
}

TEST(RawFileTest, ClosingItDropsNoLockOfSqlite) {
  const test::TempDir dir;
  const std::string path = dir.File("a.db");
  const auto database = SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate).value();
  ATTNDB_ASSERT_OK(database->Execute("CREATE TABLE t(x); BEGIN EXCLUSIVE"));
  ASSERT_FALSE(CanBeLockedByAnother(path));
  ATTNDB_EXPECT_OK(RawFile::Open(path));  // And closed.
  EXPECT_FALSE(CanBeLockedByAnother(path));
}

}  // namespace
}  // namespace attndb::store
