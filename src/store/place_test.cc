// Goal:   a path that now leads to another place is reported.
// Method: a folder with a file, which are moved, replaced and put back.
#include "store/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::store {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(PlaceTest, EachPathMustLeadToWhatItLedTo) {
  const test::TempDir dir;
  const std::string folder = dir.File("folder"), file = dir.File("file"), away = dir.File("away");
  std::filesystem::create_directory(folder);
  std::ofstream(file) << "a";
  Place place;
  ATTNDB_ASSERT_OK(place.Add(folder));
  ATTNDB_ASSERT_OK(place.Add(file));
  ATTNDB_EXPECT_OK(place.Check());
  std::ofstream(file) << "other contents";  // It is the same file.
  ATTNDB_EXPECT_OK(place.Check());
  for (const std::string& path : {folder, file}) {
    std::filesystem::rename(path, away);
    EXPECT_THAT(place.Check(),
                test::FailsWith(StatusCode::kIoError,
                                AllOf(HasSubstr(path + ": was moved"), HasSubstr("(" + path))));
    std::filesystem::copy(away, path);
    EXPECT_THAT(place.Check(),
                test::FailsWith(StatusCode::kIoError, HasSubstr(path + ": was moved, replaced")));
    std::filesystem::remove_all(path);
    std::filesystem::rename(away, path);
    ATTNDB_EXPECT_OK(place.Check());
  }
}

TEST(PlaceTest, WhatIsNotThereCanNotBeAdded) {
  const test::TempDir dir;
  Place place;
  EXPECT_THAT(place.Add(dir.File("none")),
              test::FailsWith(StatusCode::kIoError, HasSubstr("none: stat: ")));
  ATTNDB_EXPECT_OK(place.Check());
}

}  // namespace
}  // namespace attndb::store
