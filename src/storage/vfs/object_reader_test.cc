// Goal:   a read verifies every granule it touches, keeps alignment, and asks for no more.
// Method: all kinds of ranges of one object, clean and with one bit changed anywhere.
#include "storage/vfs/object_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/random.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_writer.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kDir = "segments";
const std::string kPath = "segments/0000000000000001.seg";
const std::string kManifestPath = "segments/0000000000000001.manifest";
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

TEST_F(ObjectReaderTest, DamagedGranulesReadAsZerosForThoseWhoAskWhereTheyAre) {
  std::vector<std::byte> damaged = data_;
  for (const uint64_t granule : {1u, 3u, 5u}) damaged[granule * kGranuleBytes + 7] ^= std::byte{1};
  fs_.SetContents(kPath, damaged);
  GranuleDamage damage;
  constexpr uint64_t kAt = kGranuleBytes + 100;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const ObjectRange range,
                              reader_->Read(kAt, 3 * kGranuleBytes, &damage));
  EXPECT_THAT(damage.offsets, ElementsAre(kGranuleBytes, 3 * kGranuleBytes));
  EXPECT_THAT(damage.first,
              FailsWith(StatusCode::kCorruption, HasSubstr("granule at offset 4096")));
  const auto expected = std::span(data_).subspan(kAt, 3 * kGranuleBytes);
  for (uint64_t i = 0; i < range.bytes.size(); ++i) {
    const bool is_damaged = (kAt + i) / kGranuleBytes % 2 == 1;
    ASSERT_EQ(range.bytes[i], is_damaged ? std::byte{0} : expected[i]) << i;
  }
  GranuleDamage all;
  ATTNDB_EXPECT_OK(reader_->VerifyAll(nullptr, &all));
  EXPECT_THAT(all.offsets, ElementsAre(kGranuleBytes, 3 * kGranuleBytes, 5 * kGranuleBytes));
}

TEST_F(ObjectReaderTest, AFileOfAnotherLengthIsDamage) {
  for (const uint64_t size : {kBytes - 1, kBytes + 1}) {
    std::vector<std::byte> other = data_;
    other.resize(size);
    fs_.SetContents(kPath, std::move(other));
    const std::string message = kPath + ": length of the file: expected " + std::to_string(kBytes) +
                                ", found " + std::to_string(size);
    EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr(message)));
    EXPECT_THAT(reader_->VerifyAll(nullptr),
                FailsWith(StatusCode::kCorruption, HasSubstr(message)));
  }
}

TEST_F(ObjectReaderTest, AFileThatIsGoneIsDamageUnlessNoObjectIsThere) {
  ATTNDB_ASSERT_OK(fs_.Remove(kPath));
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr(kPath)));
  ATTNDB_ASSERT_OK(fs_.Remove(kManifestPath));
  fs_.SetContents("segments/0000000000000002.seg.tmp", {});  // Neither is an object.
  fs_.SetContents("segments/README", {});
  EXPECT_THAT(Open(), FailsWith(StatusCode::kIoError,
                                HasSubstr("neither is any other object in segments: is its disk")));
  EXPECT_THAT(ObjectReader::Open(&fs_, "elsewhere", {.segment_id = 1}, root_hash_),
              FailsWith(StatusCode::kIoError, HasSubstr("any other object in elsewhere")));
  fs_.SetContents("segments/0000000000000002.seg", {});
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr(kManifestPath)));
}

TEST_F(ObjectReaderTest, TheFirstErrorEndsOpening) {
  test::FaultFileSystem files(&fs_);
  for (uint64_t n = 1; n <= 5; ++n) {  // Open, stat and read the manifest; open and stat the data.
    files.SetPlan({.fail_at = n});
    EXPECT_THAT(ObjectReader::Open(&files, kDir, {.segment_id = 1}, root_hash_),
                FailsWith(StatusCode::kIoError, HasSubstr("operation " + std::to_string(n))));
    EXPECT_EQ(files.num_operations(), n);
  }
  files.SetPlan({});
  ATTNDB_EXPECT_OK(ObjectReader::Open(&files, kDir, {.segment_id = 1}, root_hash_));
  EXPECT_EQ(files.num_operations(), 5u);
}

// A long manifest is hashed in pieces first, and only then read as a whole.
TEST_F(ObjectReaderTest, NoMemoryIsTakenForALongManifestOfAnotherHash) {
  constexpr uint64_t kPiece = uint64_t{1} << 20;
  test::FaultFileSystem files(&fs_);
  const auto open = [&](const Sha256Digest& root_hash, uint64_t fail_at = 0) {
    files.SetPlan({.fail_at = fail_at});
    return ObjectReader::Open(&files, kDir, {.segment_id = 1}, root_hash).status();
  };
  for (const uint64_t size : {kPiece, kPiece + 5}) {
    const std::vector<std::byte> manifest(size, std::byte{7});
    fs_.SetContents(kManifestPath, manifest);
    const uint64_t num_pieces = size > kPiece ? 2 : 0;
    EXPECT_THAT(open(Sha256::Of(manifest)), FailsWith(StatusCode::kCorruption, HasSubstr("magic")));
    EXPECT_EQ(files.num_operations(), 2 + num_pieces + 1);  // It is opened, and its length read.
    EXPECT_THAT(open(root_hash_), FailsWith(StatusCode::kCorruption, HasSubstr("SHA-256")));
    EXPECT_EQ(files.num_operations(), 2 + std::max<uint64_t>(num_pieces, 1));
    EXPECT_THAT(open(root_hash_, 3), FailsWith(StatusCode::kIoError, HasSubstr("operation 3")));
  }
}

TEST_F(ObjectReaderTest, VerifyingReadsPastTheSystemsCache) {
  test::FaultFileSystem files(&fs_);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto reader,
                              ObjectReader::Open(&files, kDir, {.segment_id = 1}, root_hash_));
  ATTNDB_ASSERT_OK(reader->Read(0, kBytes));
  EXPECT_EQ(files.num_cache_drops(), 0u);
  ATTNDB_ASSERT_OK(reader->VerifyAll(nullptr));
  EXPECT_EQ(files.num_cache_drops(), 1u);
}

TEST_F(ObjectReaderTest, RangesEndWithTheObject) {
  EXPECT_DEATH((void)reader_->ReadBufferBytes(kBytes, 1), "size <= length");
  EXPECT_DEATH((void)reader_->ReadBufferBytes(kBytes + 1, 0), "offset <= length");
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto writer,
      ObjectWriter::Create({.file_system = &fs_, .dir = kDir, .name = {.segment_id = 2}}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject written, writer->Finish({}));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto empty,
                              ObjectReader::Open(&fs_, kDir, {.segment_id = 2}, written.root_hash));
  EXPECT_EQ(empty->ReadBufferBytes(0, 0), 0u);
  ATTNDB_EXPECT_OK(empty->VerifyAll(nullptr));
}

}  // namespace
}  // namespace attndb::storage
