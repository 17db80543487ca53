// Goal:   the file of a segment is removed when its commit was refused. It stays as long as a
//         commit that failed may still turn out to be on disk.
// Method: a catalog, with files that are segments by their names alone; a reader of the catalog
//         keeps its log from being emptied.
#include "store/commits.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "storage/vfs/store_files.h"
#include "store/catalog/catalog_test_util.h"
#include "testing/matchers.h"
#include "testing/segment_data.h"

namespace attndb::store {
namespace {

class CommitsTest : public CatalogTest {
 protected:
  std::string FileOf(SegmentId id) const {
    const storage::ObjectName name = {.segment_id = static_cast<uint64_t>(id)};
    return harness_.dir() + "/" + storage::FileNameOf(name, storage::ObjectFile::kData);
  }
  SegmentId MakeFile() {
    const SegmentId id = harness_->segments()->ReserveId().value();
    std::ofstream(FileOf(id)) << "rows";
    return id;
  }
  void End(std::optional<SegmentId> segment, const Status& status) {
    MutexLock lock(commits_.mutex());
    commits_.Ended(segment, {}, status);
  }

  storage::MemoryBudget budget_{1 << 20};
  SegmentRegistry registry_{storage::PosixFileSystem(), harness_.dir(), &*harness_, &budget_};
  Uses uses_{{.catalog = &*harness_, .registry = &registry_}};
  Commits commits_{&*harness_, &registry_, &uses_};
};

TEST_F(CommitsTest, TheSegmentOfARefusedCommitGoesAtOnce) {
  const SegmentId refused = MakeFile(), published = MakeFile();
  End(refused, Status::AlreadyExists("the name"));
  End(published, Status::Ok());
  EXPECT_FALSE(std::filesystem::exists(FileOf(refused)));
  EXPECT_TRUE(std::filesystem::exists(FileOf(published)));
}

TEST_F(CommitsTest, TheSegmentOfARefusedCommitGoesWhoeverReadsTheLog) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(
      const auto reader, SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly));
  ATTNDB_ASSERT_OK_AND_ASSIGN(const Transaction snapshot,
                              Transaction::Begin(reader.get(), Transaction::Kind::kRead));
  ATTNDB_ASSERT_OK(reader->Select("SELECT uuid FROM meta").Step().status());
  harness_.MustPublish(Range(0, 10));
  for (const StatusCode code :
       {StatusCode::kInvalidArgument, StatusCode::kNotFound, StatusCode::kAlreadyExists,
        StatusCode::kFailedPrecondition, StatusCode::kReadOnly}) {
    const SegmentId refused = MakeFile();
    End(refused, Status(code, "test"));
    EXPECT_FALSE(std::filesystem::exists(FileOf(refused))) << static_cast<int>(code);
  }
}

TEST_F(CommitsTest, ASegmentWhoseCommitIsFoundInTheEndStaysAndLosesItsMark) {
  harness_.MustPublish(Range(0, 10));
  const SegmentId found = harness_.SegmentIds().back();
  const std::string mark =
      harness_.dir() + "/" + storage::LooseNameOf(static_cast<uint64_t>(found));
  std::ofstream(FileOf(found)) << "rows";
  (void)std::ofstream(mark);
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const auto reader, SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Transaction snapshot,
                                Transaction::Begin(reader.get(), Transaction::Kind::kRead));
    ATTNDB_ASSERT_OK(reader->Select("SELECT uuid FROM meta").Step().status());
    harness_.MustPublish(Range(100, 10));
    End(found, Status::IoError("the disk"));
    EXPECT_TRUE(std::filesystem::exists(mark));
  }
  End(std::nullopt, Status::Ok());
  EXPECT_TRUE(std::filesystem::exists(FileOf(found)));
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(CommitsTest, TheSegmentOfAFailedCommitGoesOnceTheLogIsEmpty) {
  const SegmentId failed = MakeFile();
  End(failed, Status::IoError("the disk"));  // Nobody reads: the log is emptied.
  EXPECT_FALSE(std::filesystem::exists(FileOf(failed)));
}

TEST_F(CommitsTest, TheSegmentOfACommitThatMayBeFoundStaysUntilTheNext) {
  const SegmentId doubtful = MakeFile();
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const auto reader, SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Transaction snapshot,
                                Transaction::Begin(reader.get(), Transaction::Kind::kRead));
    ATTNDB_ASSERT_OK(reader->Select("SELECT uuid FROM meta").Step().status());
    harness_.MustPublish(Range(0, 10));
    End(doubtful, Status::IoError("the disk"));
    EXPECT_TRUE(std::filesystem::exists(FileOf(doubtful)));
  }
  End(std::nullopt, Status::Ok());
  EXPECT_FALSE(std::filesystem::exists(FileOf(doubtful)));
}

// A holder, such as a session whose Store failed, may try to store the segment again.
TEST_F(CommitsTest, ASegmentThatIsReadStaysUntilItIsLetGo) {
  Random random(1);
  const test::SegmentData data =
      test::RandomSegment({.shape = ShapeOf(harness_.spec()), .num_tokens = 1}, &random);
  test::DataSource source(&data, 1);
  SegmentRecord sealed;
  sealed.model = harness_.model();
  sealed.num_tokens = 1;
  ATTNDB_ASSERT_OK(registry_.Write(&source, &sealed));
  std::shared_ptr<storage::Segment> held = registry_.Get(sealed).value();
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(
        const auto reader, SqliteDatabase::Open(harness_.path(), SqliteDatabase::Mode::kReadOnly));
    ATTNDB_ASSERT_OK_AND_ASSIGN(const Transaction snapshot,
                                Transaction::Begin(reader.get(), Transaction::Kind::kRead));
    ATTNDB_ASSERT_OK(reader->Select("SELECT uuid FROM meta").Step().status());
    harness_.MustPublish(Range(0, 10));
    MutexLock lock(commits_.mutex());
    commits_.Ended(std::nullopt, {&sealed, 1}, Status::IoError("the disk"));
  }
  End(std::nullopt, Status::Ok());
  EXPECT_TRUE(std::filesystem::exists(FileOf(sealed.id)));
  held.reset();
  End(std::nullopt, Status::Ok());
  EXPECT_FALSE(std::filesystem::exists(FileOf(sealed.id)));
}

}  // namespace
}  // namespace attndb::store
