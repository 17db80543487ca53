// Goal:   the machine's files behave as file_system.h promises, errors included.
// Method: a temporary directory; a second lock; calls that must fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/coding.h"
#include "storage/io/file_system.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kText = "0123456789";

class PosixFileSystemTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, std::string_view text) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path));
    ATTNDB_ASSERT_OK(file->Append(BytesOf(text)));
    ATTNDB_ASSERT_OK(file->Sync());
    ATTNDB_ASSERT_OK(file->Close());
  }

  std::string Read(const std::string& path) {
    const Result<uint64_t> size = fs_->FileSize(path);
    EXPECT_THAT(size, test::IsOk());
    std::string text(*size, '\0');
    const auto file = fs_->OpenForRead(path);
    EXPECT_THAT((*file)->ReadAt(0, std::as_writable_bytes(std::span(text))), test::IsOk());
    return text;
  }

  test::TempDir dir_;
  FileSystem* const fs_ = PosixFileSystem();
  const std::string path_ = dir_.File("file");
};

TEST_F(PosixFileSystemTest, WritesAtTheEndAndInside) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path_));
  ATTNDB_ASSERT_OK(file->Append(BytesOf(kText)));
  ATTNDB_ASSERT_OK(file->WriteAt(3, BytesOf(std::string_view("abc"))));
  ATTNDB_ASSERT_OK(file->Append(BytesOf(std::string_view("!"))));
  ATTNDB_ASSERT_OK(file->Sync());
  ATTNDB_ASSERT_OK(file->Close());
  EXPECT_EQ(Read(path_), "012abc6789!");
  EXPECT_THAT(file->Append({}), FailsWith(StatusCode::kFailedPrecondition, HasSubstr(path_)));
}

TEST_F(PosixFileSystemTest, ReadsAllOfWhatWasAskedForOrFails) {
  Write(path_, kText);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenForRead(path_));
  std::string text(4, '\0');
  ATTNDB_ASSERT_OK(file->ReadAt(6, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "6789");
  EXPECT_THAT(file->ReadAt(7, std::as_writable_bytes(std::span(text))),
              FailsWith(StatusCode::kCorruption, HasSubstr(path_ + ": expected 1 more bytes")));
  EXPECT_EQ(*file->Size(), kText.size());
}

TEST_F(PosixFileSystemTest, AnOpenFileOutlivesItsName) {
  Write(path_, kText);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenForRead(path_));
  ATTNDB_ASSERT_OK(fs_->Remove(path_));
  std::string text(kText.size(), '\0');
  ATTNDB_ASSERT_OK(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, kText);
}

TEST_F(PosixFileSystemTest, NamesAreNeverReplaced) {
  Write(path_, kText);
  EXPECT_THAT(fs_->CreateNew(path_), FailsWith(StatusCode::kAlreadyExists, HasSubstr(path_)));
  Write(dir_.File("other"), "other");
  EXPECT_THAT(fs_->Rename(dir_.File("other"), path_),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr(path_)));
  EXPECT_EQ(Read(path_), kText);
  ATTNDB_ASSERT_OK(fs_->Rename(path_, dir_.File("free")));
  EXPECT_EQ(Read(dir_.File("free")), kText);
}

TEST_F(PosixFileSystemTest, WhatIsMissingIsNotFound) {
  EXPECT_THAT(fs_->OpenForRead(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->Remove(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->FileSize(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->FreeBytes(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->Rename(path_, dir_.File("x")), FailsWith(StatusCode::kNotFound, HasSubstr("x")));
  EXPECT_THAT(fs_->List(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->SyncDir(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->CreateDir(path_ + "/x"), FailsWith(StatusCode::kNotFound, HasSubstr("file/x")));
}

TEST_F(PosixFileSystemTest, DirectoriesListTheirNamesInOrder) {
  ATTNDB_ASSERT_OK(fs_->CreateDir(path_));
  ATTNDB_ASSERT_OK(fs_->CreateDir(path_));  // Again is fine.
  for (const char* name : {"b", "c", "a"}) Write(JoinPath(path_, name), name);
  EXPECT_THAT(*fs_->List(path_), ElementsAre("a", "b", "c"));
  ATTNDB_EXPECT_OK(fs_->SyncDir(path_));
  EXPECT_THAT(fs_->CreateDir(JoinPath(path_, "a")),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("a")));
}

TEST_F(PosixFileSystemTest, FilesAreTheirOwnersAlone) {
  Write(path_, kText);
  ATTNDB_ASSERT_OK(fs_->CreateDir(dir_.File("dir")));
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077u, 0u);
  ASSERT_EQ(::stat(dir_.File("dir").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077u, 0u);
}

TEST_F(PosixFileSystemTest, ALockHasOneHolderAndEndsWithIt) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto lock, fs_->Lock(path_));
    EXPECT_THAT(fs_->Lock(path_), FailsWith(StatusCode::kBusy, HasSubstr(path_)));
  }
  ATTNDB_EXPECT_OK(fs_->Lock(path_));
}

TEST_F(PosixFileSystemTest, ReadingADirectoryIsAnIoError) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenForRead(dir_.path()));
  std::string text(4, '\0');
  EXPECT_THAT(file->ReadAt(0, std::as_writable_bytes(std::span(text))),
              FailsWith(StatusCode::kIoError, HasSubstr("read: Is a directory")));
}

}  // namespace
}  // namespace attndb::storage
