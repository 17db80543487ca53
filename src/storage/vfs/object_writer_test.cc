// Goal:   objects of any kind and length are written once, in bounded memory, under their own
//         names.
// Method: lengths around granule and buffer; a companion object; misuse; a fault of each operation.
#include "storage/vfs/object_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "common/random.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_reader.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using test::MemoryFileSystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDir = "segments";

class ObjectWriterTest : public ::testing::Test {
 protected:
  ObjectWriterTest() { ATTNDB_EXPECT_OK(fs_.CreateDir(kDir)); }

  ObjectWriter::Options OptionsFor(uint64_t id, uint64_t head_bytes = 0) {
    return {.file_system = &fs_, .dir = kDir, .name = {.segment_id = id}, .head_bytes = head_bytes};
  }

  MemoryFileSystem fs_;
  Random random_{60};
};

TEST_F(ObjectWriterTest, WhatWasAppendedInPiecesReadsBackAsOne) {
  uint64_t id = 0;
  for (const uint64_t size : {0u, 1u, 4095u, 4096u, 4097u, 524287u, 524288u, 1500000u}) {
    std::vector<std::byte> data(size);
    for (std::byte& b : data) b = static_cast<std::byte>(random_.Next());
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, ObjectWriter::Create(OptionsFor(++id)));
    for (std::span<const std::byte> rest(data); !rest.empty();) {
      const size_t piece = std::min<size_t>(rest.size(), 1 + random_.Uniform(100000));
      ATTNDB_ASSERT_OK(writer->Append(rest.first(piece)));
      rest = rest.subspan(piece);
    }
    EXPECT_EQ(writer->position(), size);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject written, writer->Finish({}));
    EXPECT_EQ(written.object_bytes, size);
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const auto reader, ObjectReader::Open(&fs_, kDir, {.segment_id = id}, written.root_hash));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ObjectRange range, reader->Read(0, size));
    EXPECT_TRUE(std::ranges::equal(range.bytes, data)) << size;
  }
}

TEST_F(ObjectWriterTest, TheHeadComesLastAndLiesInFront) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, ObjectWriter::Create(OptionsFor(1, 4096)));
  EXPECT_EQ(writer->position(), 4096u);
  ATTNDB_ASSERT_OK(writer->Append(std::vector<std::byte>(5, std::byte{5})));
  ATTNDB_ASSERT_OK(writer->Align(64));
  EXPECT_EQ(writer->position(), 4096u + 64u);
  const std::vector<std::byte> head(4096, std::byte{9});
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject written, writer->Finish(head));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader,
                              ObjectReader::Open(&fs_, kDir, {.segment_id = 1}, written.root_hash));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ObjectRange range, reader->Read(4090, 20));
  std::vector<std::byte> expected(20, std::byte{0});
  std::fill_n(expected.begin(), 6, std::byte{9});
  std::fill_n(expected.begin() + 6, 5, std::byte{5});
  EXPECT_TRUE(std::ranges::equal(range.bytes, expected));
}

TEST_F(ObjectWriterTest, CompanionsOfASegmentAreObjectsBesideIt) {
  const ObjectName planes{.segment_id = 3, .kind = "key_planes", .generation = 12};
  ObjectWriter::Options options = OptionsFor(3);
  options.name = planes;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, ObjectWriter::Create(options));
  EXPECT_THAT(*fs_.List(kDir), ElementsAre("0000000000000003.key_planes.12.obj.tmp"));
  ATTNDB_ASSERT_OK(writer->Append(std::vector<std::byte>(10, std::byte{1})));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject written, writer->Finish({}));
  EXPECT_THAT(*fs_.List(kDir), ElementsAre("0000000000000003.key_planes.12.manifest",
                                           "0000000000000003.key_planes.12.obj"));
  ATTNDB_EXPECT_OK(ObjectReader::Open(&fs_, kDir, planes, written.root_hash));
}

TEST_F(ObjectWriterTest, AWriterThatIsNotFinishedLeavesNothing) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, ObjectWriter::Create(OptionsFor(1)));
    ATTNDB_ASSERT_OK(writer->Append(std::vector<std::byte>(1000000, std::byte{1})));
    EXPECT_FALSE(fs_.List(kDir)->empty());
  }
  EXPECT_THAT(*fs_.List(kDir), IsEmpty());
}

TEST_F(ObjectWriterTest, TwoWritersOfOneObjectCanNotMix) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto first, ObjectWriter::Create(OptionsFor(1)));
  EXPECT_THAT(ObjectWriter::Create(OptionsFor(1)),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr(".seg.tmp")));
  ATTNDB_EXPECT_OK(first->Finish({}));
}

// The files do not remember their errors: an error that a caller ignores is not seen later.
TEST_F(ObjectWriterTest, TheFirstErrorIsToldAndNothingIsDoneAfterIt) {
  const std::vector<std::byte> head(kGranuleBytes, std::byte{1});
  const std::vector<std::byte> data((size_t{512} << 10) + 100, std::byte{2});
  // Creates the data file, and appends room for the head, a buffer and the rest. Writes the head,
  // syncs and closes. Creates the manifest, appends, syncs and closes. Renames both, syncs.
  constexpr uint64_t kOperations = 14;
  test::FaultFileSystem faults(&fs_);
  ObjectWriter::Options options = OptionsFor(1, head.size());
  options.file_system = &faults;
  const auto write = [&]() -> Status {
    ATTNDB_ASSIGN_OR_RETURN(const auto writer, ObjectWriter::Create(options));
    ATTNDB_RETURN_IF_ERROR(writer->Append(data));
    return writer->Finish(head).status();
  };
  for (uint64_t n = 1; n <= kOperations; ++n) {
    faults.SetPlan({.fail_at = n, .removes_fail = false, .forgets = true});
    EXPECT_THAT(write(),
                FailsWith(StatusCode::kIoError, HasSubstr("operation " + std::to_string(n))));
    EXPECT_EQ(faults.num_operations(), n);
    EXPECT_THAT(*fs_.List(kDir), IsEmpty()) << n;
  }
  faults.SetPlan({});
  ATTNDB_EXPECT_OK(write());
  EXPECT_EQ(faults.num_operations(), kOperations);
}

// The appended bytes claim to be far longer than they are. One buffer of them is read before the
// writer sees that it was cancelled.
TEST_F(ObjectWriterTest, AnObjectHasItsMostBytesAndNotOneMore) {
  std::atomic<bool> cancel = false;
  ObjectWriter::Options options = OptionsFor(1, kGranuleBytes);
  options.cancel = &cancel;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, ObjectWriter::Create(options));
  const std::vector<std::byte> data(size_t{512} << 10);
  constexpr uint64_t kLeft = kMaxObjectBytes - kGranuleBytes;
  EXPECT_THAT(writer->Append(std::span(data.data(), kLeft + 1)),
              FailsWith(StatusCode::kInvalidArgument,
                        HasSubstr("segment 0000000000000001: expected at most")));
  cancel = true;
  EXPECT_THAT(writer->Append(std::span(data.data(), kLeft)),
              FailsWith(StatusCode::kCancelled, HasSubstr("segment 0000000000000001")));
}

}  // namespace
}  // namespace attndb::storage
