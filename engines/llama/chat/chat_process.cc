#include "engines/llama/chat/chat_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "engines/llama/chat/chat_limits.h"
#include "engines/llama/child_process.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not every C library has it.

namespace attndb::llama {
namespace {

bool CanRun(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// The file that this code was loaded from; empty if that is the program, which the system knows by
// the name alone that it was started by.
std::filesystem::path OwnFile() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&FindChatProgram), &info) == 0) return {};
  const std::filesystem::path file = info.dli_fname == nullptr ? "" : info.dli_fname;
  return file.is_absolute() ? file : std::filesystem::path();
}

Status NotStarted(const std::string& program, int error) {
  return Status::IoError("'" + program + "' can't be started: " + std::strerror(error));
}

// Starts `program` with `socket` as its standard input, and no other file of ours.
Result<pid_t> Spawn(const std::string& program, std::string argument, int socket) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
  // llama.cpp would print what users wrote.
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_WRONLY, 0);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::string name = kChatProgram;
  std::array<char*, 3> argv = {name.data(), argument.empty() ? nullptr : argument.data(), nullptr};
  pid_t child = -1;
  const int error = posix_spawn(&child, program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0) return NotStarted(program, error);
  return child;
}

}  // namespace

std::string FindChatProgram() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no thread of ours changes the environment.
  if (const char* named = std::getenv("ATTNDB_CHAT_PROGRAM"); named != nullptr) return named;
  std::error_code error;
  // A library's own folder first: another program's may have another version.
  for (const auto& file : {OwnFile(), std::filesystem::read_symlink("/proc/self/exe", error)}) {
    if (file.empty()) continue;
    const std::filesystem::path folder = file.parent_path();
    for (const auto& place : {folder, folder / "bin", folder / "../bin"}) {
      if (CanRun(place / kChatProgram)) return place / kChatProgram;
    }
  }
  return "";
}

Result<std::unique_ptr<ChatProcess>> ChatProcess::Start(const std::string& program,
                                                        std::string argument) {
  if (program.empty()) {
    return Status::Unsupported(
        "this needs the program attndb-chat, which is not there: attndb was built on a llama.cpp "
        "without `common`");
  }
  std::array<int, 2> sockets;
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) {
    return NotStarted(program, errno);
  }
  Result<pid_t> child = Spawn(program, std::move(argument), sockets[1]);
  close(sockets[1]);
  if (!child.ok()) {
    close(sockets[0]);
    return child.status();
  }
  return std::make_unique<ChatProcess>(*child, sockets[0]);
}

bool ChatProcess::has_ended() const {
  siginfo_t info = {};
  const int result = waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
  return result != 0 || info.si_pid != 0;
}

std::optional<int> ChatProcess::End() {
  if (child_ < 0) return std::nullopt;
  close(socket_);
  int status = 0;
  pid_t ended = 0;
  // It may have ended by itself, and then its own reason is wanted.
  while ((ended = waitpid(child_, &status, WNOHANG)) < 0 && errno == EINTR) {
  }
  if (ended == 0) {
    kill(child_, SIGKILL);
    while ((ended = waitpid(child_, &status, 0)) < 0 && errno == EINTR) {
    }
  }
  child_ = -1;
  return ended < 0 ? std::nullopt : std::optional<int>(status);
}

Status EndReason(const std::string& failed, std::optional<int> status, int cpu_seconds) {
  if (status && WIFSIGNALED(*status)) {
    const int signal = WTERMSIG(*status);
    if (signal == SIGPROF) {
      return Status::ResourceExhausted(failed + ": it took more than " +
                                       std::to_string(cpu_seconds) + " s of CPU time");
    }
    return Status::ResourceExhausted(failed + ": its process was ended by " + SignalName(signal));
  }
  if (status && WIFEXITED(*status) && WEXITSTATUS(*status) == kChatOutOfMemoryCode) {
    return Status::ResourceExhausted(failed + ": it took more than " +
                                     std::to_string(kChatMemoryBytes >> 20) + " MiB of memory");
  }
  return Status::ResourceExhausted(failed + ": its process gave no answer");
}

}  // namespace attndb::llama
