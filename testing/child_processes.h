// Helpers for tests of programs that start processes: which these are, and when one has ended.
//
// Threads: thread-safe; ChildrenOf lists what the first thread of a process has started.
#ifndef ATTNDB_TESTING_CHILD_PROCESSES_H_
#define ATTNDB_TESTING_CHILD_PROCESSES_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

namespace attndb::test {

// The processes that a process of ours has started, the oldest first.
inline std::vector<pid_t> ChildrenOf(pid_t parent) {
  const std::string task = std::to_string(parent);
  std::ifstream file("/proc/" + task + "/task/" + task + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

// A process, whose number may be another's once it has ended.
class WatchedProcess {
 public:
  // REQUIRES: it goes on.
  explicit WatchedProcess(pid_t process)
      : process_(process), end_(static_cast<int>(syscall(SYS_pidfd_open, process, 0))) {}
  ~WatchedProcess() { close(end_); }
  WatchedProcess(const WatchedProcess&) = delete;
  WatchedProcess& operator=(const WatchedProcess&) = delete;

  void Kill() const { ASSERT_EQ(kill(process_, SIGKILL), 0); }
  // Fails the test if the end does not come.
  void AwaitEnd() const {
    pollfd waited = {.fd = end_, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&waited, 1, 60'000), 1);
  }

 private:
  const pid_t process_;
  const int end_;  // poll() finds it ready when the process has ended.
};

}  // namespace attndb::test

#endif  // ATTNDB_TESTING_CHILD_PROCESSES_H_
