// Goal:   a file's header names the store that it belongs to, and other files belong to none.
// Method: the first bytes of both kinds of objects; files that are short, of another kind, missing,
//         or can't be read.
#include "storage/vfs/object_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "common/coding.h"
#include "storage/vfs/format.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::HasSubstr;

constexpr size_t kUuidEnd = 32;
const std::string kPath = "file";

class ObjectOwnerTest : public ::testing::Test {
 protected:
  // The owner of a file that begins with a magic number and ends behind `num_bytes`.
  Result<std::optional<std::array<std::byte, 16>>> OwnerOfFile(std::string_view magic,
                                                               size_t num_bytes) {
    std::vector<std::byte> bytes(num_bytes, std::byte{0x11});
    std::ranges::copy(BytesOf(magic), bytes.begin());
    for (size_t i = 16; i < std::min(num_bytes, kUuidEnd); ++i) bytes[i] = uuid_[i - 16];
    fs_.SetContents(kPath, std::move(bytes));
    return OwnerOf(&fs_, kPath);
  }

  test::MemoryFileSystem fs_;
  const std::array<std::byte, 16> uuid_ = {std::byte{3}, std::byte{1}, std::byte{4}};
};

TEST_F(ObjectOwnerTest, SegmentsAndCompanionsNameTheirStore) {
  for (const std::string_view magic : {kSegmentMagic, kCompanionMagic}) {
    for (const size_t num_bytes : {kUuidEnd, kUuidEnd + 1, size_t{kGranuleBytes}}) {
      ATTNDB_ASSERT_OK_AND_ASSIGN(const auto owner, OwnerOfFile(magic, num_bytes));
      EXPECT_EQ(owner, uuid_) << magic << ' ' << num_bytes;
    }
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto of_short, OwnerOfFile(magic, kUuidEnd - 1));
    EXPECT_FALSE(of_short) << magic;
  }
}

TEST_F(ObjectOwnerTest, OtherFilesAreNobodys) {
  for (const std::string_view magic : {kManifestMagic, std::string_view("attnsegn")}) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto owner, OwnerOfFile(magic, kGranuleBytes));
    EXPECT_FALSE(owner) << magic;
  }
}

TEST_F(ObjectOwnerTest, ErrorsArePassedOn) {
  EXPECT_THAT(OwnerOf(&fs_, kPath), FailsWith(StatusCode::kNotFound, HasSubstr(kPath)));
  ATTNDB_ASSERT_OK(OwnerOfFile(kSegmentMagic, kUuidEnd));
  test::FaultFileSystem faults(&fs_);
  for (uint64_t n = 1; n <= 3; ++n) {  // Open, stat and read.
    faults.SetPlan({.fail_at = n});
    EXPECT_THAT(OwnerOf(&faults, kPath),
                FailsWith(StatusCode::kIoError, HasSubstr("operation " + std::to_string(n))));
  }
}

}  // namespace
}  // namespace attndb::storage
