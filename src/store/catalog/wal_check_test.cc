// Goal:   commits that a damaged log would lose are reported, and no log that a crash leaves is.
// Method: a log of several commits, kept from being emptied by a reader; every frame damaged in
//         turn; every prefix of the file, as a crash may leave it.
#include "store/catalog/wal_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/catalog/catalog_test_util.h"
#include "store/catalog/sqlite.h"
#include "testing/matchers.h"

namespace attndb::store {
namespace {

using ::attndb::test::FailsWith;
using ::testing::HasSubstr;

constexpr size_t kHeaderBytes = 32;
constexpr size_t kFrameBytes = 24 + 4096;

class WalCheck : public ::testing::Test {
 protected:
  // Three commits in one log.
  WalCheck() {
    const auto reader =
        SqliteDatabase::Open(source_.path(), SqliteDatabase::Mode::kReadOnly).value();
    const Transaction snapshot = Transaction::Begin(reader.get(), Transaction::Kind::kRead).value();
    EXPECT_TRUE(reader->Select("SELECT * FROM meta").Step().ok());
    for (int i = 0; i < 3; ++i) {
      source_.MustPublish(Range(i * 1000, 100));
      num_frames_.push_back((ReadFile(source_.path() + "-wal").size() - kHeaderBytes) /
                            kFrameBytes);
    }
    log_ = ReadFile(source_.path() + "-wal");
    catalog_ = ReadFile(source_.path());
    copy_.Close();
  }

  Status Check(const std::string& log) {
    WriteFile(copy_.path() + "-wal", log);
    return CheckWriteAheadLog(copy_.path() + "-wal");
  }
  size_t NumContexts(const std::string& log) {
    WriteFile(copy_.path(), catalog_);
    WriteFile(copy_.path() + "-wal", log);
    return copy_.Open().value()->contexts()->List(source_.tenant()).value().size();
  }

  CatalogHarness source_;
  CatalogHarness copy_;
  std::string log_;
  std::string catalog_;
  std::vector<size_t> num_frames_;  // After each commit.
};

TEST_F(WalCheck, ASoundLogIsSound) {
  ASSERT_EQ(num_frames_.size(), 3u);
  ASSERT_GT(num_frames_[2], num_frames_[1]);
  ATTNDB_EXPECT_OK(Check(log_));
  EXPECT_EQ(NumContexts(log_), 3u);
  ATTNDB_EXPECT_OK(Check(""));
  ATTNDB_EXPECT_OK(CheckWriteAheadLog(copy_.dir() + "/none"));
}

TEST_F(WalCheck, NoPrefixOfALogIsTakenForDamage) {
  for (size_t size = 0; size < log_.size(); size += 1013) {
    ATTNDB_EXPECT_OK(Check(log_.substr(0, size)));
  }
}

TEST_F(WalCheck, NoAcknowledgedCommitIsLostSilently) {
  for (size_t frame = 1; frame <= num_frames_[2]; ++frame) {
    // Bit 2 of each byte: of the page number, the commit mark, salts, sums and page.
    for (const size_t offset : {0u, 3u, 5u, 7u, 9u, 17u, 24u, 3000u}) {
      SCOPED_TRACE("frame " + std::to_string(frame) + " byte " + std::to_string(offset));
      std::string damaged = log_;
      damaged[kHeaderBytes + (frame - 1) * kFrameBytes + offset] ^= 4;
      const Status status = Check(damaged);
      if (status.ok()) {
        EXPECT_EQ(NumContexts(damaged), 3u);  // One of the two behind it was hit.
        EXPECT_GT(frame, num_frames_[2] - 2);
        continue;
      }
      EXPECT_THAT(status,
                  FailsWith(StatusCode::kCorruption, HasSubstr("frame " + std::to_string(frame))));
      WriteFile(copy_.path(), catalog_);
      EXPECT_EQ(copy_.Open().status(), status);
    }
  }
}

// The mark of a commit is the number of pages: where that is a power of two, one bit unmakes it.
TEST_F(WalCheck, ACommitThatLostItsMarkIsReported) {
  const size_t commit_frame = num_frames_[2] - 2;  // Before the two that seal it.
  std::string damaged = log_;
  for (size_t i = 4; i < 8; ++i) {
    damaged[kHeaderBytes + (commit_frame - 1) * kFrameBytes + i] = '\0';
  }
  EXPECT_THAT(Check(damaged),
              FailsWith(StatusCode::kCorruption, HasSubstr(std::to_string(commit_frame))));
}

TEST_F(WalCheck, ADamagedHeaderIsReported) {
  for (size_t byte = 0; byte < kHeaderBytes; ++byte) {
    std::string damaged = log_;
    damaged[byte] ^= 16;
    EXPECT_THAT(Check(damaged), FailsWith(StatusCode::kCorruption, HasSubstr("header")));
  }
}

}  // namespace
}  // namespace attndb::store
