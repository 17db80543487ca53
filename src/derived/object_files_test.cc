// Goal:   the files of an object name the store, segment and bytes that it was made from, and are
//         read for no others. Stopped builds, damage and removed files are reported.
// Method: a folder with a segment and objects of it, whose headers are decoded.
#include "derived/object_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "derived/derived_test_util.h"
#include "storage/kv/companion_header.h"
#include "storage/vfs/object_name.h"

namespace attndb::derived {
namespace {

using test::FailsWith;
using test::FakeStore;
using test::FirstBytesKind;
using ::testing::HasSubstr;

constexpr uint64_t kGeneration = 3;

class ObjectFilesTest : public ::testing::Test {
 protected:
  ObjectFilesTest() {
    storage::StoreUuid uuid;
    uuid.fill(std::byte{0x5a});
    files_.emplace(&store_.file_system(), "segments", uuid);
  }

  Result<storage::WrittenObject> Write() {
    ATTNDB_ASSIGN_OR_RETURN(const auto writer,
                            files_->Create(store_.segment(), kind_, kGeneration, nullptr));
    ATTNDB_RETURN_IF_ERROR(
        kind_.Write(store_.segment(), store_.spec(), nullptr, writer.get(), [](LayerId) {}));
    return writer->Finish();
  }
  ObjectRecord RecordOf(const storage::WrittenObject& written) const {
    return {.kind = "first", .generation = kGeneration, .root_hash = written.root_hash};
  }

  const storage::ObjectName name_ = {FakeStore::kSegment, "first", kGeneration};
  const std::string path_ = "segments/" + storage::FileNameOf(name_, storage::ObjectFile::kData);
  storage::MemoryBudget budget_{uint64_t{1} << 20};
  FakeStore store_{&budget_};
  const FirstBytesKind kind_{FirstBytesKind::Of("first")};
  std::optional<ObjectFiles> files_;
};

TEST_F(ObjectFilesTest, AHeaderSaysWhatTheObjectWasMadeFrom) {
  ATTNDB_ASSERT_OK(Write());
  const std::vector<std::byte> bytes = store_.file_system().Contents(path_);
  ASSERT_GE(bytes.size(), storage::kCompanionHeaderBytes);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::CompanionHeader header,
                              storage::DecodeCompanionHeader(
                                  std::span(bytes).first(storage::kCompanionHeaderBytes), "test"));
  storage::StoreUuid uuid;
  uuid.fill(std::byte{0x5a});
  EXPECT_EQ(header.identity.store_uuid, uuid);
  EXPECT_EQ(header.identity.name, name_);
  EXPECT_EQ(header.identity.segment_root_hash, store_.segment().root_hash());
  EXPECT_EQ(header.identity.num_tokens, FakeStore::kTokens);
  EXPECT_EQ(header.num_sections, 4u) << "two layers of two heads, with one part each";
}

TEST_F(ObjectFilesTest, AnObjectIsReadAsItsRecordSaysAndInItsOwnStoreAlone) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::WrittenObject written, Write());
  ObjectRecord record = RecordOf(written);
  ATTNDB_EXPECT_OK(files_->Open(store_.segment(), kind_, record));
  EXPECT_THAT(store_.files().Open(store_.segment(), kind_, record),
              FailsWith(StatusCode::kCorruption, HasSubstr("store_uuid")));
  record.root_hash[0] ^= std::byte{1};
  EXPECT_THAT(files_->Open(store_.segment(), kind_, record),
              FailsWith(StatusCode::kCorruption, HasSubstr("")));
}

TEST_F(ObjectFilesTest, WhatIsCancelledIsNotBegun) {
  const std::atomic<bool> cancel = true;
  const std::vector<std::string> files = store_.Files();
  EXPECT_THAT(files_->Create(store_.segment(), kind_, kGeneration, &cancel),
              FailsWith(StatusCode::kCancelled, HasSubstr("first")));
  EXPECT_EQ(store_.Files(), files);
}

TEST_F(ObjectFilesTest, EveryByteIsVerifiedAndBothFilesAreRemoved) {
  const std::vector<std::string> files = store_.Files();
  ATTNDB_ASSERT_OK_AND_ASSIGN(const storage::WrittenObject written, Write());
  EXPECT_EQ(store_.Files().size(), files.size() + 2);
  ATTNDB_EXPECT_OK(files_->Verify(name_, written.root_hash));
  std::vector<std::byte> bytes = store_.file_system().Contents(path_);
  bytes.back() ^= std::byte{1};
  store_.file_system().SetContents(path_, std::move(bytes));
  EXPECT_THAT(files_->Verify(name_, written.root_hash),
              FailsWith(StatusCode::kCorruption, HasSubstr("first.3")));
  files_->Remove(name_);
  EXPECT_EQ(store_.Files(), files);
}

}  // namespace
}  // namespace attndb::derived
