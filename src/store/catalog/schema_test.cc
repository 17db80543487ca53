// Goal:   a file is taken for a catalog only if it is one of ours, and is made whole or not at all.
// Method: foreign, newer and changed files; what a crash leaves while one is made.
#include "store/catalog/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/sqlite_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

const auto kNoHeader = HasSubstr("not a catalog: no SQLite header in its first 100 bytes");

// The nth write of a file fails; those before and after it don't.
int num_writes_left = 0;
bool Fails() {
  if (--num_writes_left != 0) return false;
  errno = ENOSPC;
  return true;
}
ssize_t FailToWrite(int file, const void* bytes, size_t num_bytes) {
  return Fails() ? -1 : write(file, bytes, num_bytes);
}
ssize_t FailToWriteAt(int file, const void* bytes, size_t num_bytes, off_t offset) {
  return Fails() ? -1 : pwrite(file, bytes, num_bytes, offset);
}

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest() { harness_.Close(); }

  std::unique_ptr<SqliteDatabase> Connect() {
    return SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite).value();
  }
  // An upgrade that fails leaves the version as it was.
  void ExpectNoUpgrade(const std::string& change, int64_t version, const char* message) {
    const auto database = Connect();
    ATTNDB_ASSERT_OK(database->Execute(change.c_str()));
    EXPECT_THAT(UpgradeSchema(database.get()),
                FailsWith(StatusCode::kInternal, HasSubstr(message)));
    EXPECT_EQ(SchemaVersion(database.get()).value(), version);
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }

  CatalogHarness harness_;
};

TEST_F(SchemaTest, ACreationThatACrashCutShortIsDoneAgain) {
  CatalogOptions options;
  options.path = harness_.dir() + "/other.db";
  options.create_if_missing = true;
  for (const char* const suffix : {".new", ".new-journal", ".new-wal", ".new-shm"}) {
    WriteFile(options.path + suffix, "half");
  }
  ATTNDB_EXPECT_OK(Catalog::Open(options));
  EXPECT_FALSE(std::filesystem::exists(options.path + ".new"));
}

TEST_F(SchemaTest, AForeignFileIsRefusedInWords) {
  WriteFile(harness_.path(), std::string(5000, 'x'));
  EXPECT_THAT(harness_.Open(), FailsWith(StatusCode::kCorruption, kNoHeader));
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::filesystem::remove(harness_.path() + suffix);
  }
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(harness_.path().c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, "CREATE TABLE t(x)", nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(handle);
  EXPECT_THAT(harness_.Open(), FailsWith(StatusCode::kCorruption,
                                         HasSubstr("application id 00000000, expected 6174746e")));
  EXPECT_FALSE(std::filesystem::exists(harness_.path() + "-wal"));
}

TEST_F(SchemaTest, AFileThatEndsWithinItsHeaderIsNoCatalog) {
  const std::string good = ReadFile(harness_.path());
  for (const size_t num_bytes : {size_t{0}, size_t{99}}) {
    WriteFile(harness_.path(), good.substr(0, num_bytes));
    EXPECT_THAT(CheckCatalogFile(harness_.path()), FailsWith(StatusCode::kCorruption, kNoHeader));
  }
  WriteFile(harness_.path(), good.substr(0, 100));
  ATTNDB_EXPECT_OK(CheckCatalogFile(harness_.path()));
  EXPECT_THAT(CheckCatalogFile(harness_.path() + "/below"),
              FailsWith(StatusCode::kIoError, HasSubstr("Not a directory")));
}

TEST_F(SchemaTest, ACatalogThatCantBeMadeIsRefusedInWords) {
  EXPECT_THAT(CreateCatalogFile(harness_.dir() + "/none/catalog.db"),
              FailsWith(StatusCode::kNotFound, HasSubstr("/none/catalog.db.new: create: ")));
  const std::string path = harness_.dir() + "/other.db";
  std::filesystem::create_directory(path + ".new");
  EXPECT_THAT(CreateCatalogFile(path),
              FailsWith(StatusCode::kIoError, HasSubstr("remove what a crash left")));
}

TEST_F(SchemaTest, ACatalogIsMadeWholeOrNotAtAllWhereAWriteFails) {
  const std::string path = harness_.dir() + "/other.db";
  int num_failures = 0;
  for (int nth = 1; !std::filesystem::exists(path); nth *= 2) {
    num_writes_left = nth;
    Status status;
    {
      const SystemCall writes("write", FailToWrite);
      const SystemCall writes_at("pwrite", FailToWriteAt);
      const SystemCall writes_at_64("pwrite64", FailToWriteAt);
      status = CreateCatalogFile(path);
    }
    if (num_writes_left > 0) {
      ATTNDB_ASSERT_OK(status);
      ASSERT_TRUE(std::filesystem::exists(path));
      continue;
    }
    ++num_failures;
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << nth << ": " << status;
    ASSERT_FALSE(std::filesystem::exists(path)) << nth;
  }
  EXPECT_GT(num_failures, 4);
}

TEST_F(SchemaTest, ANewCatalogIsItsOwnersAloneAndHasAnIdOfItsOwn) {
  const mode_t before = umask(022);
  const std::string path = harness_.dir() + "/other.db";
  ATTNDB_ASSERT_OK(CreateCatalogFile(path));
  umask(before);
  EXPECT_EQ(ModeOf(path), 0600u);
  CatalogOptions options;
  options.path = path;
  const StoreUuid uuid = Catalog::Open(options).value()->store_uuid();
  EXPECT_NE(uuid, StoreUuid());
  EXPECT_NE(uuid, harness_.Open().value()->store_uuid());
}

TEST_F(SchemaTest, WhatOthersMayReadIsClosedToThemAndNothingElseIsChanged) {
  const std::string path = harness_.dir() + "/other.db";
  WriteFile(path, "a");
  WriteFile(path + "-wal", "a");
  for (const auto& [mode, expected] : {std::pair(0644u, 0600u), std::pair(0700u, 0700u)}) {
    ASSERT_EQ(chmod(path.c_str(), mode), 0);
    ASSERT_EQ(chmod((path + "-wal").c_str(), mode), 0);
    CloseToOthers(path);
    EXPECT_EQ(ModeOf(path), expected);
    EXPECT_EQ(ModeOf(path + "-wal"), expected);
  }
  EXPECT_FALSE(std::filesystem::exists(path + "-shm"));
}

// The first file that is opened then has the number 0.
TEST_F(SchemaTest, ACatalogIsMadeWithoutAStandardInput) {
  const std::string path = harness_.dir() + "/other.db";
  const pid_t pid = fork();
  if (pid == 0) {
    close(STDIN_FILENO);
    const bool is_made = CreateCatalogFile(path).ok();
    struct stat info {};
    const bool is_open = fstat(STDIN_FILENO, &info) == 0 && S_ISREG(info.st_mode);
    _exit(is_made && !is_open ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(SchemaTest, AnUpgradeIsWholeOrNotAtAll) {
  const std::string good = ReadFile(harness_.path());
  ExpectNoUpgrade("PRAGMA user_version = 8", 8, "context_titles already exists");
  WriteFile(harness_.path(), good);
  ExpectNoUpgrade(
      std::string(kDropCounters) +
          "; PRAGMA user_version = 2; CREATE TEMP VIEW tenant_uses AS SELECT 0 AS tenant",
      2, "cannot modify tenant_uses");
  WriteFile(harness_.path(), good);
  ExpectNoUpgrade(
      std::string(kDropNumbers) +
          "; PRAGMA user_version = 5; CREATE TEMP VIEW next_numbers AS SELECT 0 AS tenant",
      5, "cannot modify next_numbers");
}

TEST_F(SchemaTest, AnotherIdOrNoVersionIsNoCatalog) {
  const auto database = Connect();
  ATTNDB_EXPECT_OK(CheckSchema(database.get()));
  ATTNDB_ASSERT_OK(database->Execute("PRAGMA application_id = 5"));
  EXPECT_THAT(
      CheckSchema(database.get()),
      FailsWith(StatusCode::kCorruption, HasSubstr("application id 5 version 9, expected")));
  ATTNDB_ASSERT_OK(database->Execute("PRAGMA application_id = 0x6174746e"));
  ATTNDB_ASSERT_OK(database->Execute("PRAGMA user_version = 0"));
  EXPECT_THAT(CheckSchema(database.get()),
              FailsWith(StatusCode::kCorruption, HasSubstr(" version 0, expected ")));
}

TEST_F(SchemaTest, ANewerVersionIsRefusedInNumbers) {
  {
    auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK((*database)->Execute("PRAGMA user_version = 10"));
  }
  EXPECT_THAT(harness_.Open(),
              FailsWith(StatusCode::kUnsupported, HasSubstr("version 10, expected at most 9")));
}

TEST_F(SchemaTest, AnotherSchemaIsRefused) {
  {
    auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK((*database)->Execute("CREATE TABLE more(x)"));
  }
  EXPECT_THAT(harness_.Open(), FailsWith(StatusCode::kCorruption, HasSubstr("more(x)")));
}

}  // namespace
}  // namespace attndb::store
