// Goal:   a companion gives back each part's bytes. A companion of another segment, store or shape,
//         or a damaged one, is refused.
// Method: random sections of many lengths; damaged bytes; another identity; a lost file; faults and
//         a cancellation while it is written.
// Replay: ATTNDB_SEED=17 ctest -R storage_test
#include "storage/kv/companion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "storage/kv/companion_writer.h"
#include "storage/vfs/format.h"
#include "storage/vfs/object_writer.h"
#include "testing/fault_file_system.h"
#include "testing/matchers.h"
#include "testing/memory_file_system.h"
#include "testing/seed.h"

namespace attndb::storage {
namespace {

using test::FailsWith;
using test::MemoryFileSystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDir = "segments";
const std::string kDataPath = "segments/0000000000000007.planes.2.obj";
constexpr PartPlace kPlaces[] = {{0, 0, 0}, {0, 0, 1}, {0, 1, 0}, {0, 1, 1}, {1, 0, 0}, {1, 0, 1}};
const std::string kManifestPath = "segments/0000000000000007.planes.2.manifest";

class CompanionTest : public ::testing::Test {
 protected:
  CompanionTest() {
    ATTNDB_EXPECT_OK(fs_.CreateDir(kDir));
    expected_.identity.name = {.segment_id = 7, .kind = "planes", .generation = 2};
    expected_.identity.num_tokens = 300;
    expected_.shape.segment.layers = {{.num_kv_heads = 2, .head_dim = 16, .v_head_dim = 16},
                                      {.num_kv_heads = 1, .head_dim = 8, .v_head_dim = 8}};
    expected_.shape.parts = {"main", "low"};
    // Lengths around alignment and granule; parts of nothing.
    for (const size_t length : {100u, 0u, 0u, 4096u, 64u, 9000u}) {
      std::vector<std::byte>& part = parts_.emplace_back(length);
      for (std::byte& byte : part) byte = static_cast<std::byte>(random_.Uniform(256));
    }
  }

  Result<WrittenObject> Write(FileSystem* fs, const std::atomic<bool>* cancel = nullptr) {
    ATTNDB_ASSIGN_OR_RETURN(const auto writer,
                            CompanionWriter::Create({.file_system = fs,
                                                     .dir = kDir,
                                                     .identity = expected_.identity,
                                                     .shape = expected_.shape,
                                                     .cancel = cancel}));
    for (const std::vector<std::byte>& part : parts_) {
      ATTNDB_RETURN_IF_ERROR(writer->AddPart(part, part.size() / 4));
    }
    return writer->Finish();
  }
  CompanionWriteOptions Options() {
    return {.file_system = &fs_,
            .dir = kDir,
            .identity = expected_.identity,
            .shape = expected_.shape,
            .cancel = nullptr};
  }
  void WriteAll() {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject written, Write(&fs_));
    expected_.root_hash = written.root_hash;
    EXPECT_EQ(written.object_bytes + written.manifest_bytes,
              fs_.Contents(kDataPath).size() + fs_.Contents(kManifestPath).size());
  }
  Result<std::shared_ptr<const Companion>> Open() { return Companion::Open(&fs_, kDir, expected_); }
  // Ok if every part can be read, and is as it was written.
  Status ReadAll() {
    ATTNDB_ASSIGN_OR_RETURN(const auto companion, Open());
    for (size_t i = 0; i < parts_.size(); ++i) {
      ATTNDB_ASSIGN_OR_RETURN(const ObjectRange found, companion->ReadPart(kPlaces[i]));
      EXPECT_TRUE(std::ranges::equal(found.bytes, parts_[i])) << "part " << i;
      EXPECT_EQ(companion->num_rows(kPlaces[i]), parts_[i].size() / 4);
      EXPECT_EQ(found.buffer.size(), companion->PartBytes(kPlaces[i]));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(found.bytes.data()) % kSectionAlignment, 0u);
    }
    return Status::Ok();
  }

  MemoryFileSystem fs_;
  Random random_{test::SeedOr(21)};
  CompanionExpectation expected_;
  std::vector<std::vector<std::byte>> parts_;
};

TEST_F(CompanionTest, GivesBackWhatWasWritten) {
  WriteAll();
  ATTNDB_EXPECT_OK(ReadAll());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto companion, Open());
  EXPECT_EQ(companion->file_bytes(),
            fs_.Contents(kDataPath).size() + fs_.Contents(kManifestPath).size());
}

TEST_F(CompanionTest, DamageOfAPartIsThatPartsAlone) {
  WriteAll();
  std::vector<std::byte> data = fs_.Contents(kDataPath);
  data.back() ^= std::byte{1};
  fs_.SetContents(kDataPath, data);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto companion, Open());
  ATTNDB_EXPECT_OK(companion->ReadPart({0, 1, 1}));
  EXPECT_THAT(companion->ReadPart({1, 0, 1}),
              FailsWith(StatusCode::kCorruption, HasSubstr("low of layer 1, head 0")));
}

// A read takes whole granules of memory. A part that starts at a granule has no bytes of the
// previous part in front.
TEST_F(CompanionTest, LayersAndLargePartsStartAtAGranule) {
  parts_[0].resize(4096);
  parts_[1].resize(10);
  parts_[3].resize(kLargeSectionBytes);
  parts_[4].resize(4096);
  WriteAll();
  ATTNDB_EXPECT_OK(ReadAll());
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto companion, Open());
  for (const size_t i : {0u, 3u, 4u}) EXPECT_EQ(companion->PartBytes(kPlaces[i]), parts_[i].size());
}

TEST_F(CompanionTest, NoDamagedByteIsHandedOut) {
  WriteAll();
  for (const std::string& path : {kDataPath, kManifestPath}) {
    const std::vector<std::byte> good = fs_.Contents(path);
    for (size_t offset = 0; offset < good.size(); offset += 1 + random_.Uniform(200)) {
      std::vector<std::byte> bad = good;
      bad[offset] ^= std::byte{0x40};
      fs_.SetContents(path, bad);
      EXPECT_THAT(ReadAll(), FailsWith(StatusCode::kCorruption, HasSubstr("expected")))
          << path << " at " << offset;
    }
    fs_.SetContents(path, good);
  }
  ATTNDB_EXPECT_OK(ReadAll());
}

TEST_F(CompanionTest, ItIsOfOneSegmentStoreAndShape) {
  WriteAll();
  const CompanionExpectation good = expected_;
  expected_.identity.segment_root_hash[0] ^= std::byte{1};
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr("segment_root_hash")));
  expected_ = good;
  expected_.identity.store_uuid[0] ^= std::byte{1};
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr("store_uuid")));
  expected_ = good;
  expected_.shape.segment.layers.pop_back();
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr("num_sections")));
  expected_ = good;
  std::swap(expected_.shape.segment.layers[0], expected_.shape.segment.layers[1]);
  EXPECT_THAT(Open(),
              FailsWith(StatusCode::kCorruption, HasSubstr("expected main of layer 1, head 0")));
  expected_ = good;
  expected_.shape.parts[1] = "high";
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr("found low of layer 0")));
  expected_ = good;
  ATTNDB_ASSERT_OK(fs_.Remove(kDataPath));
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption, HasSubstr(kDataPath)));
}

TEST_F(CompanionTest, AWriterThatFailsLeavesNoFile) {
  for (uint64_t n = 1;; ++n) {
    test::FaultFileSystem faults(&fs_);
    faults.SetPlan({.fail_at = n});
    const Result<WrittenObject> written = Write(&faults);
    if (written.ok()) break;
    EXPECT_THAT(written, FailsWith(StatusCode::kIoError, HasSubstr("")));
    EXPECT_THAT(*fs_.List(kDir), IsEmpty()) << "operation " << n;
  }
  ATTNDB_ASSERT_OK(fs_.Remove(kDataPath));
  ATTNDB_ASSERT_OK(fs_.Remove(kManifestPath));
  const std::atomic<bool> cancel = true;
  EXPECT_THAT(Write(&fs_, &cancel), FailsWith(StatusCode::kCancelled, HasSubstr("")));
  EXPECT_THAT(*fs_.List(kDir), IsEmpty());
}

// The object writer's buffer is full in the middle of the padding, and the file does not remember
// the error.
TEST_F(CompanionTest, AWriteThatFailsOnceBetweenPartsFailsTheCompanion) {
  parts_[0].resize((size_t{512} << 10) - 10);
  parts_[1].resize(100);
  test::FaultFileSystem faults(&fs_);
  const uint64_t first_buffer = 3;  // After a file was created, and room for its head.
  faults.SetPlan({.fail_at = first_buffer, .removes_fail = false, .forgets = true});
  EXPECT_THAT(Write(&faults), FailsWith(StatusCode::kIoError, HasSubstr("injected fault: append")));
  EXPECT_EQ(faults.num_operations(), first_buffer) << "the writer went on";
  EXPECT_THAT(*fs_.List(kDir), IsEmpty());
}

TEST_F(CompanionTest, WithoutPartsItIsAHeaderAndNoLessThanThat) {
  expected_.shape.parts.clear();
  parts_.clear();
  WriteAll();
  EXPECT_EQ(fs_.Contents(kDataPath).size(), kCompanionHeaderBytes);
  ATTNDB_EXPECT_OK(Open());
  expected_.identity.name.generation = 3;
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto writer,
      ObjectWriter::Create(
          {.file_system = &fs_, .dir = kDir, .name = expected_.identity.name, .cancel = nullptr}));
  ATTNDB_ASSERT_OK(writer->Append(std::vector<std::byte>(kCompanionHeaderBytes - 1)));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const WrittenObject shorter, writer->Finish({}));
  expected_.root_hash = shorter.root_hash;
  EXPECT_THAT(Open(), FailsWith(StatusCode::kCorruption,
                                HasSubstr("length: expected at least 4096, found 4095")));
}

TEST_F(CompanionTest, PlacesThatDoNotExistAreMistakes) {
  WriteAll();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto companion, Open());
  for (const PartPlace& place : {PartPlace{2, 0, 0}, PartPlace{1, 1, 0}, PartPlace{0, 0, 2}}) {
    EXPECT_DEATH((void)companion->num_rows(place), "place.part < shape_.parts.size");
  }
}

TEST_F(CompanionTest, TheWriterTakesTheShapesPartsAndNoSegmentsName) {
  CompanionWriteOptions options = Options();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto writer, CompanionWriter::Create(options));
  for (const std::vector<std::byte>& part : parts_) ATTNDB_ASSERT_OK(writer->AddPart(part, 1));
  EXPECT_DEATH((void)writer->AddPart({}, 0), "num_added_ < sections_.size");
  options.identity.name = {.segment_id = 8};
  EXPECT_DEATH((void)CompanionWriter::Create(options), "name.kind != kSegmentKind");
}

}  // namespace
}  // namespace attndb::storage
