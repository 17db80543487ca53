#include "engines/llama/child_process.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace attndb::llama {
namespace {

constexpr size_t kOutputMax = 16384;

using Clock = std::chrono::steady_clock;

[[noreturn]] void RunChild(const std::function<int()>& step, int output_fd) {
  dup2(output_fd, STDOUT_FILENO);
  dup2(output_fd, STDERR_FILENO);
  close(output_fd);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  // ggml would start a debugger on a process that dies.
  setenv("GGML_NO_BACKTRACE", "1", 1);  // NOLINT(concurrency-mt-unsafe): the only thread.
  int code = 1;
  try {
    code = step();
  } catch (const std::exception& error) {
    dprintf(STDERR_FILENO, "%s\n", error.what());
  }
  // Not exit(): what the parent has at hand for its end is not the child's to do.
  _exit(code);
}

// Until the child closes its end, or the time is over: then false.
bool ReadOutput(int fd, Clock::time_point deadline, std::string* output) {
  std::array<char, 4096> buffer;
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd poll_fd = {.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = poll(&poll_fd, 1, static_cast<int>(left));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t length = read(fd, buffer.data(), buffer.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) return true;
    output->append(buffer.data(), static_cast<size_t>(length));
    if (output->size() > kOutputMax) output->erase(0, output->size() - kOutputMax);
  }
}

}  // namespace

Result<ChildEnd> RunInChild(const std::function<int()>& step, double timeout_seconds) {
  std::array<int, 2> fds;
  if (pipe(fds.data()) != 0) {
    return Status::ResourceExhausted(std::string("no pipe for a child: ") + std::strerror(errno));
  }
  const pid_t child = fork();
  if (child == 0) {
    close(fds[0]);
    RunChild(step, fds[1]);
  }
  const int error = errno;
  close(fds[1]);
  if (child < 0) {
    close(fds[0]);
    return Status::ResourceExhausted(std::string("no child process: ") + std::strerror(error));
  }
  ChildEnd end;
  const auto deadline =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  end.timed_out = !ReadOutput(fds[0], deadline, &end.output);
  if (end.timed_out) kill(child, SIGKILL);
  close(fds[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit_code = WEXITSTATUS(status);
  return end;
}

std::string SignalName(int signal) {
  switch (signal) {
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGILL:
      return "SIGILL";
    case SIGKILL:
      return "SIGKILL";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGSYS:
      return "SIGSYS";
    case SIGTERM:
      return "SIGTERM";
    case SIGTRAP:
      return "SIGTRAP";
    default:
      return "signal " + std::to_string(signal);
  }
}

}  // namespace attndb::llama
