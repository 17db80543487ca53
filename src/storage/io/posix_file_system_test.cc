// Goal:   the machine's files behave as file_system.h promises, errors included.
// Method: a temporary directory; a second lock; calls that must fail, as another user, at a limit,
//         or since a descriptor was closed behind a file's back; a system call that is replaced.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/coding.h"
#include "storage/io/file_system.h"
#include "testing/matchers.h"
#include "testing/temp_dir.h"

namespace {

int rename_error = 0;  // The error of renaming without replacing, unless 0.

}  // namespace

// In place of the C library's.
extern "C" int renameat2(int from_dir, const char* from, int to_dir, const char* to,
                         unsigned int flags) noexcept {
  if (rename_error != 0) {
    errno = rename_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}

namespace attndb::storage {
namespace {

using test::FailsWith;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kText = "0123456789";

// While it lives, this process can make no file longer than that.
class NoFileGrowsBeyond {
 public:
  explicit NoFileGrowsBeyond(rlim_t num_bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit limit = before_;
    limit.rlim_cur = num_bytes;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~NoFileGrowsBeyond() {
    (void)::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*const handler_)(int);
  rlimit before_{};
};

class PosixFileSystemTest : public ::testing::Test {
 protected:
  ~PosixFileSystemTest() override { rename_error = 0; }

  void Write(const std::string& path, std::string_view text) {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path));
    ATTNDB_ASSERT_OK(file->Append(BytesOf(text)));
    ATTNDB_ASSERT_OK(file->Sync());
    ATTNDB_ASSERT_OK(file->Close());
  }

  std::string Read(const std::string& path) {
    const Result<uint64_t> size = fs_->FileSize(path);
    EXPECT_THAT(size, test::IsOk());
    std::string text(*size, '\0');
    const auto file = fs_->OpenForRead(path);
    EXPECT_THAT((*file)->ReadAt(0, std::as_writable_bytes(std::span(text))), test::IsOk());
    return text;
  }

  test::TempDir dir_;
  FileSystem* const fs_ = PosixFileSystem();
  const std::string path_ = dir_.File("file");
};

TEST_F(PosixFileSystemTest, WritesAtTheEndAndInside) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path_));
  ATTNDB_ASSERT_OK(file->Append(BytesOf(kText)));
  ATTNDB_ASSERT_OK(file->WriteAt(3, BytesOf(std::string_view("abc"))));
  ATTNDB_ASSERT_OK(file->Append(BytesOf(std::string_view("!"))));
  ATTNDB_ASSERT_OK(file->Sync());
  ATTNDB_ASSERT_OK(file->Close());
  EXPECT_EQ(Read(path_), "012abc6789!");
  EXPECT_THAT(file->Append({}), FailsWith(StatusCode::kFailedPrecondition, HasSubstr(path_)));
}

TEST_F(PosixFileSystemTest, ReadsAllOfWhatWasAskedForOrFails) {
  Write(path_, kText);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenForRead(path_));
  std::string text(4, '\0');
  ATTNDB_ASSERT_OK(file->ReadAt(6, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, "6789");
  EXPECT_THAT(file->ReadAt(7, std::as_writable_bytes(std::span(text))),
              FailsWith(StatusCode::kCorruption, HasSubstr(path_ + ": expected 1 more bytes")));
  EXPECT_EQ(*file->Size(), kText.size());
}

TEST_F(PosixFileSystemTest, AnOpenFileOutlivesItsName) {
  Write(path_, kText);
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenForRead(path_));
  ATTNDB_ASSERT_OK(fs_->Remove(path_));
  std::string text(kText.size(), '\0');
  ATTNDB_ASSERT_OK(file->ReadAt(0, std::as_writable_bytes(std::span(text))));
  EXPECT_EQ(text, kText);
}

TEST_F(PosixFileSystemTest, NamesAreNeverReplaced) {
  Write(path_, kText);
  EXPECT_THAT(fs_->CreateNew(path_), FailsWith(StatusCode::kAlreadyExists, HasSubstr(path_)));
  Write(dir_.File("other"), "other");
  EXPECT_THAT(fs_->Rename(dir_.File("other"), path_),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr(path_)));
  EXPECT_EQ(Read(path_), kText);
  ATTNDB_ASSERT_OK(fs_->Rename(path_, dir_.File("free")));
  EXPECT_EQ(Read(dir_.File("free")), kText);
}

TEST_F(PosixFileSystemTest, WhatIsMissingIsNotFound) {
  EXPECT_THAT(fs_->OpenForRead(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->Remove(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->FileSize(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->FreeBytes(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->Rename(path_, dir_.File("x")), FailsWith(StatusCode::kNotFound, HasSubstr("x")));
  EXPECT_THAT(fs_->List(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->SyncDir(path_), FailsWith(StatusCode::kNotFound, HasSubstr(path_)));
  EXPECT_THAT(fs_->CreateDir(path_ + "/x"), FailsWith(StatusCode::kNotFound, HasSubstr("file/x")));
}

TEST_F(PosixFileSystemTest, DirectoriesListTheirNamesInOrder) {
  ATTNDB_ASSERT_OK(fs_->CreateDir(path_));
  ATTNDB_ASSERT_OK(fs_->CreateDir(path_));  // Again is fine.
  for (const char* name : {"b", "c", "a"}) Write(JoinPath(path_, name), name);
  EXPECT_THAT(*fs_->List(path_), ElementsAre("a", "b", "c"));
  ATTNDB_EXPECT_OK(fs_->SyncDir(path_));
  EXPECT_THAT(fs_->CreateDir(JoinPath(path_, "a")),
              FailsWith(StatusCode::kAlreadyExists, HasSubstr("a")));
}

TEST_F(PosixFileSystemTest, FilesAreTheirOwnersAlone) {
  Write(path_, kText);
  ATTNDB_ASSERT_OK(fs_->CreateDir(dir_.File("dir")));
  struct stat info;
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077u, 0u);
  ASSERT_EQ(::stat(dir_.File("dir").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0077u, 0u);
}

TEST_F(PosixFileSystemTest, ALockHasOneHolderAndEndsWithIt) {
  {
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto lock, fs_->Lock(path_));
    EXPECT_THAT(fs_->Lock(path_),
                FailsWith(StatusCode::kBusy,
                          HasSubstr(path_ + ": is locked by another open store of this process")));
  }
  ATTNDB_EXPECT_OK(fs_->Lock(path_));
}

TEST_F(PosixFileSystemTest, ReadingADirectoryIsAnIoError) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->OpenForRead(dir_.path()));
  std::string text(4, '\0');
  EXPECT_THAT(file->ReadAt(0, std::as_writable_bytes(std::span(text))),
              FailsWith(StatusCode::kIoError, HasSubstr("read: Is a directory")));
}

TEST_F(PosixFileSystemTest, AWriteThatStopsInTheMiddleGoesOnThereAndPoisonsTheFile) {
  constexpr size_t kFits = 6;
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path_));
  Status appended;
  {
    const NoFileGrowsBeyond limit(kFits);
    appended = file->Append(BytesOf(kText));
  }
  EXPECT_THAT(appended,
              FailsWith(StatusCode::kIoError, HasSubstr(path_ + ": write: File too large")));
  EXPECT_EQ(file->Append(BytesOf(kText)), appended);
  EXPECT_EQ(file->WriteAt(0, {}), appended);
  EXPECT_EQ(file->Sync(), appended);
  EXPECT_EQ(file->Close(), appended);
  EXPECT_EQ(Read(path_), kText.substr(0, kFits));
}

TEST_F(PosixFileSystemTest, WriteAtReachesAllThatWasAppendedAndNoByteMore) {
  ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path_));
  ATTNDB_ASSERT_OK(file->Append(BytesOf(kText)));
  ATTNDB_ASSERT_OK(file->WriteAt(0, BytesOf(std::string_view("9876543210"))));
  const std::string_view four = "abcd";
  ATTNDB_ASSERT_OK(file->WriteAt(kText.size() - four.size(), BytesOf(four)));
  EXPECT_EQ(Read(path_), "987654abcd");
  EXPECT_DEATH((void)file->WriteAt(kText.size() - four.size() + 1, BytesOf(four)),
               "offset <= size_");
}

TEST_F(PosixFileSystemTest, AnErrorOfSyncOrCloseIsToldAndStays) {
  for (const bool of_sync : {true, false}) {
    const std::string path = dir_.File(of_sync ? "sync" : "close");
    const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ASSERT_EQ(::close(next), 0);
    ATTNDB_ASSERT_OK_AND_ASSIGN(const auto file, fs_->CreateNew(path));
    ASSERT_EQ(::close(next), 0) << "the file has the lowest free descriptor";
    const Status failed = of_sync ? file->Sync() : file->Close();
    const std::string call = of_sync ? ": fdatasync" : ": close";
    EXPECT_THAT(failed,
                FailsWith(StatusCode::kIoError, HasSubstr(path + call + ": Bad file descriptor")));
    EXPECT_EQ(file->Append(BytesOf(kText)), failed);
    EXPECT_EQ(file->Sync(), failed);
    EXPECT_EQ(file->Close(), failed);
  }
}

size_t NumOpenDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// A process that was started without a stdout must not print into a file of the store.
TEST_F(PosixFileSystemTest, NoFileHasTheDescriptorOfAStandardStream) {
  Write(path_, kText);
  std::fflush(nullptr);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    const int kept = ::dup(stream);
    if (kept < 0) continue;
    (void)::close(stream);
    const size_t num_before = NumOpenDescriptors();
    {
      const auto file = fs_->OpenForRead(path_);
      ATTNDB_EXPECT_OK(file);
      EXPECT_EQ(::fcntl(stream, F_GETFD), -1) << stream;
      EXPECT_EQ(NumOpenDescriptors(), num_before + 1);
    }
    EXPECT_EQ(NumOpenDescriptors(), num_before);
    EXPECT_EQ(::dup2(kept, stream), stream);
    (void)::close(kept);
  }
}

std::string fifo_path;
volatile std::sig_atomic_t fifo_writer = -1;
void OpenFifoForWriting(int) { fifo_writer = ::open(fifo_path.c_str(), O_RDWR | O_CLOEXEC); }

TEST_F(PosixFileSystemTest, ACallThatASignalInterruptsIsRepeated) {
  fifo_path = path_;
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  struct sigaction writes {};  // Without SA_RESTART.
  writes.sa_handler = OpenFifoForWriting;
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGALRM, &writes, &before), 0);
  const itimerval soon = {.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 10000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
  ATTNDB_EXPECT_OK(fs_->OpenForRead(path_));  // Waits until the signal comes.
  while (fifo_writer < 0) {
  }
  ASSERT_EQ(::sigaction(SIGALRM, &before, nullptr), 0);
  (void)::close(fifo_writer);
}

// Root's rights over files are put aside for the calls.
TEST_F(PosixFileSystemTest, WhatMayNotBeReadIsAnIoErrorAndWhatMayNotBeWrittenIsReadOnly) {
  constexpr uid_t kNobody = 65534;
  Write(path_, kText);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0), 0);
  const uid_t user = ::geteuid();
  if (user == 0) (void)::setfsuid(kNobody);
  const bool is_root = ::setfsuid(~uid_t{0}) == 0;  // Changes nothing, and tells who it is.
  const std::array reads = {fs_->OpenForRead(path_).status(), fs_->FileSize(path_).status(),
                            fs_->FreeBytes(path_).status(), fs_->List(dir_.path()).status(),
                            fs_->SyncDir(dir_.path())};
  const std::array writes = {fs_->CreateNew(path_).status(), fs_->Rename(path_, path_ + '2'),
                             fs_->Remove(path_), fs_->CreateDir(path_ + '2'),
                             fs_->Lock(path_).status()};
  (void)::setfsuid(user);
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0700), 0);
  if (is_root) GTEST_SKIP() << "root can't be another user here";
  for (const Status& status : reads) {
    EXPECT_THAT(status, FailsWith(StatusCode::kIoError, HasSubstr(": Permission denied")));
  }
  for (const Status& status : writes) {
    EXPECT_THAT(status, FailsWith(StatusCode::kReadOnly, HasSubstr(": Permission denied")));
  }
}

// NFS is one such file system.
TEST_F(PosixFileSystemTest, WhereTheSystemCanNotRefuseToReplaceAFileNoneIsReplaced) {
  Write(path_, kText);
  Write(dir_.File("other"), "other");
  for (const int error : {EINVAL, ENOSYS}) {
    rename_error = error;
    EXPECT_THAT(fs_->Rename(dir_.File("other"), path_),
                FailsWith(StatusCode::kAlreadyExists, HasSubstr(path_)));
    EXPECT_EQ(Read(path_), kText);
    ATTNDB_EXPECT_OK(fs_->Rename(path_, dir_.File("free")));
    EXPECT_EQ(Read(dir_.File("free")), kText);
    EXPECT_THAT(fs_->Rename(path_, dir_.File("x")),
                FailsWith(StatusCode::kNotFound, HasSubstr("x: rename")));
    ATTNDB_EXPECT_OK(fs_->Rename(dir_.File("free"), path_));
  }
  rename_error = EIO;  // Another way is not tried.
  EXPECT_THAT(fs_->Rename(path_, dir_.File("free")),
              FailsWith(StatusCode::kIoError, HasSubstr("free: rename")));
  EXPECT_THAT(*fs_->List(dir_.path()), ElementsAre("file", "other"));
}

// A fork closes its copies of the locks' descriptors. The memory of a lock that is gone has other
// contents by then: most likely the number of a file that is open.
TEST_F(PosixFileSystemTest, AForkClosesNothingForALockThatIsGone) {
  const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ATTNDB_ASSERT_OK(fs_->Lock(path_));
  std::vector<std::unique_ptr<std::array<int, 4>>> blocks;  // Each as long as a lock.
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(std::make_unique<std::array<int, 4>>(std::array{fd, fd, fd, fd}));
  }
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::fcntl(fd, F_GETFD) == -1 ? 1 : 0);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  (void)::close(fd);
}

}  // namespace
}  // namespace attndb::storage
