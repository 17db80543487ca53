#include "cli/common/other_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace attndb::cli {
namespace {

std::string PathBeside(const std::string& name) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "" : (self.parent_path() / name).string();
}

}  // namespace

std::optional<std::string> ProgramBeside(const std::string& name) {
  const std::string path = PathBeside(name);
  if (path.empty() || access(path.c_str(), X_OK) != 0) return std::nullopt;
  return path;
}

Status BecomeProgram(Environment* env, const std::string& name, std::vector<std::string> words,
                     const std::string& advice) {
  const std::string path = PathBeside(name);
  words.insert(words.begin(), env->options().program);  // Lists of processes show the command.
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);  // execv drops the text that is still in buffers.
  execv(path.c_str(), argv.data());
  if (errno == ENOENT) {
    return env->WithAdvice(Status::Unsupported("this needs the program " + name +
                                               ", which is not there: '" + path + "'"),
                           advice);
  }
  Status status = Status::IoError("'" + path + "' can't be run: " + std::strerror(errno));
  if (errno != EACCES) return status;
  return env->WithAdvice(std::move(status),
                         "check that its file is executable, and that its disk is not mounted "
                         "with noexec");
}

}  // namespace attndb::cli
