// Goal:   a file is taken for a catalog only if it is one of ours, and is made whole or not at all.
// Method: foreign, newer and changed files; what a crash leaves while one is made.
#include "store/catalog/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>

#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

class SchemaTest : public ::testing::Test {
 protected:
  SchemaTest() { harness_.Close(); }

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
  EXPECT_THAT(harness_.Open(), FailsWith(StatusCode::kCorruption, HasSubstr("not a catalog")));
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

TEST_F(SchemaTest, ANewerVersionIsRefusedInNumbers) {
  {
    auto database = SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadWrite);
    ATTNDB_ASSERT_OK((*database)->Execute("PRAGMA user_version = 8"));
  }
  EXPECT_THAT(harness_.Open(),
              FailsWith(StatusCode::kUnsupported, HasSubstr("version 8, expected at most 7")));
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
