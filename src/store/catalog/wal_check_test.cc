// Goal:   commits that a damaged log would lose are reported, and no log that a crash leaves is.
// Method: a log of several commits, kept from being emptied by a reader; every frame damaged in
//         turn; every prefix of the file, as a crash may leave it.
#include "store/catalog/wal_check.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

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

// Some frames of the last transaction may be written and others not, in any order.
TEST_F(WalCheck, FramesOfATransactionThatIsNotFinishedAreNoDamage) {
  const size_t num_finished = num_frames_[1];
  std::string torn = log_.substr(0, kHeaderBytes + (num_finished + 4) * kFrameBytes);
  for (size_t frame = num_finished; frame < num_finished + 4; ++frame) {
    ASSERT_EQ(torn.substr(kHeaderBytes + frame * kFrameBytes + 4, 4), std::string(4, '\0'));
  }
  torn[kHeaderBytes + num_finished * kFrameBytes + 3000] ^= 4;
  ATTNDB_EXPECT_OK(Check(torn));
  EXPECT_EQ(NumContexts(torn), 2u);
}

TEST_F(WalCheck, ACommitOfChangedSaltsIsStillOneThatIsLost) {
  const size_t frame = num_frames_[2] - 1;  // The last but one.
  std::string damaged = log_;
  damaged[kHeaderBytes + (frame - 1) * kFrameBytes + 9] ^= 4;
  EXPECT_THAT(Check(damaged),
              FailsWith(StatusCode::kCorruption,
                        HasSubstr("frame " + std::to_string(frame) + " is damaged")));
}

uint32_t WordAt(const std::string& bytes, size_t offset) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4; ++i) word = word << 8 | static_cast<unsigned char>(bytes[offset + i]);
  return word;
}
void PutWord(uint32_t word, size_t offset, std::string* bytes) {
  for (size_t i = 0; i < 4; ++i) (*bytes)[offset + i] = static_cast<char>(word >> (24 - 8 * i));
}

// SQLite also accepts this log as sound.
TEST_F(WalCheck, ALogOfAMachineOfTheOtherByteOrderIsSound) {
  std::string log = log_;
  log[3] = static_cast<char>(log[3] ^ 1);
  const bool big_endian = (log[3] & 1) != 0;
  uint32_t a = 0;
  uint32_t b = 0;
  const auto add = [&](size_t begin, size_t num_bytes) {
    for (size_t i = begin; i < begin + num_bytes; i += 8) {
      const uint32_t words[] = {WordAt(log, i), WordAt(log, i + 4)};
      a += (big_endian ? words[0] : __builtin_bswap32(words[0])) + b;
      b += (big_endian ? words[1] : __builtin_bswap32(words[1])) + a;
    }
  };
  add(0, 24);
  PutWord(a, 24, &log);
  PutWord(b, 28, &log);
  for (size_t frame = kHeaderBytes; frame < log.size(); frame += kFrameBytes) {
    add(frame, 8);
    add(frame + 24, 4096);
    PutWord(a, frame + 16, &log);
    PutWord(b, frame + 20, &log);
  }
  ATTNDB_EXPECT_OK(Check(log));
  EXPECT_EQ(NumContexts(log), 3u);
  log[kHeaderBytes + 3000] ^= 4;
  EXPECT_THAT(Check(log), FailsWith(StatusCode::kCorruption, HasSubstr("frame 1 is damaged")));
}

// Whatever the process was told before, and whichever numbers of files are free.
TEST_F(WalCheck, ALogThatIsThereIsLookedThrough) {
  const std::string path = copy_.path() + "-wal";
  std::string damaged = log_;
  damaged[kHeaderBytes + 3000] ^= 4;
  WriteFile(path, damaged);
  errno = ENOENT;
  const Status checked = CheckWriteAheadLog(path);
  EXPECT_THAT(checked, FailsWith(StatusCode::kCorruption, HasSubstr("frame 1 is damaged")));
  const pid_t pid = fork();
  if (pid == 0) {
    close(STDIN_FILENO);
    errno = ENOENT;
    const bool is_found = CheckWriteAheadLog(path).code() == StatusCode::kCorruption;
    const bool is_open = fcntl(STDIN_FILENO, F_GETFD) != -1;
    _exit(is_found && !is_open ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// Another process may just have been writing it.
TEST_F(WalCheck, ALogThatLooksDamagedIsLookedAtThreeTimes) {
  const std::string path = copy_.path() + "-wal";
  std::string damaged = log_;
  damaged[kHeaderBytes + 3000] ^= 4;
  for (const auto& [log, expected] : {std::pair(damaged, 3), std::pair(log_, 1)}) {
    WriteFile(path, log);
    const int events = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    ASSERT_GE(events, 0);
    ASSERT_GE(inotify_add_watch(events, path.c_str(), IN_OPEN | IN_CLOSE), 0);
    EXPECT_EQ(CheckWriteAheadLog(path).ok(), expected == 1);
    alignas(inotify_event) std::array<char, 4096> read_events;
    const ssize_t num_bytes = read(events, read_events.data(), read_events.size());
    int num_opened = 0;
    for (ssize_t at = 0; at < num_bytes; at += ssize_t{sizeof(inotify_event)}) {  // Without names.
      inotify_event event;
      std::memcpy(&event, &read_events[static_cast<size_t>(at)], sizeof(event));
      if ((event.mask & IN_OPEN) != 0) ++num_opened;
    }
    EXPECT_EQ(num_opened, expected);
    close(events);
  }
}

TEST_F(WalCheck, ALogThatCantBeReadIsAnError) {
  EXPECT_THAT(CheckWriteAheadLog(copy_.path() + "/below"),
              FailsWith(StatusCode::kIoError, HasSubstr("open: Not a directory")));
  EXPECT_THAT(CheckWriteAheadLog(copy_.dir()),
              FailsWith(StatusCode::kIoError, HasSubstr("read: Is a directory")));
}

TEST_F(WalCheck, AHeaderCountsWhenAFrameFollows) {
  std::string damaged = log_;
  damaged[9] ^= 16;
  ATTNDB_EXPECT_OK(Check(damaged.substr(0, kHeaderBytes + kFrameBytes - 1)));
  EXPECT_THAT(Check(damaged.substr(0, kHeaderBytes + kFrameBytes)),
              FailsWith(StatusCode::kCorruption, HasSubstr("header")));
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
