// Goal:   a read verifies every granule it touches, keeps alignment, and asks for no more.
// Method: all kinds of ranges of one object, clean and with one bit changed anywhere.
#include "storage/vfs/object_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/random.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_writer.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kDir = "segments";
const std::string kPath = "segments/0000000000000001.seg";
constexpr uint64_t kBytes = 5 * kGranuleBytes + 1000;

class ObjectReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ATTNDB_ASSERT_OK(fs_.CreateDir(kDir));
    for (std::byte& b : data_) b = static_cast<std::byte>(random_.Next());
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const auto writer,
        ObjectWriter::Create({.file_system = &fs_, .dir = kDir, .name = {.segment_id = 1}}));
    ATTNDB_ASSERT_OK(writer->Append(data_));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject written, writer->Finish({}));
    root_hash_ = written.root_hash;
    ATTNDB_ASSERT_OK_AND_ASSIGN(reader_, Open());
  }

  Result<std::unique_ptr<const ObjectReader>> Open() {
    return ObjectReader::Open(&fs_, kDir, {.segment_id = 1}, root_hash_);
  }

  test::MemoryFileSystem fs_;
  Random random_{test::SeedOr(61)};
  std::vector<std::byte> data_ = std::vector<std::byte>(kBytes);
  Sha256Digest root_hash_{};
  std::unique_ptr<const ObjectReader> reader_;
};

TEST_F(ObjectReaderTest, AnyRangeReadsBackWithItsAlignment) {
  for (int i = 0; i < 2000; ++i) {
    const uint64_t begin = random_.Uniform(kBytes + 1);
    const uint64_t size = random_.Uniform(kBytes - begin + 1);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const ObjectRange range, reader_->Read(begin, size));
    ASSERT_TRUE(std::ranges::equal(range.bytes, std::span(data_).subspan(begin, size)));
    if (size == 0) continue;
    ASSERT_EQ(range.buffer.size(), reader_->ReadBufferBytes(begin, size));
    ASSERT_EQ(reinterpret_cast<uintptr_t>(range.bytes.data()) % kSectionAlignment,
              begin % kSectionAlignment);
  }
}

TEST_F(ObjectReaderTest, ARangeFailsExactlyWhenOneOfItsGranulesIsDamaged) {
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::byte> damaged = data_;
    const uint64_t at = random_.Uniform(kBytes);
    damaged[at] ^= static_cast<std::byte>(1u << random_.Uniform(8));
    fs_.SetContents(kPath, std::move(damaged));
    const uint64_t begin = random_.Uniform(kBytes);
    const uint64_t size = 1 + random_.Uniform(kBytes - begin);
    const uint64_t granule = at / kGranuleBytes;
    const bool touched =
        begin / kGranuleBytes <= granule && granule <= (begin + size - 1) / kGranuleBytes;
    const Result<ObjectRange> range = reader_->Read(begin, size);
    ASSERT_EQ(range.ok(), !touched) << at << ' ' << begin << ' ' << size;
    if (touched) {
      ASSERT_THAT(range,
                  FailsWith(StatusCode::kCorruption,
                            AllOf(HasSubstr(kPath), HasSubstr("expected"),
                                  HasSubstr("offset " + std::to_string(granule * kGranuleBytes)))));
    }
    ASSERT_FALSE(reader_->VerifyAll(nullptr).ok());
  }
}

TEST_F(ObjectReaderTest, GranulesInEachOthersPlaceAreDamage) {
  std::vector<std::byte> swapped = data_;
  std::swap_ranges(swapped.begin(), swapped.begin() + kGranuleBytes,
                   swapped.begin() + 3 * kGranuleBytes);
  fs_.SetContents(kPath, std::move(swapped));
  EXPECT_FALSE(reader_->Read(0, 1).ok());
  ATTNDB_EXPECT_OK(reader_->Read(kGranuleBytes, 1));
  EXPECT_FALSE(reader_->Read(3 * kGranuleBytes, 1).ok());
}

TEST_F(ObjectReaderTest, TheRootHashDecides) {
  root_hash_[5] ^= std::byte{1};
  EXPECT_THAT(Open(),
              FailsWith(StatusCode::kCorruption, AllOf(HasSubstr("SHA-256"), HasSubstr("expected"),
                                                       HasSubstr("0000000000000001.manifest"))));
}

}  // namespace
}  // namespace attndb::storage
