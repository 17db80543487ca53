// Goal:   a file is read only as far as it was checked, and appears whole or not at all.
// Method: files in memory and on disk; a fault at each operation of writing one.
#include "api/kv_file/safetensors_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <string>
#include <vector>

#include "common/coding.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/temp_dir.h"

namespace attndb::internal {
namespace {

using test::FailsWith;
using test::FaultFileSystem;
using test::FaultKind;
using test::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::array<uint8_t, 6> kData = {1, 2, 3, 4, 5, 6};

SafetensorsHeader Header() {
  SafetensorsHeader header;
  header.tensors = {{"a", "U8", {2}, 0, 2}, {"b", "U8", {4}, 2, 6}};
  return header;
}

Status Write(storage::FileSystem* file_system, const std::string& path) {
  ATTNDB_ASSIGN_OR_RETURN(SafetensorsWriter writer,
                          SafetensorsWriter::Create(file_system, path, Header()));
  ATTNDB_RETURN_IF_ERROR(writer.Append(BytesOf(std::span(kData).first(4))));
  ATTNDB_RETURN_IF_ERROR(writer.Append(BytesOf(std::span(kData).last(2))));
  return writer.Finish();
}

class SafetensorsFileTest : public ::testing::Test {
 protected:
  SafetensorsFileTest() { ATTNDB_EXPECT_OK(file_system_.CreateDir("d")); }

  std::vector<std::byte> Whole() {
    ATTNDB_EXPECT_OK(Write(&file_system_, "d/whole"));
    return file_system_.Contents("d/whole");
  }
  void ExpectRefused(std::vector<std::byte> bytes, StatusCode code, const char* message) {
    file_system_.SetContents("d/bad", std::move(bytes));
    EXPECT_THAT(SafetensorsReader::Open(&file_system_, "d/bad"),
                FailsWith(code, ::testing::AllOf(HasSubstr("d/bad"), HasSubstr(message))));
  }

  MemoryFileSystem file_system_;
};

TEST_F(SafetensorsFileTest, WhatIsWrittenIsRead) {
  ATTNDB_ASSERT_OK(Write(&file_system_, "d/x"));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                              SafetensorsReader::Open(&file_system_, "d/x"));
  ASSERT_EQ(reader.header().tensors.size(), 2u);
  std::array<std::byte, 3> bytes{};
  ATTNDB_ASSERT_OK(reader.ReadAt(reader.header().tensors[1], 1, bytes));
  EXPECT_THAT(bytes, ElementsAre(std::byte{4}, std::byte{5}, std::byte{6}));
  EXPECT_THAT(*file_system_.List("d"), ElementsAre("x"));
}

TEST_F(SafetensorsFileTest, AFileIsNeverReplaced) {
  ATTNDB_ASSERT_OK(Write(&file_system_, "d/x"));
  EXPECT_THAT(Write(&file_system_, "d/x"),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("file 'd/x' exists")));
  ATTNDB_ASSERT_OK_AND_ASSIGN(SafetensorsWriter late,
                              SafetensorsWriter::Create(&file_system_, "d/y", Header()));
  ATTNDB_ASSERT_OK(Write(&file_system_, "d/y"));
  ATTNDB_ASSERT_OK(late.Append(BytesOf(kData)));
  EXPECT_EQ(late.Finish().code(), StatusCode::kAlreadyExists);
}

TEST_F(SafetensorsFileTest, AHeaderThatIsNotUtf8MakesNoFile) {
  SafetensorsHeader header = Header();
  header.metadata["note"] = "\xff";
  EXPECT_THAT(SafetensorsWriter::Create(&file_system_, "d/x", header),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("file 'd/x': __metadata__")));
  EXPECT_THAT(*file_system_.List("d"), IsEmpty());
}

TEST_F(SafetensorsFileTest, WhatIsNotFinishedIsRemoved) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(SafetensorsWriter writer,
                                SafetensorsWriter::Create(&file_system_, "d/x", Header()));
    ATTNDB_ASSERT_OK(writer.Append(BytesOf(kData)));
    EXPECT_EQ(file_system_.List("d")->size(), 1u);
  }
  EXPECT_THAT(*file_system_.List("d"), IsEmpty());
}

TEST_F(SafetensorsFileTest, AFaultAtAnyMomentLeavesAllOrNothing) {
  for (const FaultKind kind : {FaultKind::kIoError, FaultKind::kTornWrite}) {
    for (uint64_t n = 1;; ++n) {
      MemoryFileSystem memory;
      ATTNDB_ASSERT_OK(memory.CreateDir("d"));
      FaultFileSystem faulty(&memory);
      faulty.SetPlan({.fail_at = n, .kind = kind, .removes_fail = false});
      const Status status = Write(&faulty, "d/x");
      const std::vector<std::string> names = *memory.List("d");
      if (status.ok()) {
        EXPECT_THAT(names, ElementsAre("x"));
        if (faulty.num_faults() == 0) break;
        continue;  // The search for an earlier file failed.
      }
      // The name may be there when only its durability is in doubt; then the file is whole.
      if (!names.empty()) {
        EXPECT_THAT(names, ElementsAre("x"));
        ATTNDB_EXPECT_OK(SafetensorsReader::Open(&memory, "d/x"));
      }
    }
  }
}

TEST_F(SafetensorsFileTest, AFileOfAnyOtherLengthIsRefused) {
  const std::vector<std::byte> whole = Whole();
  for (size_t length = 0; length < whole.size(); ++length) {
    file_system_.SetContents("d/cut", {whole.begin(), whole.begin() + static_cast<long>(length)});
    EXPECT_EQ(SafetensorsReader::Open(&file_system_, "d/cut").status().code(),
              StatusCode::kInvalidArgument)
        << length;
  }
  std::vector<std::byte> longer = whole;
  longer.push_back(std::byte{0});
  ExpectRefused(longer, StatusCode::kInvalidArgument, "but the file has 7 behind its header");
  ExpectRefused({}, StatusCode::kInvalidArgument, "has 0 bytes, expected at least 8");
}

TEST_F(SafetensorsFileTest, TheHeadersLengthIsCheckedBeforeItIsRead) {
  std::vector<std::byte> bytes = Whole();
  for (const uint64_t length :
       {uint64_t{100'000'001}, UINT64_MAX, UINT64_MAX - 8, uint64_t{5000}}) {
    std::copy_n(reinterpret_cast<const std::byte*>(&length), 8, bytes.begin());
    ExpectRefused(bytes, StatusCode::kInvalidArgument, "by its first 8, expected at most");
  }
}

TEST_F(SafetensorsFileTest, AFileThatShrinksGivesAnErrorNotASignal) {
  std::vector<std::byte> bytes = Whole();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const SafetensorsReader reader,
                              SafetensorsReader::Open(&file_system_, "d/whole"));
  bytes.resize(bytes.size() - 1);
  file_system_.SetContents("d/whole", bytes);
  std::array<std::byte, 4> out{};
  EXPECT_EQ(reader.ReadAt(reader.header().tensors[1], 0, out).code(), StatusCode::kCorruption);
}

TEST(SafetensorsDiskTest, OnlyRegularFilesAreOpened) {
  const test::TempDir dir;
  storage::FileSystem* const disk = storage::PosixFileSystem();
  ASSERT_EQ(::mkfifo(dir.File("pipe").c_str(), 0600), 0);
  EXPECT_THAT(SafetensorsReader::Open(disk, dir.File("pipe")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("is no regular file")));
  EXPECT_THAT(SafetensorsReader::Open(disk, dir.path()),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("is no regular file")));
  EXPECT_EQ(SafetensorsReader::Open(disk, dir.File("none")).status().code(), StatusCode::kNotFound);
  ATTNDB_ASSERT_OK(Write(disk, dir.File("x")));
  ATTNDB_EXPECT_OK(SafetensorsReader::Open(disk, dir.File("x")));
}

}  // namespace
}  // namespace attndb::internal
