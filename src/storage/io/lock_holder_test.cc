// Goal:   a lock that is held is said to be held by the right process.
// Method: real files, locked by this process and by a child.
#include "storage/io/lock_holder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "testing/temp_dir.h"

namespace attndb::storage {
namespace {

using ::testing::ContainsRegex;

class LockHolderTest : public ::testing::Test {
 protected:
  LockHolderTest() : path_(directory_.File("LOCK")), fd_(Open()) {}
  ~LockHolderTest() override { ::close(fd_); }

  int Open() const { return ::open(path_.c_str(), O_RDWR | O_CREAT, 0600); }

  ::attndb::test::TempDir directory_;
  const std::string path_;
  const int fd_;
};

TEST_F(LockHolderTest, NobodyIsNamedWhereNobodyHoldsIt) {
  EXPECT_EQ(LockHolderText(fd_), "another process or another open store");
}

TEST_F(LockHolderTest, ThisProcessIsToldFromOthers) {
  const int other = Open();
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(LockHolderText(fd_), "another open store of this process");
  ::close(other);
}

TEST_F(LockHolderTest, AnotherProcessIsNamed) {
  std::array<int, 2> ready{};
  std::array<int, 2> done{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(done.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::close(done[1]);
    const bool locked = ::flock(Open(), LOCK_EX) == 0 && ::write(ready[1], "x", 1) == 1;
    ::_exit(locked && ::read(done[0], &byte, 1) == 0 ? 0 : 1);
  }
  ::close(done[0]);
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ASSERT_EQ(::futimens(fd_, nullptr), 0);
  EXPECT_THAT(LockHolderText(fd_),
              ContainsRegex("process " + std::to_string(child) + " \\([^-/]+\\) for [0-9]+ s$"));
  ::close(done[1]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

}  // namespace
}  // namespace attndb::storage
