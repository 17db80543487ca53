// Goal:   the path of a store has the system's meaning. An impossible path is refused with the
//         reason, before anything is made.
// Method: paths that a caller may build by joining texts, opened, stored to and opened again.
#include <filesystem>
#include <fstream>

#include "api/db_test_util.h"

namespace attndb {
namespace {

using test::FailsWith;
using test::IsOk;
using test::ToyModel;
using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

class StorePathTest : public ::testing::Test {
 protected:
  // A folder in the test's own, so long that the path of the store `folder`/s has `num_bytes`.
  std::string FolderOf(size_t num_bytes) const {
    constexpr size_t kNameBytes = 100;
    std::string folder = dir_.path();
    size_t left = num_bytes - folder.size() - 2;  // The rest for further names, without "/s".
    for (; left > 2 * kNameBytes; left -= kNameBytes + 1)
      folder += '/' + std::string(kNameBytes, 'd');
    return folder + '/' + std::string(left - 1, 'd');
  }

  const test::TempDir dir_ = test::TempDir::InMemory();
  const ToyModel model_;
};

TEST_F(StorePathTest, APathWithTwoLeadingSlashesIsThatWithOne) {
  const test::Tokens tokens = ToyModel::Tokens(20, 1);
  for (const char* slashes : {"/", "//"}) {  // The folder's own path begins with one.
    const Result<DB> db = DB::Open(slashes + dir_.File("store"));
    ASSERT_THAT(db, IsOk());
    if (db->List()->empty()) {
      const test::KvArrays kv(model_, tokens);
      ATTNDB_ASSERT_OK(db->Import(model_.spec(), tokens, kv.layers(), {.name = "a"}));
    }
  }
  ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(dir_.File("store")));
  EXPECT_EQ(*db.Tokens("a"), tokens);
}

TEST_F(StorePathTest, TheLongestPathIsOpenedAndALongerOneIsRefusedByItsLength) {
  const std::string longest = FolderOf(DB::kMaxPathBytes);
  std::filesystem::create_directories(longest);
  EXPECT_EQ(longest.size() + 2, DB::kMaxPathBytes);
  EXPECT_THAT(DB::Open(longest + "/s"), IsOk());
  EXPECT_THAT(DB::Open(longest + "/s"), IsOk());
  const std::string longer = FolderOf(DB::kMaxPathBytes + 1);
  std::filesystem::create_directories(longer);
  EXPECT_THAT(
      DB::Open(longer + "/s").status(),
      FailsWith(StatusCode::kInvalidArgument,
                AllOf(HasSubstr(longer), HasSubstr("490 bytes"), HasSubstr("at most 489"))));
  EXPECT_TRUE(std::filesystem::is_empty(longer));
}

TEST_F(StorePathTest, WhatALinkLeadsToCountsAndNotItsName) {
  const std::string longer = FolderOf(DB::kMaxPathBytes + 1);
  std::filesystem::create_directories(longer);
  std::filesystem::create_directory_symlink(longer, dir_.File("link"));
  EXPECT_THAT(DB::Open(dir_.File("link/s")).status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("490 bytes")));
}

// By a linked parent, by a link to the store, and by a link to that one.
TEST_F(StorePathTest, AStoreBehindALinkIsTheStoreItself) {
  namespace fs = std::filesystem;
  const test::Tokens tokens = ToyModel::Tokens(20, 1);
  const test::KvArrays kv(model_, tokens);
  fs::create_directory(dir_.File("folder"));
  fs::create_directory_symlink("folder", dir_.File("linked"));
  fs::create_directory_symlink("folder/s", dir_.File("store"));
  fs::create_directory_symlink(dir_.File("store"), dir_.File("linked/again"));
  {  // Made behind a link.
    ATTNDB_ASSERT_OK_AND_ASSIGN(const DB db, DB::Open(dir_.File("linked/s")));
    ATTNDB_ASSERT_OK(db.Import(model_.spec(), tokens, kv.layers(), {.name = "a"}));
  }
  for (const std::string path : {"linked/s", "store", "linked/again", "folder/s"}) {
    SCOPED_TRACE(path);
    ATTNDB_ASSERT_OK_AND_ASSIGN(DB db, DB::Open(dir_.File(path)));
    EXPECT_EQ(*db.Tokens("a"), tokens);
    ATTNDB_EXPECT_OK(db.Import(model_.spec(), tokens, kv.layers(), {.name = path.substr(0, 3)}));
    // One writer, by whatever path.
    for (const char* const other : {"store", "folder/s"}) {
      EXPECT_THAT(DB::Open(dir_.File(other)).status(), FailsWith(StatusCode::kBusy, _));
    }
    EXPECT_TRUE(db.Verify()->ok());
    ATTNDB_EXPECT_OK(db.Drop(path.substr(0, 3)));
    ATTNDB_EXPECT_OK(db.Compact());
  }
}

TEST_F(StorePathTest, APathThatNamesNoFolderIsRefused) {
  EXPECT_THAT(DB::Open("").status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("is empty")));
  EXPECT_THAT(DB::Open(dir_.File(std::string("a\0b", 3))).status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("zero byte")));
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(StorePathTest, AFileOrALinkToNothingIsNoFolder) {
  namespace fs = std::filesystem;
  std::ofstream(dir_.File("file")) << "text";
  fs::create_symlink("nowhere", dir_.File("dangling"));
  for (const bool create : {false, true}) {
    const DBOptions options = {.create_if_missing = create};
    for (const char* const path : {"file", "file/", "file/s", "file/a/b"}) {
      EXPECT_THAT(DB::Open(dir_.File(path), options).status(),
                  FailsWith(StatusCode::kInvalidArgument,
                            HasSubstr(dir_.File("file") + "' is a file, expected a folder")));
    }
    for (const char* const path : {"dangling", "dangling/", "dangling/s"}) {
      EXPECT_THAT(DB::Open(dir_.File(path), options).status(),
                  FailsWith(StatusCode::kInvalidArgument,
                            HasSubstr("dangling' is a symbolic link to 'nowhere', which does not "
                                      "exist")));
    }
  }
  EXPECT_FALSE(fs::exists(dir_.File("nowhere")));
}

TEST_F(StorePathTest, AFolderWithTooLongANameIsTheCallersMistake) {
  EXPECT_THAT(DB::Open(dir_.File(std::string(256, 'n'))).status(),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("File name too long")));
}

}  // namespace
}  // namespace attndb
