#include "cli/common/python_run.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "cli/common/exit_code.h"
#include "cli/common/interrupt.h"

namespace attndb::cli {
namespace {

constexpr size_t kMaxLineBytes = size_t{1} << 20;
constexpr size_t kMaxReasonBytes = 300;

struct ErrorFileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using ErrorFile = std::unique_ptr<std::FILE, ErrorFileCloser>;

// A file descriptor, closed at the end.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { Close(); }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// posix_spawn's: stdin is empty, stdout and stderr go to these.
class Redirections {
 public:
  Redirections(int out, int err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions_, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err, STDERR_FILENO);
  }
  ~Redirections() { posix_spawn_file_actions_destroy(&actions_); }
  Redirections(const Redirections&) = delete;
  Redirections& operator=(const Redirections&) = delete;
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

// Errors: kUnsupported (no such program); kResourceExhausted.
Result<pid_t> Spawn(const std::string& program, const std::vector<std::string>& words,
                    const Redirections& redirections) {
  std::vector<std::string> copies = words;  // posix_spawnp takes pointers that it could write to.
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, program.c_str(), redirections.get(), nullptr, arguments.data(), environ);
  if (error == 0) return child;
  const std::string why = "'" + program + "' can't be run: " + std::strerror(error);
  if (error == EAGAIN || error == ENOMEM) return Status::ResourceExhausted(why);
  return Status::Unsupported(why);
}

// Passes a pipe's content on, line by line, until its other end is closed.
class PipeLines {
 public:
  PipeLines(int fd, std::function<void(std::string_view)> on_line)
      : fd_(fd), on_line_(std::move(on_line)) {}

  // False: it was stopped by a signal, or by a line that is too long.
  bool Run() {
    std::array<char, 4096> buffer;
    while (text_.size() <= kMaxLineBytes && WaitToRead(fd_)) {
      const ssize_t length = read(fd_, buffer.data(), buffer.size());
      if (length < 0 && errno == EINTR) continue;
      if (length <= 0) return true;
      text_.append(buffer.data(), static_cast<size_t>(length));
      HandOver();
    }
    return false;
  }

 private:
  void HandOver() {
    size_t begin = 0;
    for (size_t end = text_.find('\n'); end != std::string::npos; end = text_.find('\n', begin)) {
      on_line_(std::string_view(text_).substr(begin, end - begin));
      begin = end + 1;
    }
    text_.erase(0, begin);
  }

  const int fd_;
  const std::function<void(std::string_view)> on_line_;
  std::string text_;  // The beginning of an unfinished line.
};

// The error in {"error": {"code", "message"}}; nullopt if `object` has none.
std::optional<Status> ErrorOf(const Json& object) {
  const auto error = object.find("error");
  if (error == object.end() || !error->is_object()) return std::nullopt;
  const auto text = [&error](const char* name) {
    const auto found = error->find(name);
    return found != error->end() && found->is_string() ? found->get<std::string>() : "";
  };
  return Status(CodeNamed(text("code")).value_or(StatusCode::kInternal), text("message"));
}

// The last line that a program wrote to its stderr: of a traceback, the exception.
std::string LastLine(std::FILE* file) {
  std::rewind(file);
  std::string last;
  std::string line;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) {
    if (c != '\n') {
      if (line.size() < kMaxReasonBytes) line += static_cast<char>(c);
      continue;
    }
    if (!line.empty()) last = std::exchange(line, "");
  }
  return line.empty() ? last : line;
}

// The status of an end without an error object.
Status StatusOfEnd(Environment* env, const std::string& program, int wait_status,
                   std::FILE* errors) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) return Status::Ok();
  std::string reason = LastLine(errors);
  constexpr std::string_view kImportError = "ImportError: ";  // "... attndb.plot needs matplotlib".
  // "python3: Error while finding ... (ModuleNotFoundError: No module named 'attndb')".
  const size_t no_module = reason.find("No module named");
  if (no_module != std::string::npos || reason.starts_with(kImportError)) {
    reason.erase(0, no_module != std::string::npos ? no_module : kImportError.size());
    if (reason.ends_with(')')) reason.pop_back();
    return env->WithAdvice(
        Status::Unsupported(program + ": " + reason),
        "\"pip install '.[plot]'\" in attndb's folder brings it, ATTNDB_PYTHON names the Python");
  }
  if (WIFSIGNALED(wait_status)) {
    reason =
        "signal " + std::to_string(WTERMSIG(wait_status)) + (reason.empty() ? "" : ", ") + reason;
  }
  return Status::Internal(program + " failed: " + reason);
}

}  // namespace

std::string PythonProgram() {
  const std::string named = EnvironmentText("ATTNDB_PYTHON");
  return named.empty() ? "python3" : named;
}

Status RunPython(Environment* env, const std::string& module,
                 const std::vector<std::string>& arguments,
                 const std::function<void(const Json&)>& on_object) {
  const std::string program = PythonProgram();
  std::vector<std::string> words = {program, "-P", "-m", module};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::array<int, 2> ends;
  const ErrorFile errors(std::tmpfile());
  if (errors == nullptr || pipe2(ends.data(), O_CLOEXEC) != 0) {
    return Status::ResourceExhausted(std::string("no pipe for Python: ") + std::strerror(errno));
  }
  const Fd out(ends[0]);
  Fd child_out(ends[1]);
  const Result<pid_t> child =
      Spawn(program, words, Redirections(child_out.get(), fileno(errors.get())));
  if (!child.ok()) {
    return env->WithAdvice(child.status(), "ATTNDB_PYTHON names a Python that has attndb");
  }
  child_out.Close();
  std::optional<Status> error;
  PipeLines lines(out.get(), [&](std::string_view line) {
    const std::optional<Json> object = ReadJson(line);
    if (!object || !object->is_object()) return;
    if (!error) error = ErrorOf(*object);
    if (!error) on_object(*object);
  });
  if (!lines.Run()) kill(*child, SIGTERM);
  int wait_status = 0;
  while (waitpid(*child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (Interrupted()) return Status::Cancelled("interrupted");
  return error ? *error : StatusOfEnd(env, program, wait_status, errors.get());
}

}  // namespace attndb::cli
