#include "cli/common/other_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

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

Status BecomeProgram(Environment* env, const std::string& name, const std::string& advice) {
  const std::string path = PathBeside(name);
  std::vector<std::string> words = env->options().words;
  words.insert(words.begin(), env->options().program);  // Lists of processes show the command.
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  if (errno == ENOENT || errno == EACCES) {
    return env->WithAdvice(Status::Unsupported("this needs the program " + name +
                                               ", which is not there: '" + path + "'"),
                           advice);
  }
  return Status::IoError("'" + path + "' can't be started: " + std::strerror(errno));
}

}  // namespace attndb::cli
