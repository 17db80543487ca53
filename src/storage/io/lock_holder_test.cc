// Goal:   the error for a held lock names the process that holds it.
// Method: real files, locked by this process, by a child, and by a shell with a command line of any
//         words; a clock that is replaced.
#include "storage/io/lock_holder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "testing/temp_dir.h"

namespace {

time_t time_now = 0;  // The clock's time, unless 0.

}  // namespace

// In place of the C library's.
extern "C" time_t time(time_t* out) noexcept {
  timespec now{};
  (void)::clock_gettime(CLOCK_REALTIME, &now);
  const time_t seconds = time_now != 0 ? time_now : now.tv_sec;
  if (out != nullptr) *out = seconds;
  return seconds;
}

namespace attndb::storage {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

// A shell that holds the lock in `folder`. `words` are its command line: its name, the script that
// it runs, and whatever follows.
class LockingShell {
 public:
  LockingShell(const std::string& folder, std::vector<std::string> words) {
    std::ofstream(folder + '/' + words[1]) << "echo\nkill -STOP $$\n";
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    std::array<int, 2> runs{};
    EXPECT_EQ(::pipe(runs.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const bool is_ready = ::chdir(folder.c_str()) == 0 &&
                            ::flock(::open("LOCK", O_RDWR), LOCK_EX) == 0 &&
                            ::dup2(runs[1], STDOUT_FILENO) == STDOUT_FILENO;
      if (is_ready) ::execv("/bin/sh", arguments.data());
      ::_exit(1);
    }
    ::close(runs[1]);
    char byte = 0;
    EXPECT_EQ(::read(runs[0], &byte, 1), 1);
    ::close(runs[0]);
  }
  ~LockingShell() {
    ::kill(pid_, SIGKILL);
    EXPECT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  }
  LockingShell(const LockingShell&) = delete;
  LockingShell& operator=(const LockingShell&) = delete;

 private:
  pid_t pid_ = 0;
};

class LockHolderTest : public ::testing::Test {
 protected:
  LockHolderTest() : path_(directory_.File("LOCK")), fd_(Open()) {}
  ~LockHolderTest() override {
    time_now = 0;
    ::close(fd_);
  }

  int Open() const { return ::open(path_.c_str(), O_RDWR | O_CREAT, 0600); }

  ::attndb::test::TempDir directory_;
  const std::string path_;
  const int fd_;
};

TEST_F(LockHolderTest, NobodyIsNamedWhereNobodyHoldsIt) {
  const int other = ::open(directory_.File("other").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(LockHolderText(fd_), "another process or another open store");
  ::close(other);
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

TEST_F(LockHolderTest, ACommandIsANameAndUpToTwoPlainWords) {
  const std::string longest(64, 'x');
  const std::pair<std::vector<std::string>, std::string> kCommands[] = {
      {{"some/folder/sh", "import", "notes.txt", "more"}, "sh import notes.txt"},
      {{"sh", "import"}, "sh import"},
      {{"sh", "import", longest}, "sh import " + longest},
      {{"sh", "import", longest + 'x', "more"}, "sh import"},
      {{"sh", "import", "-x", "more"}, "sh import"},
      {{"sh", "import", "two words", "more"}, "sh import"},
      {{"sh", "import", "", "more"}, "sh import"},
      {{"some/folder/name", "two words", "more"}, "sh"}};  // The system's name of the process.
  for (const auto& [words, command] : kCommands) {
    const LockingShell shell(directory_.path(), words);
    ASSERT_EQ(::futimens(fd_, nullptr), 0);
    EXPECT_THAT(LockHolderText(fd_),
                MatchesRegex("process [0-9]+ \\(" + command + "\\) for [0-9]+ s"));
  }
}

TEST_F(LockHolderTest, ALockIsHeldForNoLongerThanItsProcessLives) {
  const LockingShell shell(directory_.path(), {"sh", "import"});
  const std::array<timespec, 2> long_ago = {
      {{.tv_sec = 1, .tv_nsec = 0}, {.tv_sec = 1, .tv_nsec = 0}}};
  ASSERT_EQ(::futimens(fd_, long_ago.data()), 0);
  EXPECT_THAT(LockHolderText(fd_), ContainsRegex("for [0-9]+ s$"));
}

TEST_F(LockHolderTest, TheTimeIsInTheUnitThatFits) {
  const LockingShell shell(directory_.path(), {"sh", "import"});
  const time_t since = ::time(nullptr) + 1000;  // After the process began, for certain.
  const std::array<timespec, 2> times = {
      {{.tv_sec = since, .tv_nsec = 0}, {.tv_sec = since, .tv_nsec = 0}}};
  ASSERT_EQ(::futimens(fd_, times.data()), 0);
  const std::pair<time_t, std::string> kTimes[] = {
      {-5, "0 s"}, {0, "0 s"}, {119, "119 s"}, {120, "2 min"}, {7199, "119 min"}, {7200, "2 h"}};
  for (const auto& [seconds, text] : kTimes) {
    time_now = since + seconds;
    EXPECT_THAT(LockHolderText(fd_), HasSubstr(") for " + text)) << seconds;
  }
}

}  // namespace
}  // namespace attndb::storage
